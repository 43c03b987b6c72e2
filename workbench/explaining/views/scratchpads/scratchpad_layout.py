"""The picture of the scratchpad over time as plain geometry: addresses upwards, time to the right.

Of one launch every slot has at least the height of a line of text, so that buffers of a few bytes are seen beside
those of megabytes; addresses are marked where slots begin. Of many launches heights are to scale. Where most of the
scratchpad is never used, the axis is broken between the highest byte and the line of the capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from workbench.explaining.views.scratchpads.scratchpad import Held, Occupancy

LEAST, TALL, BREAK = 16.0, 240.0, 30.0
"""Heights: of a slot with a name, of a panel to scale, of the part of the axis that is left out."""
_NAMED = 40
"""Slots of a core up to which each has a name beside it."""
_APART = 12.0
"""Between two lines of text."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time in which a slot holds something, or many that are too short to be drawn one by one."""

    start: float
    read: float
    end: float
    low: float
    high: float
    role: str
    share: float
    """Of the time from start to end in which the slot holds something."""
    told: str
    over: float
    """Where the part above the capacity begins; `high` if all fits."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A text at a height."""

    height: float
    text: str
    soft: str = ""


@dataclass(frozen=True)
class Panel:
    """The scratchpad of one core. Heights are counted upwards from address 0."""

    core: int
    height: float
    bars: tuple[Bar, ...]
    names: tuple[Mark, ...]
    addresses: tuple[Mark, ...]
    slots: tuple[float, ...]
    """Where slots begin, to be drawn as faint lines."""
    capacity: float
    broken: float | None
    """Where the axis is broken."""


@dataclass(frozen=True)
class Layout:
    """What a picture of an occupancy consists of; times are in the occupancy's unit."""

    panels: tuple[Panel, ...]
    occupancy: Occupancy

    @property
    def is_named(self) -> bool:
        """True if slots have names beside them."""
        return any(panel.names for panel in self.panels)

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(bar.role for panel in self.panels for bar in panel.bars))


def layout(view: Occupancy, pixels: int) -> Layout:
    """The geometry of a picture that is so many pixels wide."""
    per_pixel = max(view.end - view.begin, 1) / pixels
    cores = sorted({held.core for held in view.held})
    by_core = {core: [held for held in view.held if held.core == core] for core in cores}
    return Layout(tuple(_panel(core, by_core[core], view, per_pixel, len(cores)) for core in cores), view)


def _panel(core: int, held: Sequence[Held], view: Occupancy, per_pixel: float, cores: int) -> Panel:
    peak = max(each.address + each.bytes for each in held)
    broken = peak * 2 < view.capacity
    slots = sorted({(each.address, each.address + each.bytes) for each in held})
    named = len(view.bands) == 1 and len(slots) <= _NAMED
    top = peak if broken else max(peak, view.capacity)
    scale = _Scale.named(slots, top, view.capacity) if named else _Scale.even(top, TALL / min(cores, 3))
    capacity = scale.height + BREAK if broken else scale(view.capacity)
    return Panel(
        core,
        max(scale.height, capacity),
        tuple(_bars(held, scale, view, per_pixel)),
        tuple(_names(held, scale)) if named else (),
        tuple(_addresses([low for low, _ in slots] if named else _round(top), scale)),
        tuple(scale(low) for low, _ in slots) if named else (),
        capacity,
        scale.height + BREAK / 2 if broken else None,
    )


def heights_of(slots: Sequence[tuple[int, int]], cores: int) -> tuple[list[tuple[float, float]], float]:
    """From which height to which each slot of a core lies, (first address, address after the last), as in the picture
    of one launch; and how high that is."""
    ends, top = sorted(set(slots)), max((high for _, high in slots), default=0)
    named = len(ends) <= _NAMED
    scale = _Scale.named(ends, top, top) if named else _Scale.even(top, TALL / min(cores, 3))
    return [(scale(low), scale(high)) for low, high in slots], scale.height


