"""The timeline's geometry: lanes, spans, idle time and launches, as plain arrays that any picture can be drawn from.

A trace can hold far more spans than a picture has pixels. `occupancy` says exactly how much of each pixel every kind
of work fills, so that a crowded lane is drawn as a share of the time, and never as a solid bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Time = TypeVar("Time", np.int64, np.float64)


OTHER: Final = "OTHER"
LAUNCH: Final = "launch"
"""The cause that gives the time before a launch its colour."""

BUSY: Final = "busy, of the run"
"""The meaning of the percentage beside a lane's name."""

WAITING: Final = "waits on its way"
"""The kind of a span's time in which it holds its unit and waits."""

NOTHING: Final = "nothing runs on the machine: no node of this function computes or moves anything"
"""The text of a timeline without spans, in words and in pictures. Views, for instance, only change strides."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One hardware unit: its name, the class of unit it belongs to, and the share of the makespan it is busy.

    `busy` counts the time that the bars fill, without the waits of transfers on their way.
    """

    name: str
    group: str
    busy: float


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time of one launch of a kernel."""

    kernel: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Spans:
    """The data of the picture: one entry a span, in any order."""

    lane: I64
    start: I64
    end: I64
    kind: I64
    cause: I64
    """The span's last wait."""
    launch: I64
    waits: I64
    """Cycles within a span in which it waits on its way: one row a span, one column a cause; there may be no column."""
    idle: I64
    """The cause of the idle time before the span."""
    tails: tuple[tuple[int, I64], ...]
    """The last parts of that idle time, if they have other causes, in the order of time: a cause and its cycles."""


@dataclass(frozen=True, eq=False)
class Idle:
    """Pieces of time in which a lane stands idle, each with its cause, sorted by lane, then start."""

    lane: I64
    start: I64
    end: I64
    cause: I64

    def of_lane(self, lane: int) -> slice:
        """Slice of the arrays with the pieces of a lane."""
        return _of_lane(self.lane, lane)


@dataclass(frozen=True, eq=False)
class Gantt:
    """A timeline as lanes. Spans are sorted by lane, then start.

    A span that waits on its way holds its lane and does no work. The length of each wait is known, but not its place
    within the span: the waits are put before the work, in the order of the causes.
    """

    lanes: tuple[Lane, ...]
    unused: tuple[str, ...]
    """Units that do nothing at all; they have no lane."""
    kinds: tuple[str, ...]
    causes: tuple[str, ...]
    bands: tuple[Band, ...]
    """The launches, each from its first span's start to its last one's end."""
    launching: tuple[Band, ...]
    """The time before kernels begin, from the end of the launch before; units stand idle then, for `launch` in
    `.stalls`."""
    makespan: int
    clock_mhz: float
    lane: I64
    start: I64
    end: I64
    kind: I64
    cause: I64
    work_start: I64
    """Start of the span's work; equal to `start` if the span does not wait on its way."""
    idle_time: Idle
    """The idle time before spans, and within spans that wait on their way."""
    row: I64
    """Place of the span in the trace."""

    def marked(self, rows: Sequence[int]) -> Gantt:
        """The timeline with all other spans as the kind `OTHER`, which is drawn faintly."""
        kinds = (*self.kinds, OTHER)
        kind = np.where(np.isin(self.row, np.asarray(rows, np.int64)), self.kind, len(kinds) - 1)
        return replace(self, kinds=kinds, kind=kind)

    def of_lane(self, lane: int) -> slice:
        """Slice of the arrays with the spans of a lane."""
        return _of_lane(self.lane, lane)

    def used_kinds(self) -> tuple[int, ...]:
        return tuple(int(kind) for kind in np.unique(self.kind))

    def used_causes(self) -> tuple[int, ...]:
        """The causes of the idle time in this timeline."""
        return tuple(int(cause) for cause in np.unique(self.idle_time.cause))

    def waiting_kinds(self) -> tuple[int, ...]:
        """The kinds with a span that waits on its way."""
        return tuple(int(kind) for kind in np.unique(self.kind[self.start < self.work_start]))

    def busy(self, lane: int, edges: F64) -> F64:
        """For each kind (row) the share of each interval between `edges` in which spans of this kind work on the
        lane."""
        part = self.of_lane(lane)
        return occupancy(self.work_start[part], self.end[part], self.kind[part], len(self.kinds), edges)

    def held(self, lane: int, edges: F64) -> F64:
        """For each kind (row) the share of each interval in which spans of this kind hold the lane and wait on their
        way."""
        part = self.of_lane(lane)
        return occupancy(self.start[part], self.work_start[part], self.kind[part], len(self.kinds), edges)

    def idle(self, lane: int, edges: F64) -> F64:
        """For each cause (row) the share of each interval in which the lane is idle for this cause."""
        found, part = self.idle_time, self.idle_time.of_lane(lane)
        return occupancy(found.start[part], found.end[part], found.cause[part], len(self.causes), edges)


