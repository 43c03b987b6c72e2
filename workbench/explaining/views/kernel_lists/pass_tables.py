"""The passes of a kernel for reading: the changes of each, its pipeline, and the place of its code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, zip_longest

from markupsafe import Markup

from workbench.explaining.views.kernel_lists import CONTEXT
from workbench.ground.basics import markup
from workbench.ground.basics.highlight import code, side_by_side, unified
from workbench.ground.basics.html_builder import NO_HTML, html, joined
from workbench.ground.basics.mlir_diff import Diff, compared, shown
from workbench.ground.basics.table import Table
from workbench.ir import KernelModule, ScheduledKernel, Snapshot
from workbench.scheduling.passes.pass_places import places

_YOURS = "yours: "


@dataclass(frozen=True)
class Step:
    """One pass, or a few that run together, and its input text. Texts are compared on demand."""

    kernel: str
    number: int
    """From 1 on, of so many."""
    count: int
    made: Snapshot
    before: str | None
    """None for the first one if the rendered kernel is not known."""

    @cached_property
    def diff(self) -> Diff | None:
        return None if self.before is None else compared(self.before, self.made.mlir)

    @property
    def changes(self) -> bool:
        """True if it changed more than names."""
        return self.diff is None or not self.diff.empty

    @property
    def told(self) -> str:
        """Its changes in a few words."""
        if self.diff is None:
            return "the first text"
        if self.changes:
            return f"+{self.diff.added} -{self.diff.removed} lines"
        return "nothing changed" if self.diff.before == self.diff.after else "nothing changed but names"

    @property
    def source(self) -> str:
        """Where the code of its passes stands."""
        return places(self.made.pipeline, users=self.made.name.startswith(_YOURS))

    @property
    def note(self) -> str:
        return f"{self.told} · {self.made.ops_before} → {self.made.ops_after} ops · {self.made.seconds * 1e3:.1f} ms"


def steps_of(kernel: ScheduledKernel, rendered: Iterable[KernelModule] = ()) -> tuple[Step, ...]:
    """A kernel's passes, each with the text before it: of the first, the rendered kernel's."""
    first = next((module.mlir for module in rendered if module.kernel == kernel.kernel), None)
    texts = [first, *(made.mlir for made in kernel.passes)]
    count = len(kernel.passes)
    return tuple(
        Step(kernel.kernel, number, count, made, before)
        for number, (made, before) in enumerate(zip(kernel.passes, texts, strict=False), start=1)
    )


def table(steps: Sequence[Step]) -> Table:
    """One row a pass."""
    rows = tuple(
        (
            step.made.name,
            step.diff.added if step.diff else None,
            step.diff.removed if step.diff else None,
            step.made.ops_before,
            step.made.ops_after,
            round(step.made.seconds * 1e3, 3),
            step.made.pipeline,
            step.source,
        )
        for step in steps
    )
    columns = ("pass", "lines_added", "lines_removed", "ops_before", "ops_after", "milliseconds", "pipeline", "source")
    return Table(columns, rows)


def folded(steps: Sequence[Step]) -> list[tuple[bool, list[Step]]]:
    """Passes that changed something one by one, those between that did not together."""
    runs = [(changed, list(run)) for changed, run in groupby(steps, key=lambda step: step.changes)]
    return [part for changed, run in runs for part in ([(True, [step]) for step in run] if changed else [(False, run)])]


def _fold_text(steps: Sequence[Step]) -> str:
    names = ", ".join(step.made.name for step in steps)
    return f"{len(steps)} pass{'es' * (len(steps) > 1)} changed nothing: {names}"


def steps_text(steps: Sequence[Step], *, context: int) -> str:
    """All passes of a kernel, those that changed nothing in one line."""
    parts = [step_text(run[0], context=context) if change else _fold_text(run) for change, run in folded(steps)]
    return "\n\n".join(parts) or "no passes: the kernel was written in the scheduled form"


def step_text(step: Step, *, context: int, width: int = 0) -> str:
    """One pass; with a width, the texts before and after stand beside each other in so many letters."""
    head = [
        f"{step.kernel}, pass {step.number} of {step.count}: {step.made.name}  ({step.note})",
        f"pipeline: {step.made.pipeline}",
        f"source: {step.source}",
    ]
    if step.diff is None:
        return "\n".join([*head, step.made.mlir.strip("\n")])
    if not step.changes:
        return "\n".join(head)
    return "\n".join([*head, *(_beside(step.diff, context, width) if width else _unified(step.diff, context))])


def _unified(diff: Diff, context: int) -> Iterable[str]:
    for change in shown(diff, context):
        if isinstance(change, int):
            yield _left_out(change)
        elif change.same:
            yield from (f"  {diff.after[line]}" for line in change.after)
        else:
            yield from (f"- {diff.before[line]}" for line in change.before)
            yield from (f"+ {diff.after[line]}" for line in change.after)


def _left_out(count: int) -> str:
    return f"  … {count} line{'s' * (count > 1)} the same"


def _beside(diff: Diff, context: int, width: int) -> Iterable[str]:
    half = max((width - 3) // 2, 8)
    for change in shown(diff, context):
        if isinstance(change, int):
            yield _left_out(change)
            continue
        sign = " " if change.same else "|"
        for old, new in zip_longest(change.before, change.after):
            left, right = (
                _cut(texts[line], half) if line is not None else ""
                for texts, line in ((diff.before, old), (diff.after, new))
            )
            yield f"{left:<{half}} {sign} {right}".rstrip()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def steps_html(steps: Sequence[Step]) -> Markup:
    """All passes of a kernel below each other, closed; those that changed nothing in one."""
    parts: list[Markup] = []
    for changed, run in folded(steps):
        if changed:
            parts.append(markup.details(run[0].made.name, _pass_body(run[0]), note=run[0].note))
        else:
            each = joined(markup.heading(step.made.name) + _origin(step) for step in run)
            parts.append(markup.details(_fold_text(run), each))
    return joined(parts) or html('<p class="soft">No passes: the kernel was written in the scheduled form.</p>')


def step_html(step: Step, *, context: int = CONTEXT) -> Markup:
    """One pass: its origin, its changes in one column and in two, and the whole text after it."""
    head = html("<b>{}</b>: pass {} of {} of {}", step.made.name, step.number, step.count, step.kernel)
    parts = [html('<p>{head}<br><span class="soft">{}</span></p>', step.note, head=head), _pass_body(step, context)]
    if step.diff and step.changes:
        parts.append(markup.details("before and after, side by side", side_by_side(step.diff, context=context)))
    if step.diff:
        lines = len(step.made.mlir.strip().splitlines())
        parts.append(markup.details("the kernel after this pass", code(step.made.mlir), note=f"{lines} lines"))
    return joined(parts)


def _pass_body(step: Step, context: int = CONTEXT) -> Markup:
    if step.diff is None:
        return _origin(step) + code(step.made.mlir)
    return _origin(step) + (unified(step.diff, context=context) if step.changes else NO_HTML)


def _origin(step: Step) -> Markup:
    """The pipeline, which one click selects whole, and where its passes are written."""
    pipeline = html('<code class="whole">{}</code>', step.made.pipeline)
    return html('<p>{pipeline}<br><span class="soft">{}</span></p>', step.source, pipeline=pipeline)
