"""Loads the drawing code, which only notebooks need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol, cast

from workbench.ground.errors import MissingExtra
from workbench.ground.offers import drawing_module

if TYPE_CHECKING:
    from workbench.explaining.artefacts.plot_types import Axes, Figure
    from workbench.explaining.views.scratchpads.launch_replay import Replays
    from workbench.explaining.views.selections.selection_model import SelectionModel
    from workbench.ground.basics.picture import Picture


_TEXTS: Final = "Without it there are .html(), .text() and .table."


class Drawing(Protocol):
    """The functions of the module `plot_pictures`; `make` draws a picture for a plot of so many pixels in width."""

    def axes(self, make: Callable[[float], Picture], ax: Axes | None, *, style: str, width: float) -> Axes: ...

    def figure(
        self, made: Sequence[Picture | Callable[[float], Picture]], *, style: str, width: float, columns: int = 1
    ) -> Figure: ...


class Widgets(Protocol):
    """The functions that make widgets; each widget module has some of these functions."""

    def stepper(
        self, journey: object, request: object, stages: object, checks: Mapping[str, object], *, stage: str
    ) -> object: ...

    def lab_page(
        self, journey: object, request: object, stages: object, checks: Mapping[str, object], *, title: str, static: str
    ) -> str: ...

    def timeline(self, runs: Sequence[object]) -> object: ...

    def memory(self, replays: Replays, selection: SelectionModel | None, *, begin: int, end: int) -> object: ...

    def array(self, view: object) -> object: ...

    def pipeline(self, view: object) -> object: ...

    def passes(self, view: object) -> object: ...

    def knob_editor(self, experiment: object, kernel: str | None, *, ends_session: bool) -> object: ...

    def comparing(self, comparison: object) -> object: ...


_INSTEAD: Final = {
    "stepper_widget": "Without it there are j.html() and j.select(x).",
    "timeline_widget": "Without it there are .html(), .area and .gap.",
    "memory_widget": "Without it there is j.simulated.at(cycle).",
    "knobs_widget": "Without it there are .turn, .table and .html().",
    "comparison_widget": "Without it there are .html(), .nodes and .plot().",
}


def widgets(module: str) -> Widgets:
    """Returns a module of widgets; if a package is missing, the error names the calls to use instead."""
    return cast(Widgets, _module(f"widgets.{module}", _INSTEAD.get(module, _TEXTS)))


def drawing(instead: str = _TEXTS) -> Drawing:
    """Returns the module that draws pictures with matplotlib; if matplotlib is missing, the error names the calls to
    use instead."""
    return cast(Drawing, _module("plot_pictures", instead))


def _module(name: str, instead: str) -> ModuleType:
    """Loads a drawing module by the name that `workbench/__init__.py` registered: the core neither imports nor needs
    matplotlib."""
    try:
        return drawing_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed, and pictures and widgets need it: "
            f"pip install 'aten-workbench[lab]'. {instead}"
        ) from None
