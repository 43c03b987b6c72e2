"""The roofline as a picture: roofs, marks and names on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from simulator.analysis.machine_roofs import ARRAYS, MEMORY, SHORT, VECTOR
from workbench.explaining.views.timelines.gantt import NOTHING, fitting
from workbench.explaining.views.timelines.roofline import WHOLE, Point, Roofline
from workbench.ground.basics.picture import Axis, Dot, Entry, Line, Picture, Tick, Told, Words
from workbench.ground.basics.picture import Mark as Shape

X_LABEL: Final = "operations for each byte of DRAM"
Y_LABEL: Final = "operations a cycle"
READING: Final = (
    "filled: by the bytes that the memory moved; ring: by the least possible bytes; dotted: up to the kernel's own roof"
)
COLOURS: Final = {ARRAYS: "k-MATMUL", VECTOR: "k-VECTOR", MEMORY: "c-memory_peak", SHORT: "c-inefficient_transfers"}
"""The colour of each roof: that of the unit's work, or of the waits for the memory; see ground/basics/colours.py."""
_SHAPE = 0.5
"""Height of the plot, as a part of its width."""
_NAMED, _LETTERS = 6, 20
_FONT: Final = 11.0
"""Pixels of a name's letters, for which the picture is laid out."""
_LETTER, _HIGH, _RADIUS = 0.6 * _FONT, 13.0, 7.0
"""Upper estimates of a letter's width and a name's height, and the room that a mark takes."""


@dataclass(frozen=True, slots=True)
class Roof:
    """One roof of the machine."""

    roof: str
    label: str
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of one kernel, or of the whole run."""

    point: Point
    ring: float
    """The mark's place on the axis of intensity if only the least bytes moved."""
    name: str
    """The name of the mark; empty for kernels of few cycles, and for a mark that lies on another, which has both
    names."""
    label: tuple[float, float]
    """Begin of the name, in pixels to the right of the mark and above it."""

    @property
    def leader(self) -> tuple[float, float] | None:
        """The end of a line from the mark to a name that does not stand beside it, in the pixels of `label`; None
        without a line."""
        across, up = self.label
        beside = abs(up + _HIGH / 2) <= 1.3 * _HIGH
        return None if beside or not self.name else (across - 2 if across > 0 else -_RADIUS, up + _HIGH / 2)


