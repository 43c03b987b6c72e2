"""The first iterations of a kernel's loop as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from simulator import Cause
from simulator.tileprogram.program import Opcode
from workbench.explaining.views.timelines.pipelines import Pipeline, Row, sum_text, title
from workbench.explaining.views.timelines.timeline_questions import blockers, reason_text
from workbench.ground.basics.html_builder import html
from workbench.ground.basics.picture import Axis, Box, Entry, Line, Mark, Picture, Tick, Told
from workbench.ground.basics.svg_painter import svg_of

_MOST_ROWS: Final = 14
_WIDE, _LANE = 700, 7
"""Pixels of the picture's width and of a lane; each row has a lane for loads, one for computing and one for stores."""
_LANE_OF: Final = {"load": 0, "copy": 0, "compute": 1, "barrier": 1, "store": 2}
_HIGH: Final = 3 * _LANE + 6


def pipeline_svg(view: Pipeline) -> Markup:
    """Bars by iteration; in the light bands the core computes, so transfers within them are hidden."""
    shown = view.rows[:_MOST_ROWS]
    if not shown:
        return html("<p><b>{}</b></p>", title(view))
    spans = [span for row in shown for span in row.spans]
    begin, end = int(view.trace.issue[spans].min()), int(view.trace.end[spans].max())
    kinds = sorted({int(view.trace.kind[span]) for span in spans})
    rest = len(view.rows) - len(shown)
    picture = Picture(
        f"{title(view)}: {sum_text(view)}",
        _WIDE,
        len(shown) * _HIGH,
        Axis(begin, max(end, begin + 1), ticks=(Tick(begin, "", f"cycle {begin:,}"), Tick(end, "", f"{end:,}"))),
        Axis(len(shown) * _HIGH, 0, ticks=tuple(Tick((at + 0.5) * _HIGH, row.label) for at, row in enumerate(shown))),
        tuple(mark for place, row in enumerate(shown) for mark in _row(view, row, place * _HIGH, begin, end)),
        (
            *(Entry(Opcode(kind).name.lower(), f"k-{Opcode(kind).name}") for kind in kinds),
            Entry("the core computes", "mark"),
            Entry("lines: waits, by what it waited for", "soft"),
        ),
        notes=(f"{rest:,} more iterations follow",) if rest else (),
        grows=False,
    )
    return html("<p><b>{}</b><br>{}</p>{}", title(view), sum_text(view), svg_of(picture))


def _row(view: Pipeline, row: Row, top: int, begin: int, end: int) -> Iterator[Mark]:
    for start, over in view.busy[row.core].T.tolist():
        left, right = max(start, begin), min(over, end)
        if left < right:
            yield Box(left, right, top, top + _HIGH, "mark", 0.55)
    yield Line(((begin, top), (end, top)), "line")
    waited_for = blockers(view.trace)
    for span in row.spans:
        yield from _wait(view, span, top)
    for span in row.spans:
        yield _bar(view, span, int(waited_for[span]), top)


def _lane(view: Pipeline, span: int, top: int) -> int:
    return top + 3 + _LANE_OF[view.stage(span)] * _LANE


def _wait(view: Pipeline, span: int, top: int) -> Iterator[Line]:
    """A line from the issue of a span to its start."""
    start, issue, y = int(view.trace.start[span]), int(view.trace.issue[span]), _lane(view, span, top) + 3
    cause = Cause(view.trace.cause[span])
    if start > issue:
        name = "memory_peak" if cause == Cause.BANDWIDTH else cause.label
        yield Line(((issue, y), (start, y)), f"c-{name}", 1.5)


def _bar(view: Pipeline, span: int, waited_for: int, top: int) -> Told:
    trace, kind = view.trace, Opcode(view.trace.kind[span]).name
    start, end, y = int(trace.start[span]), int(trace.end[span]), _lane(view, span, top)
    reason = reason_text(trace, Cause(trace.cause[span]).label, span, waited_for)
    words = f"{kind} {', '.join(view.slots(span))}: cycles {start:,} to {end:,}; {reason}"
    return Told(words, (Box(start, end, y, y + _LANE - 1, f"k-{kind}"),))
