"""A simulated trace in words: its figures, the timeline in letters, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from simulator import Trace
from simulator.records.spans import Via
from workbench.explaining.views.kernel_lists.memory_tables import crossed_text
from workbench.explaining.views.timelines.aligned import Aligned
from workbench.explaining.views.timelines.gantt import F64, NOTHING, OTHER, WAITING, Gantt, unused_text
from workbench.explaining.views.timelines.timeline import gantt_of, stats, sum_text, waterfall
from workbench.ground.errors import BadOption

_GLYPHS = {
    "LOAD": "L", "STORE": "S", "COPY": "C", "GATHER": "G", "SCATTER": "X", "MATMUL": "M", "VECTOR": "V", "DIRECT": "D",
    "BARRIER": "|", OTHER: "-", "HOST": "H",
}  # fmt: skip
_WAVE = "~"
_LEAST = 60
"""The list of idle units may have so many letters in any case."""
_NOTE = "busy is a share of the run; a small letter is less than half of the time"
MOST_LETTERS: Final = 10_000
"""The most letters in a line; no terminal is as wide."""


def _check_width(width: int) -> None:
    if not 1 <= width <= MOST_LETTERS:
        raise BadOption(f"width={width}: expected letters, 1 to {MOST_LETTERS:,}")


def timeline_text(view: Gantt, *, width: int = 72) -> str:
    """The timeline in letters, a line a unit: each column shows the kind that fills most of its time.

    A capital says that the unit is busy for at least half of the column's time, a small letter that it is busy for
    less, a wave that spans hold the unit and wait on their way for longer than they work, a dot that the unit is idle.
    """
    whole = max(view.makespan, 1)
    _check_width(width)
    width = min(width, whole)
    edges = np.linspace(0, whole, width + 1)
    wide = max((len(lane.name) for lane in view.lanes), default=0)
    lines = [f"{'busy':>{wide + 5}}  0{f' {view.makespan:,} cycles':>{max(width - 1, 1)}}"]
    if len(view.bands) > 1:
        names = _labels([(band.start, band.end, band.kernel) for band in view.bands], whole, width)
        lines.append(f"{'':<{wide}}       {names}")
    for index, lane in enumerate(view.lanes):
        shares = view.busy(index, edges), view.held(index, edges)
        lines.append(f"{lane.name:<{wide}} {lane.busy:4.0%}  {_letters(*shares, view.kinds)}")
    if view.unused:
        lines.append(f"{'':<{wide}}       {unused_text(view.unused, max(width, _LEAST))}")
    waiting = f"  {_WAVE} {WAITING}" if view.waiting_kinds() else ""
    lines.append(f"{'':<{wide}}       {_legend(view.kinds, view.used_kinds(), waiting)}")
    lines.append(f"{'':<{wide}}       {_NOTE}")
    return "\n".join(lines)


def aligned_text(view: Aligned, *, width: int = 72) -> str:
    """Timelines below each other in letters, the same nodes at the same place; blank where a journey has no work."""
    if not view.lanes:
        return NOTHING
    _check_width(width)
    edges, lines = np.linspace(0, view.whole, width + 1), list[str]()
    wide = max(len(lane.name) for lane in view.lanes)
    titles = _labels([(each.start, each.end, each.group.title) for each in view.columns], view.whole, width)
    head = f"{'':<{wide}}       {titles}"
    for number, run in enumerate(view.runs):
        lines += [f"{run.name}: {run.trace.makespan:,} cycles", head]
        here = _covered(view, number, edges)
        for lane in view.lanes_of(number):
            shares = lane.shares(edges, len(view.kinds))
            letters = _letters(shares, np.zeros_like(shares), view.kinds)
            shown = "".join(letter if there else " " for letter, there in zip(letters, here, strict=True))
            lines.append(f"{lane.name:<{wide}} {lane.busy:4.0%}  {shown}".rstrip())
    below = _legend(view.kinds, view.used_kinds()), _NOTE
    return "\n".join([*lines, *(f"{'':<{wide}}       {line}" for line in below)])


def _covered(view: Aligned, run: int, edges: F64) -> list[bool]:
    """True for each letter in whose middle the journey has work."""
    middles = (edges[:-1] + edges[1:]) / 2
    stays = [stay for column in view.columns if (stay := column.stays[run]) is not None]
    return [any(stay.start <= middle < stay.end for stay in stays) for middle in middles.tolist()]


def _legend(kinds: Sequence[str], used: Sequence[int], more: str = "") -> str:
    entries = "  ".join(f"{_GLYPHS.get(kinds[kind], '#')} {kinds[kind].lower()}" for kind in used)
    return f"{entries}{more}  . idle"


def _letters(busy: F64, held: F64, kinds: Sequence[str]) -> str:
    most: list[int] = (busy + held).argmax(axis=0).tolist()
    letters: list[str] = []
    for kind, works, waits in zip(most, busy.sum(axis=0).tolist(), held.sum(axis=0).tolist(), strict=True):
        glyph = _GLYPHS.get(kinds[kind], "#")
        if works + waits < 0.005:
            letters.append(".")
        elif waits > works and kinds[kind] != OTHER:
            letters.append(_WAVE)
        else:
            letters.append(glyph if works >= 0.5 else glyph.lower())
    return "".join(letters)


def _labels(stretches: Sequence[tuple[float, float, str]], whole: float, width: int) -> str:
    """A line with a label at the begin of each stretch of time, cut at the end of the stretch."""
    line = [" "] * width
    for start, end, text in stretches:
        first, last = (int(place / whole * width) for place in (start, end))
        label = f"|{text}"[: max(last - first, 1)]
        line[first : first + len(label)] = label
    return "".join(line[:width]).rstrip()


def simulated_text(trace: Trace, *, width: int = 72, selected: Sequence[int] | None = None) -> str:
    """The run in words, the timeline, and where the time went."""
    figures: Mapping[str, int | float] = stats(trace)
    common = figures["common_read_bytes"] + figures["common_write_bytes"]
    left_out = int((trace.via == Via.SKIPPED).sum())
    head = (
        f"{trace.makespan:,} cycles = {figures['time_us']:,.2f} µs on {trace.machine.label}; "
        f"DRAM {figures['dram_read_bytes']:,} bytes read, {figures['dram_write_bytes']:,} written "
        f"({figures['dram_share_of_peak']:.0%} of its peak rate); "
        f"{f'common memory {common:,} bytes; ' if common else ''}"
        f"{f'{left_out:,} instructions on zeros skipped; ' if left_out else ''}"
        f"matrix units at {figures['macs_share_of_peak']:.0%} of their peak"
    )
    drawn = gantt_of(trace) if selected is None else gantt_of(trace).marked(selected)
    parts = [
        head,
        sum_text(trace),
        *filter(None, [crossed_text(trace)]),
        timeline_text(drawn, width=width),
        "critical path:",
        waterfall(trace).text(indent="  "),
    ]
    return "\n".join(parts if len(trace) else [head, NOTHING])