@dataclass(frozen=True, slots=True)
class Chart:
    """The layout of a picture so many pixels wide and high; both axes are logarithmic."""

    width: float
    height: float
    x: Axis
    y: Axis
    lines: tuple[Roof, ...] = ()
    marks: tuple[Mark, ...] = ()

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The place of two values, in pixels from the lower left corner."""
        return self.x.part(x) * self.width, self.y.part(y) * self.height

    def at(self, point: Point) -> tuple[float, float]:
        """The place of a kernel, in pixels from the lower left corner."""
        return self.place(point.intensity, point.attained)


def roofline_picture(found: Roofline, width: float = 860) -> Picture:
    """The picture, its legend, and notes on the kernels that have no place in it."""
    label, notes = f"roofline on {found.machine}", found.notes()
    if found.whole is None:
        return Picture(label, nothing=NOTHING, notes=notes)
    made = chart(found, width, width * _SHAPE)
    marks = [mark for roof in made.lines for mark in _roof(made, roof)]
    marks += [_placed(made, mark) for mark in made.marks]
    read = (READING,) if made.marks else ()
    roofs = dict.fromkeys(mark.point.ceiling for mark in made.marks if mark.point.ceiling)
    entries = [Entry(f"under the roof of {roof}", COLOURS[roof]) for roof in roofs]
    ring = Entry("if only the least bytes moved", "ground", edge="soft")
    shown = tuple(marks), (*entries, ring)
    return Picture(label, width, made.height, made.x, made.y, *shown, notes=(*read, *notes), frame="line")


def _roof(made: Chart, roof: Roof) -> Iterator[Shape]:
    """A roof with its name along it: a slope's from its lower end on, a flat one's at its right end."""
    (left, low), (right, high) = made.place(*roof.start), made.place(*roof.end)
    angle = math.degrees(math.atan2(high - low, right - left))
    yield Line((roof.start, roof.end), COLOURS[roof.roof], 2, (6, 4) if roof.roof == SHORT else ())
    at, anchor, dx = (roof.start, "start", 8) if angle else (roof.end, "end", -6)
    yield Words(*at, roof.label, anchor, dx, -5, angle=angle)


def _placed(made: Chart, mark: Mark) -> Told:
    point, (across, up) = mark.point, made.at(mark.point)
    here, top = (point.intensity, point.attained), (point.intensity, point.ceiling_attained)
    rise = made.place(*top)[1] - up

    def moved(right: float, above: float) -> tuple[float, float]:
        """The place so many pixels from the mark."""
        return made.x.value((across + right) / made.width), made.y.value((up + above) / made.height)

    marks = list[Line | Dot | Words]()
    if mark.name:
        marks.append(Line((here, top), "soft", dash=(1, 3)))
        marks.append(Line((moved(-5, rise), moved(5, rise)), "soft"))
    marks.append(Line((here, (mark.ring, point.attained)), "soft", 0.8))
    marks.append(Dot(mark.ring, point.attained, 4, "ground", "soft"))
    whole = point.kernel == WHOLE
    marks.append(Dot(*here, 7 if whole else 5, COLOURS.get(point.ceiling, "soft"), "ink", whole))
    if mark.leader:
        marks.append(Line((here, moved(*mark.leader)), "soft", 0.5))
    if mark.name:
        right, above = mark.label
        marks.append(Words(*here, mark.name, dx=right, dy=-above - 3, size=_FONT))
    return Told(_told(point), tuple(marks))


def _told(point: Point) -> str:
    """A mark in words."""
    return (
        f"{point.kernel}: {point.operations:,} operations in {point.cycles:,} cycles, {point.attained:,.4g} a cycle"
        f", {point.share:.0%} of {point.ceiling or 'no roof'}; "
        f"{point.moved:,} bytes moved, {point.least_bytes:,} would do"
    )


def decades(limits: tuple[float, float]) -> list[float]:
    """The powers of ten between the limits."""
    low, high = math.ceil(math.log10(limits[0]) - 1e-9), math.floor(math.log10(limits[1]) + 1e-9)
    return [10.0**power for power in range(low, high + 1)]


def number_text(value: float) -> str:
    """`0.01`, `1`, `10,000`."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def chart(found: Roofline, width: float, height: float) -> Chart:
    """Lays out a picture so many pixels wide and high."""
    shown = [each for each in found.points if each.operations and each.moved]
    shown = sorted(shown, key=lambda each: -each.cycles)
    named = shown[:_NAMED]
    if found.whole and found.whole.operations and found.whole.moved and len(shown) > 1:
        shown = [found.whole, *shown]
        named = [found.whole, *named]
    arrays, vector, memory = (found.peaks[roof] for roof in (ARRAYS, VECTOR, MEMORY))
    ridges = [arrays / memory, vector / memory]
    x = _axis(X_LABEL, [*ridges, *(each.intensity for each in shown), *(each.intensity_least for each in shown)])
    y = _axis(Y_LABEL, [min(arrays, vector) / 10, arrays, vector, *(each.attained for each in shown)])
    made = Chart(width, height, x, y)
    made = replace(made, lines=_lines(found, [each for each in named if each is not found.whole], made))
    return replace(made, marks=_marks(made, shown, named))


def _axis(label: str, values: list[float]) -> Axis:
    """A logarithmic axis with half a decade more than the values on either side."""
    known = [value for value in values if 0 < value < math.inf]
    limits = min(known) / 3, max(known) * 3
    return Axis(*limits, label, tuple(Tick(each, "", number_text(each)) for each in decades(limits)), "faint", log=True)


def _lines(found: Roofline, named: list[Point], box: Chart) -> tuple[Roof, ...]:
    arrays, vector, memory = (found.peaks[roof] for roof in (ARRAYS, VECTOR, MEMORY))
    highest = max(arrays, vector)
    lines = [
        Roof(ARRAYS, f"arrays: {arrays:,.0f}", (arrays / memory, arrays), (box.x.high, arrays)),
        Roof(VECTOR, f"vector unit: {vector:,.0f}", (vector / memory, vector), (box.x.high, vector)),
        _diagonal(MEMORY, f"memory: {memory:,.0f} bytes a cycle", memory, highest, box),
    ]
    rates = [memory]
    for point in named:
        rate = point.memory_rate
        if rate > 0 and all(_apart(rate, other, box) > _HIGH for other in rates):
            rates.append(rate)
            said = f"{point.stretch:,.0f} bytes at a time: {rate:,.0f} bytes a cycle"
            lines.append(_diagonal(SHORT, said, rate, highest, box))
    return tuple(lines)


