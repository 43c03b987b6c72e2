"""The first iterations of a kernel's loop as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from simulator import Cause
from simulator.tileprogram.program import Opcode
from workbench.explaining.views.timelines.gaps import blockers
from workbench.explaining.views.timelines.pipelines import Pipeline, Row, reason, sum_text, title
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.markup import legend

_MOST_ROWS: Final = 14
_LEFT, _TOP, _WIDE, _LANE = 74, 6, 700, 7
"""A row has a lane for what is loaded, one for what is computed, one for what is stored."""
_LANE_OF: Final = {"load": 0, "copy": 0, "compute": 1, "barrier": 1, "store": 2}
_HIGH: Final = 3 * _LANE + 6


def pipeline_svg(view: Pipeline) -> Markup:
    """Bars by iteration; the light bands are when the core computes: what moves within them is hidden."""
    shown = view.rows[:_MOST_ROWS]
    if not shown:
        return html("<p><b>{}</b></p>", title(view))
    spans = [span for row in shown for span in row.spans]
    begin, end = int(view.trace.issue[spans].min()), int(view.trace.end[spans].max())
    scale, height = _WIDE / max(end - begin, 1), _TOP + len(shown) * _HIGH + 18
    rows = joined(part for place, row in enumerate(shown) for part in _row(view, row, place, begin, end, scale))
    small = html('class="soft" font-size="11"')
    rest = len(view.rows) - len(shown)
    more = html('<p class="soft">{rest:,} more iterations follow</p>', rest=rest) if rest else ""
    names = [
        *((kind.lower(), f"var(--k-{kind})") for kind in _kinds(view, spans)),
        ("the core computes", "var(--mark)"),
        ("waits, by what it waited for", "var(--soft);height:2px;vertical-align:3px"),
    ]
    return html(
        "<p><b>{}</b><br>{}</p>"
        '<div class="scroll" tabindex="0"><svg role="img" '
        'aria-label="{}: {}" '
        'viewBox="0 0 {} {height}" style="width:{}px">{rows}'
        '<text x="{left}" y="{}" {small}>cycle {begin:,}</text>'
        '<text x="{}" y="{}" text-anchor="end" {small}>{end:,}</text></svg></div>'
        "{}{more}",
        title(view),
        sum_text(view),
        title(view),
        sum_text(view),
        _LEFT + _WIDE + 8,
        _LEFT + _WIDE + 8,
        height - 5,
        _LEFT + _WIDE,
        height - 5,
        legend(names),
        height=height,
        rows=rows,
        left=_LEFT,
        small=small,
        begin=begin,
        end=end,
        more=more,
    )


def _kinds(view: Pipeline, spans: list[int]) -> list[str]:
    return [Opcode(number).name for number in sorted({int(view.trace.kind[span]) for span in spans})]


def _row(view: Pipeline, row: Row, place: int, begin: int, end: int, scale: float) -> Iterator[Markup]:
    top = _TOP + place * _HIGH
    for start, over in view.busy[row.core].T.tolist():
        left, right = max(start, begin), min(over, end)
        if left < right:
            yield (
                html(
                    '<rect x="{:.1f}" y="{top}" width="{:.1f}" '
                    'height="{high}" style="fill:var(--mark)" opacity=".55"/>',
                    _LEFT + (left - begin) * scale,
                    (right - left) * scale,
                    top=top,
                    high=_HIGH,
                )
            )
    line = html('x1="0" x2="{}" y1="{top}" y2="{top}"', _LEFT + _WIDE, top=top)
    yield html(
        '<line {line} style="stroke:var(--line)"/><text x="{}" y="{}" text-anchor="end" ',
        _LEFT - 8,
        top + 16,
        line=line,
    )
    yield html('font-size="11">{}</text>', row.label)
    waited_for = blockers(view.trace)
    for span in row.spans:
        yield from _wait(view, span, top, begin, scale)
    for span in row.spans:
        yield _bar(view, span, int(waited_for[span]), top, begin, scale)


def _lane(view: Pipeline, span: int, top: int) -> int:
    return top + 3 + _LANE_OF[view.stage(span)] * _LANE


def _wait(view: Pipeline, span: int, top: int, begin: int, scale: float) -> Iterator[Markup]:
    """A line from when it was issued to when it began."""
    start, issue, y = int(view.trace.start[span]), int(view.trace.issue[span]), _lane(view, span, top) + 3
    cause = Cause(view.trace.cause[span])
    if start > issue:
        colour = f"var(--c-{'memory_peak' if cause == Cause.BANDWIDTH else cause.label})"
        x = html('x1="{:.1f}" x2="{:.1f}"', _LEFT + (issue - begin) * scale, _LEFT + (start - begin) * scale)
        yield html('<line {x} y1="{y}" y2="{y}" style="stroke:{colour};stroke-width:1.5"/>', x=x, y=y, colour=colour)


def _bar(view: Pipeline, span: int, waited_for: int, top: int, begin: int, scale: float) -> Markup:
    trace, kind = view.trace, Opcode(view.trace.kind[span]).name
    start, end, y = int(trace.start[span]), int(trace.end[span]), _lane(view, span, top)
    told = f"{kind} {', '.join(view.slots(span))}: cycles {start:,} to {end:,}; {reason(trace, span, waited_for)}"
    return html(
        '<g><title>{told}</title><rect x="{:.1f}" y="{y}" '
        'width="{:.1f}" height="{}" style="fill:var(--k-{kind})"/></g>',
        _LEFT + (start - begin) * scale,
        max((end - start) * scale, 0.7),
        _LANE - 1,
        told=told,
        y=y,
        kind=kind,
    )
