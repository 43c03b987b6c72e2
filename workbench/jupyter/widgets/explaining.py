"""Looks that explain: one matmul on its array, a kernel's loop over tiles. Each also is a widget of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.jupyter.widgets.base import Answer, LabWidget, Later
from workbench.jupyter.widgets.look import Look
from workbench.views import arrays, pipelines

if TYPE_CHECKING:
    from workbench.artefacts.array import ArrayView
    from workbench.artefacts.pipeline import PipelineView
    from workbench.artefacts.simulated import Simulated
    from workbench.views.columns import Columns

EXPLAINING_SHEETS: Final = ("explaining.css",)


MOST_RECORDED: Final = 400
"""Matmuls of a run that a page without Python keeps; each is about two kilobytes."""
MOST_RECORDED_SPANS: Final = 20_000
"""Spans of a run whose pipelines such a page keeps."""


class ArrayLook(Look):
    """What the browser asks: which spans are matmuls, and one of them on its array."""

    name = "array"

    def __init__(self, simulated: Callable[[], Simulated], first: int | None = None) -> None:
        super().__init__()
        self._of_run, self._first = simulated, first

    def answer_open(self) -> Answer:
        """All matmuls, and the one that is shown where nothing is selected."""
        trace = self._of_run().record
        block = arrays.matmul_columns(trace)
        first = self._first if self._first is not None else next(iter(arrays.matmuls(trace)), None)
        return _sent(block, {"first": first})

    def answer_walk(self, span: int) -> Answer:
        trace = self._of_run().record
        return _sent(arrays.walk_columns(arrays.walk_of(trace, span), trace), {})

    def recorded(self) -> Sequence[tuple[str, Mapping[str, object]]] | None:
        spans = arrays.matmuls(self._of_run().record)
        return None if len(spans) > MOST_RECORDED else [("open", {}), *(("walk", {"span": span}) for span in spans)]


class PipelineLook(Look):
    """What the browser asks: the launches, and one with its iterations."""

    name = "pipeline"

    def __init__(self, simulated: Callable[[], Simulated], first: int | None = None, loop: str | None = None) -> None:
        super().__init__()
        self._of_run, self._first, self._loop = simulated, first, loop

    def answer_open(self) -> Answer:
        """The launches that run tiles with their rows of the events, and the one that is shown where nothing is
        selected."""
        run = self._of_run()
        trace, names = run.record, [each.name for each in run.scheduled.launches.launches]
        tiled = pipelines.of_tiles(trace)
        edges = np.searchsorted(trace.launch, np.arange(len(names) + 1)).tolist()
        launches = [{"launch": n, "name": names[n], "first": edges[n], "end": edges[n + 1]} for n in tiled]
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


def _sent(block: Columns, beside: dict[str, object]) -> Answer:
    return {**beside, "header": dict(block.header)}, [memoryview(block.data)]


class ArrayWidget(LabWidget, module="array_widget.js", sheets=EXPLAINING_SHEETS):
    """What `j.simulated.array(span).widget()` returns."""

    def __init__(self, view: ArrayView) -> None:
        self._view = view
        super().__init__(ArrayLook(lambda: view.run, view.span))

    def static_html(self) -> str:
        return self._view.html()

    def __repr__(self) -> str:
        return f"ArrayWidget({self._view!r})"


class PipelineWidget(LabWidget, module="pipeline_widget.js", sheets=EXPLAINING_SHEETS):
    """What `j.simulated.pipeline(kernel).widget()` returns."""

    def __init__(self, view: PipelineView) -> None:
        self._view = view
        super().__init__(PipelineLook(lambda: view.run, view.record.launch, view.loop))

    def static_html(self) -> str:
        return self._view.html()

    def __repr__(self) -> str:
        return f"PipelineWidget({self._view!r})"


def array(view: ArrayView) -> ArrayWidget:
    return ArrayWidget(view)


def pipeline(view: PipelineView) -> PipelineWidget:
    return PipelineWidget(view)