def _apart(rate: float, other: float, box: Chart) -> float:
    """Pixels between two slopes; a slope that is nearer to another one than the height of a name is not drawn."""
    wide, high = box.width / math.log(box.x.high / box.x.low), box.height / math.log(box.y.high / box.y.low)
    return abs(math.log(rate / other)) * wide * high / math.hypot(wide, high)


def _diagonal(roof: str, label: str, rate: float, highest: float, box: Chart) -> Roof:
    left = max(box.x.low, box.y.low / rate)
    return Roof(roof, label, (left, left * rate), (highest / rate, highest))


def _marks(box: Chart, shown: list[Point], named: list[Point]) -> tuple[Mark, ...]:
    least = [each.intensity_least if each.least_bytes else each.intensity for each in shown]
    places = [box.at(each) for each in shown]
    taken = [piece for line in box.lines for piece in _along(box, line)]
    taken += [_Box(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in places]
    for (x, y), each, ring in zip(places, shown, least, strict=True):
        across, _ = box.place(ring, each.attained)
        taken.append(_Box(min(x, across) - _RADIUS, y - 1, max(x, across) + _RADIUS, y + 1))
    marks, names = list[Mark](), _names(places, [each in named for each in shown], [each.kernel for each in shown])
    for point, ring, (x, y), name in zip(shown, least, places, names, strict=True):
        label = 0.0, 0.0
        if name:
            label = _free(x, y, _LETTER * len(name), taken, box)
            taken.append(_box(x, y, label, _LETTER * len(name)))
        marks.append(Mark(point, ring, name, label))
    return tuple(marks)


def _names(places: list[tuple[float, float]], wanted: list[bool], kernels: list[str]) -> list[str]:
    """The name of each mark; a mark that lies on another adds its number to the name of that mark."""
    names = ["" for _ in kernels]
    for index in (each for each, is_wanted in enumerate(wanted) if is_wanted):
        under = next(
            (each for each in range(index) if names[each] and math.dist(places[each], places[index]) < _RADIUS), -1
        )
        if under < 0:
            names[index] = fitting(kernels[index], _LETTERS)
        else:
            names[under] += f", {kernels[index].partition('_')[0]}"
    return names


class _Box(NamedTuple):
    left: float
    low: float
    right: float
    high: float


def _along(box: Chart, line: Roof) -> list[_Box]:
    """The area of a roof and its name, in small pieces: a slope's name stands at its lower end, a flat one's at its
    right."""
    (left, low), (right, high) = box.place(*line.start), box.place(*line.end)
    length = max(math.hypot(right - left, high - low), 1.0)
    pieces = list[_Box]()
    for step in range(0, int(length), 6):
        x, y = left + (right - left) * step / length, low + (high - low) * step / length
        named = (step if high > low else length - step) < _LETTER * len(line.label)
        pieces.append(_Box(x - 3, y - 2, x + 3, y + (_HIGH if named else 2)))
    return pieces


def _box(x: float, y: float, label: tuple[float, float], wide: float) -> _Box:
    left, low = x + label[0], y + label[1]
    return _Box(left, low, left + wide, low + _HIGH)


def _free(x: float, y: float, wide: float, taken: list[_Box], box: Chart) -> tuple[float, float]:
    """The place of a name beside, above or below its mark that covers the least."""
    rises = [step * _HIGH * side for step in (0.0, 1.2, 2.4, 3.6) for side in ((1,) if not step else (-1, 1))]
    tried = [(across, rise - _HIGH / 2) for rise in rises for across in (_RADIUS + 3, -_RADIUS - 3 - wide)]
    inside = _Box(0.0, 0.0, box.width, box.height)

    def cost(label: tuple[float, float]) -> float:
        own = _box(x, y, label, wide)
        far = _HIGH * abs(label[1] + _HIGH / 2)  # nearer is better, where nothing is covered
        return far + 10 * sum(_shared(own, other) for other in taken) + 30 * (wide * _HIGH - _shared(own, inside))

    return min(tried, key=cost)


def _shared(one: _Box, other: _Box) -> float:
    wide = min(one.right, other.right) - max(one.left, other.left)
    high = min(one.high, other.high) - max(one.low, other.low)
    return max(0.0, wide) * max(0.0, high)
