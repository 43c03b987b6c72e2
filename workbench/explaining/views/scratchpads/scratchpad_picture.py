"""The scratchpad over time as a picture: addresses upwards, time to the right, a panel for each core.

In a picture of one launch every slot has at least the height of a line of text, so that buffers of a few bytes are seen
beside those of megabytes; addresses are marked where slots begin. In a picture of many launches heights are to scale.
Where most of the scratchpad is never used, the axis is broken between the highest byte and the line of the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from workbench.explaining.views.scratchpads import scratchpad
from workbench.explaining.views.scratchpads.scratchpad import Held, Occupancy
from workbench.explaining.views.timelines.gantt import fitting
from workbench.ground.basics.colours import HELD
from workbench.ground.basics.picture import LETTER, Axis, Box, Entry, Line, Mark, Picture, Tick, Told, Words

_WIDTH, _NAMED_WIDTH = 880, 710
"""Width of the plot in pixels, and of a plot whose slots have names beside them."""
_HEAD, _GAP, _CLEAR = 22, 20, 9.0
_LEAST, _TALL, _BREAK = 16.0, 240.0, 30.0
"""Heights: of a slot with a name, of a panel to scale, of the part of the axis that is left out."""
_NAMED = 40
"""Up to so many slots of a core, each has a name beside it."""
_APART = 12.0
"""The least distance between two lines of text."""
_COLOURS = {
    scratchpad.LOADED: "k-LOAD",
    scratchpad.STORED: "k-STORE",
    scratchpad.BOTH: "k-COPY",
    scratchpad.INSIDE: "h7",
}


@dataclass(frozen=True)
class Panel:
    """The scratchpad of one core. Heights are counted upwards from address 0."""

    core: int
    bars: tuple[list[Held], ...]
    """Stretches of time in which a slot holds something; a bar has several if they are too short to be drawn one by
    one."""
    scale: _Scale
    slots: tuple[tuple[int, int], ...]
    """First address and address after the last of each slot with a name; none where there are too many."""
    marked: tuple[int, ...]
    """Addresses that are written where there is room."""
    capacity: float
    broken: float | None
    """Height at which the axis is broken."""

    @property
    def height(self) -> float:
        return max(self.scale.height, self.capacity)


def scratchpad_picture(view: Occupancy, width: float = _WIDTH) -> Picture:
    """The picture and its legend."""
    label = f"scratchpad over time: at most {view.peak:,} of {view.capacity:,} bytes"
    if not view.held:
        return Picture(label, nothing=scratchpad.NOTHING)
    laid_out, end = panels(view, int(width)), max(view.end, view.begin + 1)
    width = min(width, _NAMED_WIDTH) if any(panel.slots for panel in laid_out) else width
    marks, names, addresses, bottom = list[Mark](), list[Tick](), list[Tick](), float(_HEAD - _GAP)
    for panel in laid_out:
        bottom += panel.height + _GAP
        marks += _panel(panel, view, bottom, len(laid_out))
        names += _names(panel, view, bottom)
        addresses += _addresses(panel, view, bottom)
    return Picture(
        label,
        width,
        bottom,
        Axis(view.begin, end, view.unit, None, whole=True),
        Axis(bottom, 0, ticks=tuple(names or addresses)),
        tuple(marks),
        tuple(_entries(view, laid_out)),
        behind=tuple(_bands(view, width / (end - view.begin), bottom)),
        beside=Axis(bottom, 0, ticks=tuple(addresses)) if names else None,
    )


def panels(view: Occupancy, pixels: int) -> list[Panel]:
    """The panels of a picture that is so many pixels wide."""
    per_pixel = max(view.end - view.begin, 1) / pixels
    cores = sorted({held.core for held in view.held})
    return [
        _laid_out(core, [held for held in view.held if held.core == core], view, per_pixel, len(cores))
        for core in cores
    ]


def _laid_out(core: int, held: Sequence[Held], view: Occupancy, per_pixel: float, cores: int) -> Panel:
    peak = max(each.address + each.bytes for each in held)
    broken = peak * 2 < view.capacity
    slots = sorted({(each.address, each.address + each.bytes) for each in held})
    named = slots if len(view.bands) == 1 and len(slots) <= _NAMED else []
    top = peak if broken else max(peak, view.capacity)
    scale = _Scale.named(named, top, view.capacity) if named else _Scale.even(top, cores)
    return Panel(
        core,
        tuple(_bars(held, per_pixel)),
        scale,
        tuple(named),
        tuple(low for low, _ in named) or tuple(_round(top)),
        scale.height + _BREAK if broken else scale(view.capacity),
        scale.height + _BREAK / 2 if broken else None,
    )


def heights_of(slots: Sequence[tuple[int, int]], cores: int) -> tuple[list[tuple[float, float]], float]:
    """The heights between which each slot of a core is drawn in the picture of one launch, and the height of the core.
    Slots are pairs: the first address, and the address after the last."""
    ends, top = sorted(set(slots)), max((high for _, high in slots), default=0)
    scale = _Scale.named(ends, top, top) if len(ends) <= _NAMED else _Scale.even(top, cores)
    return [(scale(low), scale(high)) for low, high in slots], scale.height


@dataclass(frozen=True)
class _Scale:
    """Converts addresses to heights in the picture."""

    addresses: npt.NDArray[np.float64]
    heights: npt.NDArray[np.float64]

    @staticmethod
    def even(top: int, cores: int) -> _Scale:
        return _Scale(np.array([0.0, max(top, 1)]), np.array([0.0, _TALL / min(cores, 3)]))

    @staticmethod
    def named(slots: Sequence[tuple[int, int]], top: int, capacity: int) -> _Scale:
        """Every piece between two borders of slots is high enough for a line of text."""
        borders = {0, top, *(min(each, top) for slot in slots for each in slot)}
        knots = np.array(sorted(borders | ({capacity} if capacity < top else set())), np.float64)
        each = np.maximum(np.diff(knots) / max(top, 1) * _TALL, _LEAST)
        return _Scale(knots, np.concatenate([[0.0], np.cumsum(each)]))

    def __call__(self, address: float) -> float:
        return float(np.interp(address, self.addresses, self.heights))

    @property
    def height(self) -> float:
        return float(self.heights[-1])


def _bars(held: Sequence[Held], per_pixel: float) -> Iterator[list[Held]]:
    """Stretches of one slot, together where they are short, alike, and as close to each other as a pixel."""
    by_slot = sorted(held, key=lambda each: (each.launch, each.address, each.bytes, each.start))
    for _, of_slot in groupby(by_slot, key=lambda each: (each.launch, each.address, each.bytes)):
        first, *others = of_slot
        group = [first]
        for each in others:
            last = group[-1]
            short = max(each.end - each.start, last.end - last.start) < 2 * per_pixel
            if not (short and each.role == last.role and each.start - last.end < per_pixel):
                yield group
                group = []
            group.append(each)
        yield group


def _bands(view: Occupancy, pixels: float, bottom: float) -> Iterator[Told]:
    for index, band in enumerate(view.bands):
        name = fitting(band.name, (band.end - band.begin) * pixels / LETTER)
        words = (Words((band.begin + band.end) / 2, 13, name, "middle"),) if name else ()
        yield Told(band.name, (Box(band.begin, band.end, 0, bottom, "band", float(index % 2 == 0)), *words))


def _panel(panel: Panel, view: Occupancy, bottom: float, cores: int) -> Iterator[Mark]:
    top, begin, end = bottom - panel.capacity, view.begin, max(view.end, view.begin + 1)

    def across(y: float, colour: str, stroke: float, *dash: float) -> Line:
        return Line(((begin, y), (end, y)), colour, stroke, dash)

    for low, _ in panel.slots:
        yield across(bottom - panel.scale(low), "faint", 0.8)
    if panel.height > panel.capacity:
        yield Box(begin, end, bottom - panel.height, top, "bad", 0.12)
    for bar in panel.bars:
        yield Told(_told(bar, view.unit), tuple(_bar(bar, panel.scale, view.capacity, bottom)))
    yield across(bottom, "line", 1)
    yield across(top, "bad" if view.beyond else "ink", 1.4, 6, 3)
    if panel.broken is not None:
        yield across(bottom - panel.broken, "soft", 1, 1, 3)
        yield Words(begin, bottom - panel.broken, "//", dx=4, dy=4, colour="soft", bold=True)
    if cores > 1:
        yield Words(begin, bottom - panel.height - 5, f"core {panel.core}", size=11, bold=True)


def _read(bar: Sequence[Held]) -> int:
    """The time until which a bar is being filled; for several stretches, the start of the first one."""
    return bar[0].read if len(bar) == 1 else bar[0].start


def _bar(bar: Sequence[Held], scale: _Scale, capacity: int, bottom: float) -> Iterator[Box]:
    first, end, read = bar[0], bar[-1].end, _read(bar)
    top, base = (bottom - scale(address) for address in (first.address + first.bytes, first.address))
    if read > first.start:
        yield Box(first.start, read, top, base, _COLOURS[first.role], HELD, apart=True)
    share = min(1.0, sum(each.end - each.start for each in bar) / max(end - first.start, 1))
    yield Box(read, end, top, base, _COLOURS[first.role], max(share, HELD), apart=True)
    if first.address + first.bytes > capacity:
        over = min(base, bottom - scale(capacity))
        yield Box(first.start, end, top, over, edge="bad", stroke=1.2, hatch="bad")


def _told(held: Sequence[Held], unit: str) -> str:
    first, last = held[0], held[-1]
    what = first.tensor or first.role
    times = f"{unit} {first.start:,} to {last.end:,}"
    where = f"{first.buffer}, slot {first.slot}, addresses {first.address:,} to {first.address + first.bytes:,}"
    if len(held) > 1:
        return f"{len(held)} times {what} in {where}; {times}"
    return f"{what} in {where}; {times}, read from {first.read:,} on; {first.role}"


def _names(panel: Panel, view: Occupancy, bottom: float) -> Iterator[Tick]:
    """The names of the tensors of each slot, written beside the slot from the lowest up, where there is room."""
    of_slot = {slot: (dict[str, None](), dict[str, None]()) for slot in panel.slots}
    for each in (held for held in view.held if of_slot and held.core == panel.core):
        tensors, slots = of_slot[each.address, each.address + each.bytes]
        tensors[each.tensor or each.role] = slots[f"{each.buffer}[{each.slot}]"] = None
    reached = -_APART
    for (low, high), (tensors, slots) in of_slot.items():
        middle = (panel.scale(low) + panel.scale(high)) / 2
        if middle - reached >= _APART:
            reached = middle
            yield Tick(bottom - middle, " / ".join(tensors), " ".join(slots))


def _addresses(panel: Panel, view: Occupancy, bottom: float) -> Iterator[Tick]:
    reached = -_APART
    for address in panel.marked:
        height = panel.scale(address)
        if height - reached >= _APART:
            reached = height
            if abs(height - panel.capacity) > _CLEAR:
                yield Tick(bottom - height, "", bytes_text(address))
    colour = "bad" if view.beyond else "ink"
    yield Tick(bottom - panel.capacity, f"capacity {bytes_text(view.capacity)}", colour=colour)


def bytes_text(count: int) -> str:
    """`16 MiB`, `96 KiB` where it is a whole number of these, else bytes with commas."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,}"


def _round(top: int) -> list[int]:
    """A few addresses at equal distances, which are a power of two."""
    step = 1 << max(0, int(np.ceil(np.log2(max(top, 1) / 6))))
    return list(range(0, top + 1, step))


def _entries(view: Occupancy, laid_out: Sequence[Panel]) -> Iterator[Entry]:
    roles = [role for role in _COLOURS if any(held.role == role for held in view.held)]
    for role in roles:
        yield Entry(scratchpad.WORDS[role], _COLOURS[role])
    if any(_read(bar) > bar[0].start for panel in laid_out for bar in panel.bars):
        yield Entry(scratchpad.FADED, _COLOURS[roles[0]], HELD)
    if view.beyond:
        yield Entry(scratchpad.BEYOND, edge="bad", hatch="bad")
