"""Looks that explain: one matmul on its array, a kernel's loop over tiles, and a kernel's passes. Each is also a widget
of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from workbench.explaining.views.kernel_lists import CONTEXT
from workbench.explaining.views.selections.lab_lists import MlirList
from workbench.explaining.views.timelines import arrays, pipelines
from workbench.ground.basics.highlight import box, diff_row, left_out
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.mlir_diff import shown
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.answers import Answer, Later, in_columns
from workbench.jupyter.widgets.look import Look, Question
from workbench.jupyter.widgets.widget_base import LabWidget

if TYPE_CHECKING:
    from workbench.explaining.artefacts.passes_handle import Passes
    from workbench.explaining.artefacts.run_views import ArrayView, PipelineView, Run
    from workbench.explaining.views.kernel_lists.pass_lines import PassTrace
    from workbench.explaining.views.kernel_lists.pass_tables import Pass

EXPLAINING_SHEETS: Final = ("explaining.css",)

MOST_RECORDED: Final = 1_500
"""The most matmuls of a run that a page without Python keeps; each is about a kilobyte."""
MOST_RECORDED_LINES: Final = 20_000
"""The most lines of MLIR, in all texts between passes, that such a page keeps."""
MOST_RECORDED_SPANS: Final = 20_000
"""The most spans of a run whose pipelines such a page keeps."""


class ArrayLook(Look):
    """Answers about matmuls: which spans they are, and one of them on its array."""

    name = "array"

    def __init__(self, simulated: Callable[[], Run], first: int | None = None) -> None:
        super().__init__()
        self._of_run, self._first = simulated, first

    def answer_open(self) -> Answer:
        """All matmuls, and the one that is shown where nothing is selected."""
        trace = self._of_run().record
        block = arrays.matmul_columns(trace)
        first = self._first if self._first is not None else next(iter(arrays.matmuls(trace)), None)
        return in_columns(block, first=first)

    def answer_walk(self, span: int) -> Answer:
        run = self._of_run()
        return in_columns(arrays.walk_columns(arrays.walk_of(run.record, span), run.record, run.scheduled.launches))

    def recorded(self) -> Sequence[Question] | None:
        spans = arrays.matmuls(self._of_run().record)
        return None if len(spans) > MOST_RECORDED else [("open", {}), *(("walk", {"span": span}) for span in spans)]


class PipelineLook(Look):
    """Answers about launches that run tiles, and about the iterations of one of them."""

    name = "pipeline"

    def __init__(self, simulated: Callable[[], Run], first: int | None = None, loop: str | None = None) -> None:
        super().__init__()
        self._of_run, self._first, self._loop = simulated, first, loop

    def answer_open(self) -> Answer:
        """The launches that run tiles with their rows of the events, and the one that is shown where nothing is
        selected."""
        run = self._of_run()
        trace, names = run.record, [each.name for each in run.scheduled.launches.launches]
        tiled = pipelines.of_tiles(trace)
        rows = {n: trace.rows_of(n) for n in tiled}
        launches = [{"launch": n, "name": names[n], "first": rows[n].start, "end": rows[n].stop} for n in tiled]
        first = self._first if self._first is not None else next(iter(tiled), None)
        return {"launches": launches, "first": first, "loop": self._loop}

    def answer_launch(self, launch: int, loop: str | None) -> Later:
        run = self._of_run()
        view = pipelines.pipeline_of(run.record, run.scheduled.launches, launch, loop)
        return Later(lambda: in_columns(pipelines.pipeline_columns(view)))

    def recorded(self) -> Sequence[Question] | None:
        run = self._of_run()
        if len(run.record) > MOST_RECORDED_SPANS:
            return None
        asked: list[Question] = [("open", {})]
        for launch in pipelines.of_tiles(run.record):
            view = pipelines.pipeline_of(run.record, run.scheduled.launches, launch, None)
            asked += [("launch", {"launch": launch, "loop": loop}) for loop in (None, *view.known_loops)]
        return asked


class PassesLook(Look):
    """Answers about kernels: the passes of one, a text between two passes, and the changes from one text to another."""

    name = "passes"

    def __init__(
        self, traces: Callable[[], Sequence[PassTrace]], launched: Callable[[], Mapping[str, Sequence[range]]] | None
    ) -> None:
        """`launched` returns the rows of the events in which each kernel runs; None if rows cannot be selected."""
        super().__init__()
        self._make, self._launched = traces, launched

    @cached_property
    def _traces(self) -> dict[str, PassTrace]:
        return {trace.kernel.kernel: trace for trace in self._make()}

    @cached_property
    def _starts(self) -> dict[str, dict[str, int]]:
        """The first row of each kernel's lines in the lab's lists of MLIR on tensors and on tiles."""
        found = dict[str, dict[str, int]]()
        for name, texts in (
            ("rendered", {each.module.kernel: each.module.mlir for each in self._traces.values() if each.module}),
            ("scheduled", {each.kernel.kernel: each.kernel.mlir for each in self._traces.values()}),
        ):
            outline = MlirList(name, texts).outline()
            found[name] = {kernel: start for kernel, (start, _) in zip(texts, outline, strict=False)}
        return found

    def answer_open(self) -> Answer:
        """The kernels, and the rows of the events in which each runs."""
        launched: Mapping[str, Sequence[range]] = self._launched() if self._launched else {}
        rows = {name: [(each.start, each.stop) for each in launched.get(name, ())] for name in self._traces}
        return {"kernels": [{"name": name, "rows": rows[name]} for name in self._traces]}

    def answer_kernel(self, kernel: str) -> Later:
        return Later(lambda: {"passes": [_about(step) for step in self._trace(kernel).steps]})

    def _trace(self, kernel: str) -> PassTrace:
        if kernel not in self._traces:
            raise BadOption(f"there is no kernel {kernel!r} with passes; the kernels are {', '.join(self._traces)}")
        return self._traces[kernel]

    def answer_text(self, kernel: str, number: int) -> Later:
        """A whole text as HTML."""

        def drawn() -> Answer:
            trace = self._trace(kernel)
            lines = [self._line(trace, number, place) for place in range(len(trace.texts[number]))]
            return {"html": _box("the whole text", lines)}

        return Later(drawn)

    def answer_diff(self, kernel: str, before: int, after: int, beside: bool) -> Later:
        """The changes from one text to another as HTML: below each other, or `beside` each other."""
        return Later(lambda: {"html": self._changes(self._trace(kernel), before, after, beside)})

    def _changes(self, trace: PassTrace, before: int, after: int, beside: bool) -> Markup:
        found = trace.between(before, after)
        if found.empty:
            return html('<p class="soft">Nothing changed but names.</p>')
        old, new = partial(self._line, trace, before), partial(self._line, trace, after)
        left, right = list[Markup](), list[Markup]()
        for change in shown(found, CONTEXT):
            if isinstance(change, int):
                left.append(left_out(change, 1 if beside else 2))
                right.append(left_out(change))
            elif beside:
                for was, now in zip_longest(change.before, change.after):
                    left.append(old(was, None, "" if change.same else "minus"))
                    right.append(new(now, None, "" if change.same else "plus"))
            elif change.same:
                left += [new(now, [was + 1, now + 1]) for was, now in zip(change.before, change.after, strict=True)]
            else:
                left += [old(was, [was + 1, ""], "minus") for was in change.before]
                left += [new(now, ["", now + 1], "plus") for now in change.after]
        return _box("before", left) + _box("after", right) if beside else _box("changes", left)

    def _line(
        self, trace: PassTrace, text: int, place: int | None, numbers: Sequence[int | str] | None = None, kind: str = ""
    ) -> Markup:
        """A line with its number, or with `numbers`. A line that the kernel also has before or after scheduling gets
        its rows in the lab's lists, from 1 on."""
        if place is None:
            return diff_row("", [""], None)
        lists = {"rendered": trace.rendered_lines, "scheduled": trace.scheduled_lines} if self._launched else {}
        rows = {
            name: self._starts[name][trace.kernel.kernel] + lines[text][place]
            for name, lines in lists.items()
            if place in lines[text]
        }
        data = joined(html(' data-{}="{}"', name, row) for name, row in rows.items())
        attributes = html(' tabindex="0"') + data if rows else data
        return diff_row(f"{kind} k" if rows else kind, numbers or [place + 1], trace.texts[text][place], attributes)

    def recorded(self) -> Sequence[Question] | None:
        traces = self._traces
        if sum(len(text) for trace in traces.values() for text in trace.texts) > MOST_RECORDED_LINES:
            return None
        asked: list[Question] = [("open", {})]
        for name, trace in traces.items():
            count = len(trace.steps)
            asked.append(("kernel", {"kernel": name}))
            asked += [("text", {"kernel": name, "number": number}) for number in range(count + 1)]
            pairs = {*pairwise(range(count + 1)), *([(0, count)] if count else [])}
            asked += [
                ("diff", {"kernel": name, "before": first, "after": last, "beside": beside})
                for first, last in sorted(pairs)
                for beside in (False, True)
            ]
        return asked


