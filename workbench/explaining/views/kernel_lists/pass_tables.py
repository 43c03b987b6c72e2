"""The passes of a kernel for reading: the changes, the pipeline and the place of the code of each pass."""

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
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Cell, Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.ir import KernelModule, ScheduledKernel, Snapshot
from workbench.scheduling.passes.pass_places import places

_YOURS = "yours: "


@dataclass(frozen=True, repr=False)
class Pass(Shown):
    """One step from the rendered to the scheduled kernel, or a few together. Texts are compared on demand."""

    kernel: str
    number: int
    """The number of the step, from 1 to `count`."""
    count: int
    record: Snapshot
    before: str | None
    """The text of the kernel before the step; None for the first pass if the rendered kernel is not known."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def pipeline(self) -> str:
        """The pipeline as MLIR writes it; run on the text before the step, it gives the text after the step."""
        return self.record.pipeline

    @property
    def source(self) -> str:
        """The place of the code of the step's passes: a file of the workbench or of the user, or the name of a pass of
        MLIR."""
        return places(self.pipeline, users=self.name.startswith(_YOURS))

    @property
    def seconds(self) -> float:
        return self.record.seconds

    @property
    def ops_before(self) -> int:
        return self.record.ops_before

    @property
    def ops_after(self) -> int:
        return self.record.ops_after

    @property
    def mlir(self) -> str:
        """The text of the kernel after the step."""
        return self.record.mlir

    @cached_property
    def diff(self) -> Diff | None:
        """The changes of the step: lines that are equal except for the numbers of values and maps, and lines that
        differ."""
        return None if self.before is None else compared(self.before, self.mlir)

    @property
    def changes(self) -> bool:
        """True if the step changed more than names."""
        return self.diff is None or not self.diff.empty

    @property
    def summary(self) -> str:
        """The changes of the step in a few words."""
        if self.diff is None:
            return "the first text"
        if self.changes:
            return f"+{self.diff.added} -{self.diff.removed} lines"
        return "nothing changed" if self.diff.before == self.diff.after else "nothing changed but names"

    @property
    def note(self) -> str:
        """The changes, operations and time of the step in a line."""
        return f"{self.summary} · {self.ops_before} → {self.ops_after} ops · {self.seconds * 1e3:.1f} ms"

    @knows_its_options
    def text(self, *, side_by_side: bool = False, context: int = CONTEXT, width: int = 150) -> str:
        """The changes of the step, with `context` lines around: below each other, or `side_by_side` in `width`
        letters."""
        if context < 0:
            raise BadOption(f"context={context}: expected lines, 0 or more")
        return _text(self, context=context, width=width if side_by_side else 0)

    @knows_its_options
    def html(self) -> Markup:
        """Pipeline, source, and the changes of the step in one column and in two."""
        return markup.fragment(step_html(self))

    def __repr__(self) -> str:
        return f"Pass({self.name!r} of {self.kernel!r}: {self.summary})"


def steps_of(kernel: ScheduledKernel, rendered: Iterable[KernelModule] = ()) -> tuple[Pass, ...]:
    """A kernel's passes, each with the text before the pass; the first one has the rendered kernel's text."""
    first = next((module.mlir for module in rendered if module.kernel == kernel.kernel), None)
    texts = [first, *(snapshot.mlir for snapshot in kernel.passes)]
    count = len(kernel.passes)
    return tuple(
        Pass(kernel.kernel, number, count, snapshot, before)
        for number, (snapshot, before) in enumerate(zip(kernel.passes, texts, strict=False), start=1)
    )


def table(steps: Sequence[Pass]) -> Table:
    """One row a pass."""

    def row(step: Pass) -> tuple[Cell, ...]:
        added, removed = (step.diff.added, step.diff.removed) if step.diff else (None, None)
        ops, milliseconds = (step.ops_before, step.ops_after), round(step.seconds * 1e3, 3)
        return step.name, added, removed, *ops, milliseconds, step.pipeline, step.source

    columns = ("pass", "lines_added", "lines_removed", "ops_before", "ops_after", "milliseconds", "pipeline", "source")
    return Table(columns, tuple(map(row, steps)))


def folded(steps: Sequence[Pass]) -> list[tuple[bool, list[Pass]]]:
    """Groups of passes: one for each pass that changed something, and one for adjacent passes that changed nothing."""
    runs = [(changed, list(run)) for changed, run in groupby(steps, key=lambda step: step.changes)]
    return [part for changed, run in runs for part in ([(True, [step]) for step in run] if changed else [(False, run)])]


def _fold_text(steps: Sequence[Pass]) -> str:
    names = ", ".join(step.name for step in steps)
    return f"{len(steps)} pass{'es' * (len(steps) > 1)} changed nothing: {names}"


def steps_text(steps: Sequence[Pass], *, context: int) -> str:
    """All passes of a kernel, those that changed nothing in one line."""
    parts = [_text(run[0], context=context) if change else _fold_text(run) for change, run in folded(steps)]
    return "\n\n".join(parts) or "no passes: the kernel was written in the scheduled form"


def _text(step: Pass, *, context: int, width: int = 0) -> str:
    """One pass; with a width, the texts before and after stand beside each other in so many letters."""
    head = [
        f"{step.kernel}, pass {step.number} of {step.count}: {step.name}  ({step.note})",
        f"pipeline: {step.pipeline}",
        f"source: {step.source}",
    ]
    if step.diff is None:
        return "\n".join([*head, step.mlir.strip("\n")])
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


def steps_html(steps: Sequence[Pass]) -> Markup:
    """All passes of a kernel below each other, closed; adjacent passes that changed nothing share a part."""
    parts: list[Markup] = []
    for changed, run in folded(steps):
        if changed:
            parts.append(markup.details(run[0].name, _pass_body(run[0]), note=run[0].note))
        else:
            each = joined(markup.heading(step.name) + _origin(step) for step in run)
            parts.append(markup.details(_fold_text(run), each))
    return joined(parts) or html('<p class="soft">No passes: the kernel was written in the scheduled form.</p>')


def step_html(step: Pass, *, context: int = CONTEXT) -> Markup:
    """One pass: its origin, its changes in one column and in two, and the whole text after it."""
    head = html("<b>{}</b>: pass {} of {} of {}", step.name, step.number, step.count, step.kernel)
    parts = [html('<p>{head}<br><span class="soft">{}</span></p>', step.note, head=head), _pass_body(step, context)]
    if step.diff and step.changes:
        parts.append(markup.details("before and after, side by side", side_by_side(step.diff, context=context)))
    if step.diff:
        lines = len(step.mlir.strip().splitlines())
        parts.append(markup.details("the kernel after this pass", code(step.mlir), note=f"{lines} lines"))
    return joined(parts)


def _pass_body(step: Pass, context: int = CONTEXT) -> Markup:
    if step.diff is None:
        return _origin(step) + code(step.mlir)
    return _origin(step) + (unified(step.diff, context=context) if step.changes else NO_HTML)


def _origin(step: Pass) -> Markup:
    """The pipeline, which one click selects whole, and where its passes are written."""
    pipeline = html('<code class="whole">{}</code>', step.pipeline)
    return html('<p>{pipeline}<br><span class="soft">{}</span></p>', step.source, pipeline=pipeline)
