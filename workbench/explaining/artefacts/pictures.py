"""The way to the drawing code, which only notebooks need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from workbench.ground.errors import MissingExtra
from workbench.ground.offers import drawing_module

if TYPE_CHECKING:
    from workbench.explaining.artefacts.plot_types import Axes, Figure
    from workbench.explaining.views.scratchpads.launch_replay import Replays
    from workbench.explaining.views.selections.selection_model import SelectionModel
    from workbench.ground.basics.picture import Picture


class Drawing(Protocol):
    """The functions of the module `plot_pictures`; a picture is made for a plot so many pixels wide."""

    def axes(self, make: Callable[[float], Picture], ax: Axes | None, *, style: str, width: float) -> Axes: ...

    def figure(
        self, made: Sequence[Picture | Callable[[float], Picture]], *, style: str, width: float, columns: int = 1
    ) -> Figure: ...


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


def drawing(instead: str = "Without it there are .html(), .text() and .table.") -> Drawing:
    """How pictures are drawn with matplotlib."""
    return cast(Drawing, _module("plot_pictures", instead))


def _module(name: str, instead: str) -> ModuleType:
    """A drawing module, which the edge of the library offers: the core neither imports nor needs matplotlib."""
    try:
        return drawing_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed, and pictures and widgets need it: "
            f"pip install 'aten-workbench[lab]'. {instead}"
        ) from None
