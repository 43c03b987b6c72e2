"""The first iterations of a kernel's loop as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulator import Cause
from simulator.tileprogram.program import Opcode
from workbench.views.basics.markup import escape, legend
from workbench.views.timelines.gaps import blockers
from workbench.views.timelines.pipelines import Pipeline, Row, reason, sum_text, title

_MOST_ROWS: Final = 14
_LEFT, _TOP, _WIDE, _LANE = 74, 6, 700, 7
"""A row has a lane for what is loaded, one for what is computed, one for what is stored."""
_LANE_OF: Final = {"load": 0, "copy": 0, "compute": 1, "barrier": 1, "store": 2}
_HIGH: Final = 3 * _LANE + 6


def pipeline_svg(view: Pipeline) -> str:
    """Bars by iteration; the light bands are when the core computes: what moves within them is hidden."""
    shown = view.rows[:_MOST_ROWS]
    if not shown:
        return f"<p><b>{escape(title(view))}</b></p>"
    spans = [span for row in shown for span in row.spans]
    begin, end = int(view.trace.issue[spans].min()), int(view.trace.end[spans].max())
    scale, height = _WIDE / max(end - begin, 1), _TOP + len(shown) * _HIGH + 18
    rows = "".join(part for place, row in enumerate(shown) for part in _row(view, row, place, begin, end, scale))
    small = 'class="soft" font-size="11"'
    rest = len(view.rows) - len(shown)
    more = f'<p class="soft">{rest:,} more iterations follow</p>' if rest else ""
    names = [
        *((kind.lower(), f"var(--k-{kind})") for kind in _kinds(view, spans)),
        ("the core computes", "var(--mark)"),
        ("waits, by what it waited for", "var(--soft);height:2px;vertical-align:3px"),
    ]
    return (
        f"<p><b>{escape(title(view))}</b><br>{escape(sum_text(view))}</p>"
        f'<div class="scroll" tabindex="0"><svg role="img" '
        f'aria-label="{escape(title(view))}: {escape(sum_text(view))}" '
        f'viewBox="0 0 {_LEFT + _WIDE + 8} {height}" style="width:{_LEFT + _WIDE + 8}px">{rows}'
        f'<text x="{_LEFT}" y="{height - 5}" {small}>cycle {begin:,}</text>'
        f'<text x="{_LEFT + _WIDE}" y="{height - 5}" text-anchor="end" {small}>{end:,}</text></svg></div>'
        f"{legend(names)}{more}"
    )


def _kinds(view: Pipeline, spans: list[int]) -> list[str]:
    return [Opcode(number).name for number in sorted({int(view.trace.kind[span]) for span in spans})]


def _row(view: Pipeline, row: Row, place: int, begin: int, end: int, scale: float) -> Iterator[str]:
    top = _TOP + place * _HIGH
    for start, over in view.busy[row.core].T.tolist():
        left, right = max(start, begin), min(over, end)
        if left < right:
            yield (
                f'<rect x="{_LEFT + (left - begin) * scale:.1f}" y="{top}" width="{(right - left) * scale:.1f}" '
                f'height="{_HIGH}" style="fill:var(--mark)" opacity=".55"/>'
            )
    line = f'x1="0" x2="{_LEFT + _WIDE}" y1="{top}" y2="{top}"'
    yield f'<line {line} style="stroke:var(--line)"/><text x="{_LEFT - 8}" y="{top + 16}" text-anchor="end" '
    yield f'font-size="11">{escape(row.label)}</text>'
    waited_for = blockers(view.trace)
    for span in row.spans:
        yield from _wait(view, span, top, begin, scale)
    for span in row.spans:
        yield _bar(view, span, int(waited_for[span]), top, begin, scale)


def _lane(view: Pipeline, span: int, top: int) -> int:
    return top + 3 + _LANE_OF[view.stage(span)] * _LANE


def _wait(view: Pipeline, span: int, top: int, begin: int, scale: float) -> Iterator[str]:
    """A line from when it was issued to when it began."""
    start, issue, y = int(view.trace.start[span]), int(view.trace.issue[span]), _lane(view, span, top) + 3
    cause = Cause(view.trace.cause[span])
    if start > issue:
        colour = f"var(--c-{'memory_peak' if cause == Cause.BANDWIDTH else cause.label})"
        x = f'x1="{_LEFT + (issue - begin) * scale:.1f}" x2="{_LEFT + (start - begin) * scale:.1f}"'
        yield f'<line {x} y1="{y}" y2="{y}" style="stroke:{colour};stroke-width:1.5"/>'


def _bar(view: Pipeline, span: int, waited_for: int, top: int, begin: int, scale: float) -> str:
    trace, kind = view.trace, Opcode(view.trace.kind[span]).name
    start, end, y = int(trace.start[span]), int(trace.end[span]), _lane(view, span, top)
    told = f"{kind} {', '.join(view.slots(span))}: cycles {start:,} to {end:,}; {reason(trace, span, waited_for)}"
    return (
        f'<g><title>{escape(told)}</title><rect x="{_LEFT + (start - begin) * scale:.1f}" y="{y}" '
        f'width="{max((end - start) * scale, 0.7):.1f}" height="{_LANE - 1}" style="fill:var(--k-{kind})"/></g>'
    )