def gantt(
    spans: Spans,
    *,
    units: Sequence[tuple[str, str]],
    kinds: Sequence[str],
    causes: Sequence[str],
    waits: Sequence[str],
    launches: Sequence[tuple[str, int, int]],
    makespan: int,
    clock_mhz: float,
) -> Gantt:
    """The view model of a trace. `units` are (name, group) by lane number, `launches` (kernel, begin, end) in order;
    `waits` name the columns of `Spans.waits`, and are causes like all others.

    A unit waits from the begin of the launch at the earliest: before that, it had no instruction that could wait.
    """
    works = np.bincount(spans.lane, minlength=len(units)) > 0
    places = np.cumsum(works) - 1
    unused = tuple(name for (name, _), used in zip(units, works, strict=True) if not used)
    units = [unit for unit, used in zip(units, works, strict=True) if used]
    order = np.lexsort((spans.start, spans.lane))
    lane, start, end = places[spans.lane[order]].astype(np.int64), spans.start[order], spans.end[order]
    before = np.concatenate([[0], end[:-1]]).astype(np.int64)
    first = np.concatenate([[True], lane[1:] != lane[:-1]]) if len(lane) else np.zeros(0, bool)
    begins = np.array([begin for _, begin, _ in launches], np.int64)
    free = np.where(first, 0, before[: len(lane)])
    idle_start = np.minimum(np.maximum(free, begins[spans.launch[order]]) if len(lane) else free, start)
    before_it, until = list[Idle](), start
    for number, cycles in reversed(spans.tails):
        since = np.maximum(until - cycles[order], idle_start)
        before_it.append(Idle(lane, since, until, np.full_like(lane, number)))
        until = since
    before_it.append(Idle(lane, idle_start, until, spans.idle[order]))
    names = tuple(dict.fromkeys([*causes, *waits]))
    columns = np.array([names.index(name) for name in waits], np.int64)
    on_its_way, work_start = _on_its_way(lane, start, spans.waits[order], columns)
    worked = np.bincount(lane, weights=(end - work_start).astype(np.float64), minlength=len(units))
    whole = max(makespan, 1)
    lanes = tuple(Lane(name, group, float(worked[i]) / whole) for i, (name, group) in enumerate(units))
    dones = [0, *(done for _, _, done in launches)]
    launching = (Band(kernel, at, begin) for (kernel, begin, _), at in zip(launches, dones, strict=False) if at < begin)
    bands = (
        Band(kernel, int(spans.start[mine].min()), int(spans.end[mine].max()))
        for index, (kernel, _, _) in enumerate(launches)
        if (mine := spans.launch == index).any()
    )
    return Gantt(
        lanes=lanes,
        unused=unused,
        kinds=tuple(kinds),
        causes=names,
        bands=tuple(bands),
        launching=tuple(launching),
        makespan=makespan,
        clock_mhz=clock_mhz,
        lane=lane,
        start=start,
        end=end,
        kind=spans.kind[order],
        cause=spans.cause[order],
        work_start=work_start,
        idle_time=_joined(*before_it, on_its_way),
        row=order.astype(np.int64),
    )


