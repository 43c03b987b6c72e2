"""The scratchpad over time as a picture: addresses upwards, time to the right, a panel for each core."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.explaining.views.scratchpads.scratchpad import (
    BEYOND,
    BOTH,
    FADED,
    INSIDE,
    LOADED,
    NOTHING,
    STORED,
    WORDS,
    Occupancy,
)
from workbench.explaining.views.scratchpads.scratchpad_layout import Bar, Layout, Panel, bytes_text, layout
from workbench.explaining.views.timelines.gantt import fitting
from workbench.ground.basics.colours import HELD
from workbench.ground.basics.picture import LETTER, Axis, Box, Entry, Line, Mark, Picture, Tick, Told, Words

_WIDTH, _NAMED = 880, 710
"""Pixels of the plot, and of one whose slots have names beside them."""
_HEAD, _GAP, _APART = 22, 20, 9.0
_COLOURS = {LOADED: "k-LOAD", STORED: "k-STORE", BOTH: "k-COPY", INSIDE: "h7"}


def scratchpad_picture(view: Occupancy, width: float = _WIDTH) -> Picture:
    """The picture and its legend."""
    label = f"scratchpad over time: at most {view.peak:,} of {view.capacity:,} bytes"
    if not view.held:
        return Picture(label, nothing=NOTHING)
    made, end = layout(view, int(width)), max(view.end, view.begin + 1)
    width = min(width, _NAMED) if made.is_named else width
    marks, names, addresses, bottom = list[Mark](), list[Tick](), list[Tick](), float(_HEAD - _GAP)
    for panel in made.panels:
        bottom += panel.height + _GAP
        marks += _panel(panel, made, bottom)
        names += [Tick(bottom - mark.height, mark.text, mark.soft) for mark in panel.names]
        addresses += _addresses(panel, view, bottom)
    return Picture(
        label,
        width,
        bottom,
        Axis(view.begin, end, view.unit, None, whole=True),
        Axis(bottom, 0, ticks=tuple(names or addresses)),
        tuple(marks),
        tuple(_entries(made)),
        behind=tuple(_bands(view, width / (end - view.begin), bottom)),
        beside=Axis(bottom, 0, ticks=tuple(addresses)) if names else None,
    )


def _bands(view: Occupancy, pixels: float, bottom: float) -> Iterator[Told]:
    for index, band in enumerate(view.bands):
        name = fitting(band.name, (band.end - band.begin) * pixels / LETTER)
        words = (Words((band.begin + band.end) / 2, 13, name, "middle"),) if name else ()
        yield Told(band.name, (Box(band.begin, band.end, 0, bottom, "band", float(index % 2 == 0)), *words))


def _panel(panel: Panel, made: Layout, bottom: float) -> Iterator[Mark]:
    view, top = made.occupancy, bottom - panel.capacity
    begin, end = view.begin, max(view.end, view.begin + 1)
    for each in panel.slots:
        yield _across(view, bottom - each, "faint", 0.8)
    if panel.height > panel.capacity:
        yield Box(begin, end, bottom - panel.height, top, "bad", 0.12)
    for bar in panel.bars:
        yield Told(bar.told, tuple(_bar(bar, bottom)))
    yield _across(view, bottom, "line", 1)
    yield _across(view, top, "bad" if view.beyond else "ink", 1.4, 6, 3)
    if panel.broken is not None:
        yield _across(view, bottom - panel.broken, "soft", 1, 1, 3)
        yield Words(begin, bottom - panel.broken, "//", dx=4, dy=4, colour="soft", bold=True)
    if len(made.panels) > 1:
        yield Words(begin, bottom - panel.height - 5, f"core {panel.core}", size=11, bold=True)


def _across(view: Occupancy, y: float, colour: str, stroke: float, *dash: float) -> Line:
    """A line over the whole width."""
    return Line(((view.begin, y), (max(view.end, view.begin + 1), y)), colour, stroke, dash)


def _bar(bar: Bar, bottom: float) -> Iterator[Box]:
    top, base, colour = bottom - bar.high, bottom - bar.low, _COLOURS[bar.role]
    if bar.read > bar.start:
        yield Box(bar.start, bar.read, top, base, colour, HELD, apart=True)
    yield Box(bar.read, bar.end, top, base, colour, max(bar.share, HELD), apart=True)
    if bar.over < bar.high:
        yield Box(bar.start, bar.end, top, bottom - bar.over, edge="bad", stroke=1.2, hatch="bad")


def _addresses(panel: Panel, view: Occupancy, bottom: float) -> list[Tick]:
    capacity = bottom - panel.capacity, f"capacity {bytes_text(view.capacity)}"
    apart = [mark for mark in panel.addresses if abs(mark.height - panel.capacity) > _APART]
    return [
        *(Tick(bottom - mark.height, "", mark.text) for mark in apart),
        Tick(*capacity, colour="bad" if view.beyond else "ink"),
    ]


def _entries(made: Layout) -> Iterator[Entry]:
    roles = [role for role in _COLOURS if role in made.roles]
    for role in roles:
        yield Entry(WORDS[role], _COLOURS[role])
    if any(bar.read > bar.start for panel in made.panels for bar in panel.bars):
        yield Entry(FADED, _COLOURS[roles[0]], HELD)
    if made.occupancy.beyond:
        yield Entry(BEYOND, edge="bad", hatch="bad")
