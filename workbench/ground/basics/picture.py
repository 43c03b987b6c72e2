"""A picture as plain data: marks over two axes, which `svg_painter.py` and `jupyter/plot_pictures.py` draw alike.

Marks stand where their numbers lie on the axes; sizes of letters, lines and offsets are pixels. A colour is a variable
of the style sheet, such as `k-LOAD` or `ink`, so that a picture is light or dark as the page around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

LETTER = 6.2
"""The width of a letter in pixels; few letters are wider."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A text beside an axis."""

    at: float
    text: str
    soft: str = ""
    """A paler text behind the text."""
    colour: str = "ink"


@dataclass(frozen=True, slots=True)
class Axis:
    """The numbers from the left edge to the right, or from the lower edge to the upper."""

    low: float = 0.0
    high: float = 1.0
    label: str = ""
    ticks: tuple[Tick, ...] | None = ()
    """None: at round numbers."""
    grid: str = ""
    """The colour of a line over the picture at each tick."""
    whole: bool = False
    """True if only whole numbers have ticks."""
    log: bool = False

    def part(self, value: float) -> float:
        """The place of a value, from 0 at the low end to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, part: float) -> float:
        """The value at a place."""
        if self.log:
            return self.low * (self.high / self.low) ** part
        return self.low + part * (self.high - self.low)

    def all_ticks(self) -> tuple[Tick, ...]:
        """The axis's own ticks; if it has none, those at six to twelve round numbers."""
        if self.ticks is not None:
            return self.ticks
        return tuple(Tick(at, "", f"{at:,.6g}") for at in round_numbers(self.low, self.high, whole=self.whole))


def round_numbers(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Six to twelve round numbers between two others, each a whole number of steps."""
    rough = max((high - low) / 12, 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * part for part in (1, 2, 5, 10) if power * part >= rough)
    first, last = math.ceil(low / step * (1 - 1e-12)), math.floor(high / step * (1 + 1e-12))
    return [step * number for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: x from left to right, y from top to bottom."""

    left: float
    right: float
    top: float
    bottom: float
    fill: str = ""
    opacity: float = 1.0
    """The opacity of the fill."""
    edge: str = ""
    stroke: float = 1.0
    dash: bool = False
    apart: bool = False
    """True if a large box gets an edge in the background's colour, which separates it from its neighbours."""
    hatch: str = ""
    """The colour of slanted lines in the box."""
    corner: float = 0.0
    """The radius of the box's corners."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The area between two levels for each stretch between `edges`."""

    edges: F64
    lower: F64
    upper: F64
    fill: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """Lines from point to point, (x, y): straight, or smooth with vertical ends."""

    points: tuple[tuple[float, float], ...]
    colour: str
    stroke: float = 1.0
    dash: tuple[float, ...] = ()
    fill: str = ""
    """The colour of the area within the lines."""
    smooth: bool = False
    """True for smooth lines, which only pages draw."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text that starts, ends or has its middle (`anchor`) at a point, moved to the right and down by some pixels."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    dx: float = 0.0
    dy: float = 0.0
    size: float = 10.5
    colour: str = "ink"
    bold: bool = False
    soft: str = ""
    """A paler text behind the text."""
    angle: float = 0.0
    """Degrees by which the text is turned counterclockwise."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A disc, or a diamond, of a radius in pixels."""

    x: float
    y: float
    radius: float
    fill: str
    edge: str
    diamond: bool = False


Shape: TypeAlias = Box | Steps | Line | Words | Dot


@dataclass(frozen=True, slots=True)
class Told:
    """Marks that a page explains when the pointer is on them."""

    title: str
    marks: tuple[Shape, ...]
    name: str = ""
    """The name by which a page finds the marks."""


Mark: TypeAlias = Shape | Told


@dataclass(frozen=True, slots=True)
class Entry:
    """A text of the legend, and the look of the marks that it explains."""

    text: str
    fill: str = ""
    opacity: float = 1.0
    edge: str = ""
    dash: bool = False
    hatch: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: a plot with its size in pixels, its axes, and the texts around it."""

    label: str
    """The whole picture in one sentence, for readers who cannot see it."""
    width: float = 0.0
    height: float = 0.0
    x: Axis = Axis()
    y: Axis = Axis()
    marks: tuple[Mark, ...] = ()
    legend: tuple[Entry, ...] = ()
    title: str = ""
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    behind: tuple[Mark, ...] = ()
    """Marks below the lines of the axes."""
    above: Axis | None = None
    """A second scale of x, at the upper edge."""
    beside: Axis | None = None
    """Other ticks of y, at the right edge."""
    frame: str = ""
    """The colour of the plot's edge."""
    grows: bool = True
    """True if the picture takes the whole width of its page."""
    nothing: str = ""
    """The text in place of a picture without anything in it."""

    def across(self, left: float, right: float) -> float:
        """Pixels between two values of x."""
        return (self.x.part(right) - self.x.part(left)) * self.width

    def down(self, top: float, bottom: float) -> float:
        """Pixels between two values of y."""
        return (self.y.part(top) - self.y.part(bottom)) * self.height


def shapes(marks: Iterable[Mark]) -> Iterator[Shape]:
    """Yields every shape, also those inside marks that a page explains."""
    for mark in marks:
        yield from mark.marks if isinstance(mark, Told) else (mark,)


def stacked(
    edges: F64, shares: F64, looks: Sequence[tuple[str, float]], base: float, height: float
) -> tuple[Steps, ...]:
    """Areas on top of each other, each as high as its row of `shares`; a look is a fill and an opacity."""
    tops = base + height * np.cumsum(shares, axis=0)
    return tuple(
        Steps(edges, top - height * row, top, *look)
        for row, top, look in zip(shares, tops, looks, strict=True)
        if row.any()
    )
