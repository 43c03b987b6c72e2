"""Looks that explain: one matmul on its array, a kernel's loop over tiles. Each also is a widget of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from markupsafe import Markup

from workbench.explaining.views.kernel_lists import CONTEXT
from workbench.explaining.views.selections.lab_lists import MlirList
from workbench.explaining.views.timelines import arrays, pipelines
from workbench.ground.basics.highlight import mlir_line
from workbench.ground.basics.mlir_diff import shown
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.answers import Answer, Later
from workbench.jupyter.widgets.look import Look
from workbench.jupyter.widgets.widget_base import LabWidget

if TYPE_CHECKING:
    from workbench.explaining.artefacts.passes_handle import Passes
    from workbench.explaining.artefacts.run_views import ArrayView, PipelineView, Run
    from workbench.explaining.views.kernel_lists.pass_lines import PassTrace
    from workbench.explaining.views.kernel_lists.pass_tables import Pass
    from workbench.explaining.views.timelines.columns import Columns
    from workbench.ground.basics.mlir_diff import Diff

EXPLAINING_SHEETS: Final = ("explaining.css",)


MOST_RECORDED: Final = 1_500
"""Matmuls of a run that a page without Python keeps; each is about a kilobyte."""
MOST_RECORDED_LINES: Final = 20_000
"""Lines of MLIR in all texts between passes that such a page keeps."""
MOST_RECORDED_SPANS: Final = 20_000
"""Spans of a run whose pipelines such a page keeps."""


class ArrayLook(Look):
    """What the browser asks: which spans are matmuls, and one of them on its array."""

    name = "array"

    def __init__(self, simulated: Callable[[], Run], first: int | None = None) -> None:
        super().__init__()
        self._of_run, self._first = simulated, first

    def answer_open(self) -> Answer:
        """All matmuls, and the one that is shown where nothing is selected."""
        trace = self._of_run().record
        block = arrays.matmul_columns(trace)
        first = self._first if self._first is not None else next(iter(arrays.matmuls(trace)), None)
        return _sent(block, {"first": first})

    def answer_walk(self, span: int) -> Answer:
        run = self._of_run()
        return _sent(arrays.walk_columns(arrays.walk_of(run.record, span), run.record, run.scheduled.launches), {})

    def recorded(self) -> Sequence[tuple[str, Mapping[str, object]]] | None:
        spans = arrays.matmuls(self._of_run().record)
        return None if len(spans) > MOST_RECORDED else [("open", {}), *(("walk", {"span": span}) for span in spans)]


class PipelineLook(Look):
    """What the browser asks: the launches, and one with its iterations."""

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
        return Later(lambda: _sent(pipelines.pipeline_columns(view), {}))

    def recorded(self) -> Sequence[tuple[str, Mapping[str, object]]] | None:
        run = self._of_run()
        if len(run.record) > MOST_RECORDED_SPANS:
            return None
        asked: list[tuple[str, Mapping[str, object]]] = [("open", {})]
        for launch in pipelines.of_tiles(run.record):
            view = pipelines.pipeline_of(run.record, run.scheduled.launches, launch, None)
            asked += [("launch", {"launch": launch, "loop": loop}) for loop in (None, *view.known_loops)]
        return asked


class PassesLook(Look):
    """What the browser asks: the kernels, the passes of one, a text between two passes, and what changed from one
    text to another."""

    name = "passes"

    def __init__(
        self, traces: Callable[[], Sequence[PassTrace]], launched: Callable[[], Mapping[str, Sequence[range]]] | None
    ) -> None:
        """`launched` has the rows of the events that each kernel runs as, where they can be selected."""
        super().__init__()
        self._make, self._launched = traces, launched

    @cached_property
    def _traces(self) -> dict[str, PassTrace]:
        return {trace.kernel.kernel: trace for trace in self._make()}

    @cached_property
    def _starts(self) -> dict[str, dict[str, int]]:
        """Where each kernel's lines begin in the lab's lists of MLIR on tensors and on tiles."""
        found = dict[str, dict[str, int]]()
        for name, texts in (
            ("rendered", {each.module.kernel: each.module.mlir for each in self._traces.values() if each.module}),
            ("scheduled", {each.kernel.kernel: each.kernel.mlir for each in self._traces.values()}),
        ):
            outline = MlirList(name, texts).outline()
            found[name] = {kernel: start for kernel, (start, _) in zip(texts, outline, strict=False)}
        return found

    def answer_open(self) -> Answer:
        """The kernels, and where each runs."""
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
        """A text line by line; and for lines that are known before or after scheduling their rows in the lab's lists,
        from 1 on, 0 for none."""
        return Later(lambda: self._text(self._trace(kernel), number))

    def _text(self, trace: PassTrace, number: int) -> Answer:
        places = range(len(trace.texts[number]))
        known = {"rendered": trace.rendered_lines[number], "scheduled": trace.scheduled_lines[number]}
        columns = {name: np.zeros(len(places), "<u4") for name in known}
        for name, lines in known.items():
            for place, line in lines.items() if self._launched else ():
                columns[name][place] = self._starts[name][trace.kernel.kernel] + line
        return {"lines": [mlir_line(line) for line in trace.texts[number]]}, [
            each.tobytes() for each in columns.values()
        ]

    def answer_diff(self, kernel: str, before: int, after: int) -> Later:
        """Stretches: how many lines are left out, or whether both texts have them, the first of each and how many."""
        return Later(lambda: {"stretches": _stretches(self._trace(kernel).between(before, after))})

    def recorded(self) -> Sequence[tuple[str, Mapping[str, object]]] | None:
        traces = self._traces
        if sum(len(text) for trace in traces.values() for text in trace.texts) > MOST_RECORDED_LINES:
            return None
        asked: list[tuple[str, Mapping[str, object]]] = [("open", {})]
        for name, trace in traces.items():
            count = len(trace.steps)
            asked.append(("kernel", {"kernel": name}))
            asked += [("text", {"kernel": name, "number": number}) for number in range(count + 1)]
            pairs = {*pairwise(range(count + 1)), *([(0, count)] if count else [])}
            asked += [("diff", {"kernel": name, "before": first, "after": last}) for first, last in sorted(pairs)]
        return asked


def _about(step: Pass) -> dict[str, object]:
    """A pass in the list."""
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


def _stretches(diff: Diff) -> list[list[int]]:
    found = list[list[int]]()
    for change in shown(diff, CONTEXT):
        if isinstance(change, int):
            found.append([change])
            continue
        before, after = (lines[0] if lines else 0 for lines in (change.before, change.after))
        found.append([int(change.same), before, len(change.before), after, len(change.after)])
    return found


def _sent(block: Columns, beside: dict[str, object]) -> Answer:
    return {**beside, "header": dict(block.header)}, [memoryview(block.data)]


class ArrayWidget(LabWidget, module="array_widget.js", sheets=EXPLAINING_SHEETS):
    """What `j.simulated.array(span).widget()` returns."""

    def __init__(self, view: ArrayView) -> None:
        self._view = view
        super().__init__(ArrayLook(lambda: view.run, view.span))

    def static_html(self) -> Markup:
        return self._view.html()

    def __repr__(self) -> str:
        return f"ArrayWidget({self._view!r})"


class PipelineWidget(LabWidget, module="pipeline_widget.js", sheets=EXPLAINING_SHEETS):
    """What `j.simulated.pipeline(kernel).widget()` returns."""

    def __init__(self, view: PipelineView) -> None:
        self._view = view
        super().__init__(PipelineLook(lambda: view.run, view.record.launch, view.loop))

    def static_html(self) -> Markup:
        return self._view.html()

    def __repr__(self) -> str:
        return f"PipelineWidget({self._view!r})"


class PassesWidget(LabWidget, module="passes_widget.js", sheets=EXPLAINING_SHEETS):
    """What `kernel.passes.widget()` returns."""

    def __init__(self, view: Passes) -> None:
        self._view = view
        super().__init__(PassesLook(lambda: [view.trace], None))

    def static_html(self) -> Markup:
        return self._view.html()

    def __repr__(self) -> str:
        return f"PassesWidget({self._view!r})"


def array(view: ArrayView) -> ArrayWidget:
    return ArrayWidget(view)


def pipeline(view: PipelineView) -> PipelineWidget:
    return PipelineWidget(view)


def passes(view: Passes) -> PassesWidget:
    return PassesWidget(view)
