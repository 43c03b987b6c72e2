"""The roofline as a picture, from the layout of `roof_chart.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from workbench.explaining.views.timelines import roof_chart
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.roof_chart import COLOURS, Chart, Roof, chart, number_text
from workbench.explaining.views.timelines.roof_chart import Mark as Placed
from workbench.explaining.views.timelines.roofline import WHOLE, Point, Roofline
from workbench.ground.basics.picture import Axis, Dot, Entry, Line, Mark, Picture, Tick, Told, Words

_SHAPE = 0.5
"""Height of the plot, as a part of its width."""


def roofline_picture(found: Roofline, width: float = 860) -> Picture:
    """The picture, its legend, and what has no place in it."""
    label, notes = f"roofline on {found.machine}", tuple(found.notes())
    if found.whole is None:
        return Picture(label, nothing=NOTHING, notes=notes)
    made = chart(found, width, width * _SHAPE)
    x, y = _axis(made.x, roof_chart.X_LABEL), _axis(made.y, roof_chart.Y_LABEL)
    marks = [mark for roof in made.lines for mark in _roof(made, roof)]
    marks += [mark for placed in made.marks for mark in _placed(made, placed, x, y)]
    read = (roof_chart.READING,) if made.marks else ()
    roofs = dict.fromkeys(mark.point.ceiling for mark in made.marks if mark.point.ceiling)
    entries = [Entry(f"under the roof of {roof}", COLOURS[roof]) for roof in roofs]
    ring = Entry("if only the least bytes moved", "ground", edge="soft")
    return Picture(label, width, made.height, x, y, tuple(marks), (*entries, ring), notes=(*read, *notes), frame="line")


def _axis(limits: tuple[float, float], label: str) -> Axis:
    ticks = tuple(Tick(value, "", number_text(value)) for value in roof_chart.decades(limits))
    return Axis(*limits, label, ticks, "faint", log=True)


def _roof(made: Chart, roof: Roof) -> Iterator[Mark]:
    """A roof with its name along it: a slope's from its lower end on, a flat one's at its right end."""
    (left, low), (right, high) = made.place(*roof.start), made.place(*roof.end)
    angle = math.degrees(math.atan2(high - low, right - left))
    yield Line((roof.start, roof.end), COLOURS[roof.roof], 2, (6, 4) if roof.roof == roof_chart.SHORT else ())
    at, anchor, dx = (roof.start, "start", 8) if angle else (roof.end, "end", -6)
    yield Words(*at, roof.label, anchor, dx, -5, angle=angle)


def _placed(made: Chart, mark: Placed, x: Axis, y: Axis) -> Iterator[Mark]:
    across, up = made.place(mark.x, mark.y)
    _, top = made.place(mark.x, mark.top)

    def moved(right: float, above: float) -> tuple[float, float]:
        """The place so many pixels from the mark."""
        return x.value((across + right) / made.width), y.value((up + above) / made.height)

    marks = list[Line | Dot | Words]()
    if mark.name:
        marks.append(Line(((mark.x, mark.y), (mark.x, mark.top)), "soft", dash=(1, 3)))
        marks.append(Line((moved(-5, top - up), moved(5, top - up)), "soft"))
    marks.append(Line(((mark.x, mark.y), (mark.x_least, mark.y)), "soft", 0.8))
    marks.append(Dot(mark.x_least, mark.y, 4, "ground", "soft"))
    whole = mark.point.kernel == WHOLE
    marks.append(Dot(mark.x, mark.y, 7 if whole else 5, COLOURS.get(mark.point.ceiling, "soft"), "ink", whole))
    if mark.leader:
        marks.append(Line(((mark.x, mark.y), moved(*mark.leader)), "soft", 0.5))
    if mark.name:
        right, above = mark.label
        marks.append(Words(mark.x, mark.y, mark.name, dx=right, dy=-above - 3, size=roof_chart.FONT))
    yield Told(_told(mark.point), tuple(marks))


def _told(point: Point) -> str:
    """A mark in words."""
    return (
        f"{point.kernel}: {point.operations:,} operations in {point.cycles:,} cycles, {point.attained:,.4g} a cycle"
        f", {point.share:.0%} of {point.ceiling or 'no roof'}; "
        f"{point.moved:,} bytes moved, {point.least_bytes:,} would do"
    )
