"""The way to the drawing code, which only notebooks need."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from workbench.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from workbench.views.gantt import Gantt


class Drawing(Protocol):
    """What `workbench.jupyter.plot_timeline` offers."""

    def timeline(self, view: Gantt, ax: Axes | None, *, style: str, width: float) -> Axes: ...

    def timelines(self, names: Sequence[str], each: Sequence[Gantt], *, style: str, width: float) -> Figure: ...


def drawing() -> Drawing:
    """The drawing module, reached by name: the core neither imports nor needs matplotlib."""
    try:
        return cast(Drawing, importlib.import_module("workbench.jupyter.plot_timeline"))
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed, and pictures need it: pip install 'aten-workbench[lab]'. "
            "The timeline as text is j.simulated.text()."
        ) from None