def _of_lane(lanes: I64, lane: int) -> slice:
    first, last = np.searchsorted(lanes, [lane, lane + 1])
    return slice(int(first), int(last))


def _on_its_way(lane: I64, start: I64, waits: I64, causes: I64) -> tuple[Idle, I64]:
    """The waits of spans while they hold their lane, one cause after another, and the start of each span's work."""
    ends = start[:, None] + np.cumsum(waits, axis=1, dtype=np.int64)
    columns = np.broadcast_to(causes, waits.shape)
    lanes = np.broadcast_to(lane[:, None], waits.shape)
    within = Idle(lanes.ravel(), (ends - waits).ravel(), ends.ravel(), columns.ravel())
    return within, ends[:, -1] if waits.shape[1] else start


def _joined(*pieces: Idle) -> Idle:
    """All pieces that last at least one cycle, sorted by lane, then start."""
    lane, start, end, cause = (
        np.concatenate([getattr(each, name) for each in pieces]) for name in ("lane", "start", "end", "cause")
    )
    order = np.lexsort((start, lane))
    order = order[(start < end)[order]]
    return Idle(lane[order], start[order], end[order], cause[order])


def together(start: npt.NDArray[Time], end: npt.NDArray[Time]) -> tuple[npt.NDArray[Time], npt.NDArray[Time]]:
    """Joins stretches of time that overlap or touch: the starts and ends of those that remain, in order."""
    order = np.argsort(start, kind="stable")
    last: npt.NDArray[Time] = np.maximum.accumulate(end[order])
    start = start[order]
    opens = np.concatenate([[True], start[1:] > last[:-1]])[: len(start)]
    closes = np.concatenate([opens[1:], [True]])[: len(start)]
    return start[opens], last[closes]


def fitting(kernel: str, letters: float) -> str:
    """A kernel's name, shortened to so many letters: cut with a mark, or its number alone, or nothing.

    `k2_conv2d_native_batch_norm_relu`, `k2_conv2d_native…`, `k2`.
    """
    if len(kernel) <= letters:
        return kernel
    number = kernel.partition("_")[0]
    if letters >= len(number) + 5:
        return f"{kernel[: int(letters) - 1].rstrip('_')}…"
    return number if len(number) <= letters else ""


def unused_text(names: Sequence[str], letters: int) -> str:
    """Names the units that are idle throughout, as many as fit into so many letters, at least one; the others are
    counted."""
    found = f"idle throughout: {', '.join(names)}"
    shown = len(names) - 1
    while len(found) > letters and shown > 0:
        found = f"idle throughout: {', '.join(names[:shown])} and {len(names) - shown} more"
        shown -= 1
    return found


def occupancy(start: I64 | F64, end: I64 | F64, group: I64, groups: int, edges: F64) -> F64:
    """Share of every interval between equally spaced `edges` that the spans of each group fill: groups x intervals.

    Exact: a span's share goes to its first and last interval by the part it covers and to those between in full.
    """
    bins = len(edges) - 1
    filled = np.zeros((groups, bins + 1))
    if not len(start) or not bins:
        return filled[:, :bins]
    width = (edges[-1] - edges[0]) / bins
    low = np.clip((start - edges[0]) / width, 0, bins)
    high = np.clip((end - edges[0]) / width, 0, bins)
    # The running integral of "is busy" at each interval's right edge is what the differences of these ramps sum to.
    ramps = np.zeros((groups, bins + 2))
    for place, sign in ((low, 1.0), (high, -1.0)):
        cell = np.minimum(place.astype(np.int64), bins)
        part = place - cell
        np.add.at(ramps, (group, cell), sign * (1 - part))
        np.add.at(ramps, (group, cell + 1), sign * part)
    return np.clip(np.cumsum(ramps, axis=1)[:, :bins], 0, 1)
