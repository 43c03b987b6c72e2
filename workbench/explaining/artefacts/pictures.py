"""The way to the drawing code, which only notebooks need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from workbench.ground.errors import MissingExtra
from workbench.ground.offers import drawing_module

if TYPE_CHECKING:
    from workbench.explaining.artefacts.plot_types import Axes, Figure
    from workbench.explaining.views.comparisons.heat_map import HeatMap
    from workbench.explaining.views.scratchpads.launch_replay import Replays
    from workbench.explaining.views.scratchpads.scratchpad import Occupancy
    from workbench.explaining.views.scratchpads.tiles import Tiling
    from workbench.explaining.views.selections.selection_model import SelectionModel
    from workbench.explaining.views.timelines.aligned import Aligned
    from workbench.explaining.views.timelines.dram_contents import Contents
    from workbench.explaining.views.timelines.gantt import Gantt
    from workbench.explaining.views.timelines.roofline import Roofline


class Drawing(Protocol):
    """The pictures of the module `plot_timeline`."""

    def timeline(self, view: Gantt, ax: Axes | None, *, style: str, width: float) -> Axes: ...


class AlignedDrawing(Protocol):
    """The pictures of the module `plot_aligned`."""

    def aligned(self, view: Aligned, *, style: str, width: float) -> Figure: ...


class ScratchpadDrawing(Protocol):
    """The pictures of the module `plot_scratchpad`."""

    def scratchpad(self, view: Occupancy, ax: Axes | None, *, style: str, width: float) -> Axes: ...


class TilesDrawing(Protocol):
    """The pictures of the module `plot_tiles`."""

    def tiles(self, view: Tiling, *, style: str, width: float) -> Figure: ...


class RooflineDrawing(Protocol):
    """The pictures of the module `plot_roofline`."""

    def roofline(self, found: Roofline, ax: Axes | None, *, style: str, width: float) -> Axes: ...


class TrainingDrawing(Protocol):
    """The pictures of the module `plot_training`."""

    def parts(self, timelines: Sequence[tuple[str, Gantt]], *, style: str, width: float) -> Figure: ...

    def dram(self, found: Contents, ax: Axes | None, *, style: str, width: float) -> Axes: ...


class LabWidgets(Protocol):
    """The widgets of the module `widgets.stepper_widget`."""

    def stepper(
        self, journey: object, request: object, stages: object, checks: Mapping[str, object], *, stage: str
    ) -> object: ...

    def lab_page(
        self, journey: object, request: object, stages: object, checks: Mapping[str, object], *, title: str, static: str
    ) -> str: ...


def lab_widgets() -> LabWidgets:
    """How a journey is shown in the lab."""
    return cast(LabWidgets, _module("widgets.stepper_widget", "Without it there are j.html() and j.select(x)."))


class TimelineWidgets(Protocol):
    """The widgets of the module `widgets.timeline_widget`."""

    def timeline(self, runs: Sequence[object]) -> object: ...


def timeline_widgets() -> TimelineWidgets:
    """How a run is shown in the lab."""
    return cast(TimelineWidgets, _module("widgets.timeline_widget", "Without it there are .html(), .area and .gap."))


class MemoryWidgets(Protocol):
    """The widgets of the module `widgets.memory_widget`."""

    def memory(self, replays: Replays, selection: SelectionModel | None, *, begin: int, end: int) -> object: ...


def memory_widgets() -> MemoryWidgets:
    """How scratchpad and tiles are shown cycle by cycle."""
    return cast(MemoryWidgets, _module("widgets.memory_widget", "Without it there is j.simulated.at(cycle)."))


class ExplainingWidgets(Protocol):
    """The widgets of the module `widgets.explaining_widgets`."""

    def array(self, view: object) -> object: ...

    def pipeline(self, view: object) -> object: ...

    def passes(self, view: object) -> object: ...


def explaining_widgets() -> ExplainingWidgets:
    """How one matmul, one kernel's loop and the passes of a kernel are shown in the lab."""
    return cast(
        ExplainingWidgets, _module("widgets.explaining_widgets", "Without it there are .html(), .text() and .table.")
    )


class KnobWidgets(Protocol):
    """The widgets of the module `widgets.knobs_widget`."""

    def knob_editor(self, experiment: object, kernel: str | None, *, ends_session: bool) -> object: ...


def knob_widgets() -> KnobWidgets:
    """How knobs are turned in a notebook."""
    return cast(KnobWidgets, _module("widgets.knobs_widget", "Without it there are .turn, .table and .html()."))


class ComparisonWidgets(Protocol):
    """The widgets of the module `widgets.comparison_widget`."""

    def comparing(self, comparison: object) -> object: ...


def comparison_widgets() -> ComparisonWidgets:
    """How a comparison is shown in a notebook."""
    return cast(
        ComparisonWidgets, _module("widgets.comparison_widget", "Without it there are .html(), .nodes and .plot().")
    )


class HeatMapDrawing(Protocol):
    """The pictures of the module `plot_heat_map`."""

    def heat_map(self, view: HeatMap, ax: Axes | None, *, style: str, width: float) -> Axes: ...


def drawing() -> Drawing:
    """How timelines are drawn."""
    return cast(Drawing, _module("plot_timeline", "The timeline as text is j.simulated.text()."))


def drawing_of_scratchpads() -> ScratchpadDrawing:
    """How the scratchpad over time is drawn."""
    return cast(ScratchpadDrawing, _module("plot_scratchpad", "As text it is j.simulated.scratchpad.text()."))


def drawing_of_tiles() -> TilesDrawing:
    """How grids of tiles are drawn."""
    return cast(TilesDrawing, _module("plot_tiles", "As text they are j.scheduled.tiles(kernel).text()."))


def drawing_of_rooflines() -> RooflineDrawing:
    """How rooflines are drawn."""
    return cast(RooflineDrawing, _module("plot_roofline", "Without it there are .html(), .text() and .table."))


def drawing_of_training() -> TrainingDrawing:
    """How the parts of a training step, and what lies in DRAM, are drawn."""
    return cast(TrainingDrawing, _module("plot_training", "Without it there are .html(), .text() and .table."))


def drawing_of_comparisons() -> AlignedDrawing:
    """How the timelines of a comparison are drawn."""
    return cast(AlignedDrawing, _module("plot_aligned", "As text they are in .text() of the comparison."))


def drawing_of_heat_maps() -> HeatMapDrawing:
    """How maps over two knobs are drawn."""
    return cast(HeatMapDrawing, _module("plot_heat_map", "Without it there are .html(), .text() and .table."))


def _module(name: str, instead: str) -> ModuleType:
    """A drawing module, which the edge of the library offers: the core neither imports nor needs matplotlib."""
    try:
        return drawing_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed, and pictures and widgets need it: "
            f"pip install 'aten-workbench[lab]'. {instead}"
        ) from None
