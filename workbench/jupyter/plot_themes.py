# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Figures of matplotlib that follow the theme of their page, in a notebook."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from markupsafe import Markup
from matplotlib import pyplot, rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workbench.ground.basics import markup
from workbench.ground.basics.colours import LIGHT, style_named
from workbench.ground.basics.html_builder import html, trusted
from workbench.ground.errors import BadOption

P = ParamSpec("P")
R = TypeVar("R")

THEME: Final = "theme"

_WIDEST: Final = 600
"""The largest width in inches that matplotlib draws: 65,536 dots at 100 an inch are its limit."""
_LEAST: Final = 7.3
"""The width in inches below which a picture is scrolled and not made smaller: its letters would be hard to read."""
_SIZE = re.compile(r' (?:width|height)="[\d.]+pt"')
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_COLOUR = re.compile("#[0-9a-f]{6}")


class QuietAxes(Axes):
    """Axes whose figure a notebook shows at the end of the cell: as a value they show nothing."""

    name = "workbench-quiet"

    def _ipython_display_(self) -> None:
        """Shows nothing."""


class ShownOnce(Figure):
    """A figure that a notebook shows as a value, and that pyplot does not show a second time."""

    def _repr_png_(self) -> bytes:
        drawn = io.BytesIO()
        self.savefig(drawn, format="png", dpi=100)
        return drawn.getvalue()


class ThemedFigure(Figure):
    """A figure in our light colours; a notebook shows the theme's colour in place of each."""

    def _repr_html_(self) -> Markup:
        drawn = io.StringIO()
        with rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
            self.savefig(drawn, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        _, head, body = drawn.getvalue().partition("<svg ")
        inches: float = self.get_figwidth()
        wide = html('style="width:100%;min-width:{:g}in;max-width:{inches:g}in" ', min(inches, _LEAST), inches=inches)
        picture = trusted(f"{head}{wide}{_themed(_SIZE.sub('', body, count=2))}")
        return markup.fragment(html('<div class="scroll" tabindex="0">{}</div>', picture))


def words_as_they_are(draws: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function that draws: a dollar in a user's name then begins no formula.

    It uses no `rc_context`, which would also put back what a notebook's backend sets when the first figure is made.
    """

    @functools.wraps(draws)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        before = rcParams["text.parse_math"]
        rcParams["text.parse_math"] = False
        try:
            return draws(*args, **kwargs)
        finally:
            rcParams["text.parse_math"] = before

    return drawn


def colours_of(style: str) -> dict[str, str]:
    """The colours to draw with; a themed figure is drawn in the light ones, which then become the theme's."""
    return markup.all_colours(style_named("light" if style == THEME else style))


def inches(width: float) -> float:
    """Returns the width of a figure; refuses one that matplotlib cannot draw."""
    if not 0 < width <= _WIDEST:
        raise BadOption(f"width={width!r}: expected inches, more than 0 and up to {_WIDEST}")
    return width


def new_axes(style: str, width: float, height: float) -> Axes:
    """Axes of a new figure, which pyplot shows at the end of a cell."""
    size = inches(width), height
    if style != THEME:
        return pyplot.figure(figsize=size, layout="constrained").add_subplot()
    figure = pyplot.figure(figsize=size, layout="constrained", FigureClass=ThemedFigure)
    return figure.add_subplot(axes_class=QuietAxes)


def new_figure(style: str, width: float, height: float) -> Figure:
    """A new figure that pyplot does not know: a notebook shows it as a value."""
    kind = ThemedFigure if style == THEME else ShownOnce
    return kind(figsize=(inches(width), height), layout="constrained")


def _themed(svg: str) -> str:
    """The picture in one line, with our colours as variables of the style sheet, and all others as they are; places
    to a hundredth of a point."""
    names = {colour.lower(): f"var(--{name})" for name, colour in markup.all_colours(LIGHT).items()}
    coloured = _COLOUR.sub(lambda found: names.get(found.group(), found.group()), svg)
    return _DECIMALS.sub(r"\1", " ".join(coloured.split()))