def _about(step: Pass) -> dict[str, object]:
    """The data of a pass for the list."""
    return {
        "name": step.name,
        "changes": step.changes,
        "told": step.summary,
        "added": step.diff.added if step.diff else None,
        "removed": step.diff.removed if step.diff else None,
        "ops": [step.ops_before, step.ops_after],
        "milliseconds": round(step.seconds * 1e3, 2),
        "pipeline": step.pipeline,
        "source": step.source,
    }


def _box(label: str, lines: Sequence[Markup]) -> Markup:
    return box(lines, html(' role="group" aria-label="{}"', label))


class _ViewWidget(LabWidget):
    """A view alone, as a widget; readers without a kernel see the view's own HTML."""

    def __init__(self, view: ArrayView | PipelineView | Passes, look: Look) -> None:
        self._view = view
        super().__init__(look)

    def static_html(self) -> Markup:
        return self._view.html()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._view!r})"


class ArrayWidget(_ViewWidget, module="look_widget.js", sheets=EXPLAINING_SHEETS):
    """The result of `j.simulated.array(span).widget()`."""

    def __init__(self, view: ArrayView) -> None:
        super().__init__(view, ArrayLook(lambda: view.run, view.span))


class PipelineWidget(_ViewWidget, module="look_widget.js", sheets=EXPLAINING_SHEETS):
    """The result of `j.simulated.pipeline(kernel).widget()`."""

    def __init__(self, view: PipelineView) -> None:
        super().__init__(view, PipelineLook(lambda: view.run, view.record.launch, view.loop))


class PassesWidget(_ViewWidget, module="look_widget.js", sheets=EXPLAINING_SHEETS):
    """The result of `kernel.passes.widget()`."""

    def __init__(self, view: Passes) -> None:
        super().__init__(view, PassesLook(lambda: [view.trace], None))


array, pipeline, passes = ArrayWidget, PipelineWidget, PassesWidget
"""The names by which the views ask for their widgets."""
