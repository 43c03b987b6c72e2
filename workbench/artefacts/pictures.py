"""The way to the drawing code, which only notebooks need."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from workbench.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from workbench.views.aligned import Aligned
    from workbench.views.gantt import Gantt


class Drawing(Protocol):
    """What `workbench.jupyter.plot_timeline` offers."""

    def timeline(self, view: Gantt, ax: Axes | None, *, style: str, width: float) -> Axes: ...


class AlignedDrawing(Protocol):
    """What `workbench.jupyter.plot_aligned` offers."""

    def aligned(self, view: Aligned, *, style: str, width: float) -> Figure: ...


def drawing() -> Drawing:
    """How timelines are drawn."""
    return cast(Drawing, _module("plot_timeline", "The timeline as text is j.simulated.text()."))


def drawing_of_comparisons() -> AlignedDrawing:
    """How the timelines of a comparison are drawn."""
    return cast(AlignedDrawing, _module("plot_aligned", "As text they are in .text() of the comparison."))


def _module(name: str, instead: str) -> object:
    """A drawing module, reached by name: the core neither imports nor needs matplotlib."""
    try:
        return importlib.import_module(f"workbench.jupyter.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed, and pictures need it: pip install 'aten-workbench[lab]'. {instead}"
        ) from None