@dataclass(frozen=True)
class _Scale:
    """From addresses to heights."""

    addresses: npt.NDArray[np.float64]
    heights: npt.NDArray[np.float64]

    @staticmethod
    def even(top: int, height: float) -> _Scale:
        return _Scale(np.array([0.0, max(top, 1)]), np.array([0.0, height]))

    @staticmethod
    def named(slots: Sequence[tuple[int, int]], top: int, capacity: int) -> _Scale:
        """Every piece between two borders of slots is high enough for a line of text."""
        borders = {0, top, *(min(each, top) for slot in slots for each in slot)}
        knots = np.array(sorted(borders | ({capacity} if capacity < top else set())), np.float64)
        each = np.maximum(np.diff(knots) / max(top, 1) * TALL, LEAST)
        return _Scale(knots, np.concatenate([[0.0], np.cumsum(each)]))

    def __call__(self, address: float) -> float:
        return float(np.interp(address, self.addresses, self.heights))

    @property
    def height(self) -> float:
        return float(self.heights[-1])


def _bars(held: Sequence[Held], scale: _Scale, view: Occupancy, per_pixel: float) -> Iterable[Bar]:
    by_slot = sorted(held, key=lambda each: (each.launch, each.address, each.bytes, each.start))
    for _, group in groupby(by_slot, key=lambda each: (each.launch, each.address, each.bytes)):
        for many in _drawn_as_one(list(group), per_pixel):
            first, last = many[0], many[-1]
            low, high = scale(first.address), scale(first.address + first.bytes)
            whole = max(last.end - first.start, 1)
            made = Bar(
                first.start, first.read if len(many) == 1 else first.start, last.end, low, high, first.role,
                sum(each.end - each.start for each in many) / whole, _told(many, view.unit),
                high if first.address + first.bytes <= view.capacity else max(low, scale(view.capacity)),
            )  # fmt: skip
            yield replace(made, share=min(1.0, made.share))


def _drawn_as_one(held: Sequence[Held], per_pixel: float) -> Iterable[list[Held]]:
    """Stretches that are short, and as close to each other as a pixel."""
    group = list[Held]()
    for each in held:
        short = bool(group) and max(each.end - each.start, group[-1].end - group[-1].start) < 2 * per_pixel
        alike = bool(group) and each.role == group[-1].role
        if group and not (short and alike and each.start - group[-1].end < per_pixel):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _told(held: Sequence[Held], unit: str) -> str:
    first, last = held[0], held[-1]
    what = first.tensor or first.role
    times = f"{unit} {first.start:,} to {last.end:,}"
    where = f"{first.buffer}, slot {first.slot}, addresses {first.address:,} to {first.address + first.bytes:,}"
    if len(held) > 1:
        return f"{len(held)} times {what} in {where}; {times}"
    return f"{what} in {where}; {times}, read from {first.read:,} on; {first.role}"


def _names(held: Sequence[Held], scale: _Scale) -> Iterable[Mark]:
    """Beside each slot the tensors it holds, from the lowest up, where there is room."""
    of_slot = dict[tuple[int, int], tuple[dict[str, None], dict[str, None]]]()
    for each in held:
        tensors, slots = of_slot.setdefault((each.address, each.address + each.bytes), ({}, {}))
        tensors[each.tensor or each.role] = slots[f"{each.buffer}[{each.slot}]"] = None
    reached = -_APART
    for (low, high), (tensors, slots) in sorted(of_slot.items()):
        middle = (scale(low) + scale(high)) / 2
        if middle - reached >= _APART:
            reached = middle
            yield Mark(middle, " / ".join(tensors), " ".join(slots))


def _addresses(addresses: Iterable[int], scale: _Scale) -> Iterable[Mark]:
    reached = -_APART
    for address in addresses:
        if scale(address) - reached >= _APART:
            reached = scale(address)
            yield Mark(reached, bytes_text(address))


def bytes_text(count: int) -> str:
    """`16 MiB`, `96 KiB` where it is a whole number of these, else bytes with commas."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,}"


def _round(top: int) -> list[int]:
    """A few addresses that are powers of two apart."""
    step = 1 << max(0, int(np.ceil(np.log2(max(top, 1) / 6))))
    return list(range(0, top + 1, step))
