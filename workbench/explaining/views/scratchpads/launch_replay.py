"""One launch of a run, cycle by cycle: its instructions' accesses to the scratchpad, and their boxes of tensors.

An instruction reads from its start until it gives its unit free, and writes until its results are complete, as in
`simulator.analysis.lifetimes`. Boxes lie in the pictures of `tile_grids`; a product that reads part of a tile has a
place of its own there, which is never moved by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from simulator import Trace
from simulator.tileprogram.program import I64, Access, Opcode, Space, TileProgram
from workbench.explaining.views.scratchpads.scratchpad import Held, held_by_launch
from workbench.explaining.views.scratchpads.tile_grids import Grid, Tile, grids, place_of
from workbench.explaining.views.scratchpads.tiles import ACCESS, Tiling, tiling
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph, ScheduledProgram

KEPT: Final = 16
"""The most replays that are kept: the last ones that were used."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of one buffer of the scratchpad."""

    core: int
    buffer: str
    number: int
    """The number of the buffer among those of its program, as in `wb.BufferAt`."""
    slot: int
    address: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """A rectangle in the picture of a tensor, in elements."""

    grid: int
    top: int
    left: int
    bottom: int
    right: int
    tile: Tile | None
    """The tile that is moved; None for a part of one that an instruction reads alone."""


@dataclass(frozen=True, slots=True)
class Uses:
    """Accesses to slots, one entry an operand in the scratchpad."""

    instruction: I64
    slot: I64
    life: I64
    access: I64


@dataclass(frozen=True, slots=True)
class Visits:
    """Boxes that instructions touch, one entry each, in program order."""

    instruction: I64
    place: I64
    access: I64
    is_move: I64
    """1 where the box is moved from or to DRAM, else 0."""
    touch: I64
    """The row of the box in the kernel's tiles, as in `wb.TileAt`."""


@dataclass(frozen=True, eq=False)
class Replay:
    """One launch. Cycles are those of the run."""

    launch: int
    kernel: str
    """Name of the graph's kernel that the launch runs."""
    begin: int
    end: int
    is_host: bool
    """True if PyTorch computes the launch on the host: nothing of it lies in the scratchpad."""
    first_span: int
    """The row of the launch's first instruction in `j.simulated.events`."""
    kinds: tuple[str, ...]
    """The kind of each instruction."""
    start: I64
    until: I64
    """The cycle in which each instruction gives its unit free."""
    done: I64
    """The cycle in which the results of each instruction are complete."""
    capacity: int
    slots: tuple[Slot, ...]
    lives: tuple[Held, ...]
    slot_of_life: tuple[int, ...]
    uses: Uses
    tiling: Tiling
    grids: tuple[Grid, ...]
    places: tuple[Place, ...]
    visits: Visits

    def over(self, instruction: I64, access: I64) -> I64:
        """The cycles in which these accesses end."""
        return np.where(access & Access.WRITE, self.done[instruction], self.until[instruction])

    @property
    def changes(self) -> I64:
        """The cycles in which an instruction starts, ends or is complete, in order."""
        return np.unique(np.concatenate([[self.begin, self.end], self.start, self.until, self.done]))


class Replays:
    """The launches of a run; each replay is made at its first use."""

    def __init__(self, trace: Trace, scheduled: ScheduledProgram, lowered: KernelGraph) -> None:
        self.trace, self.scheduled, self.lowered = trace, scheduled, lowered
        self.times = [(begin, end) for _, begin, end in trace.kernel_spans]
        self.of = lru_cache(maxsize=KEPT)(self._of)

    @property
    def kernels(self) -> list[str]:
        """The name of the graph's kernel of each launch."""
        return [launch.name for launch in self.scheduled.launches.launches]

    def check(self, cycle: int) -> int:
        """Returns the cycle; raises if the run does not have it."""
        if not self.times:
            raise BadOption(f"at({cycle:,}): no kernel ran, so there is no cycle to show")
        if not 0 <= cycle <= self.trace.makespan:
            raise BadOption(f"at({cycle:,}): the run has the cycles 0 to {self.trace.makespan:,}")
        return cycle

    def launch_at(self, cycle: int) -> int:
        """The launch that began last before or in this cycle: in a gap, the launch before the gap."""
        begins = [begin for begin, _ in self.times]
        return max(0, int(np.searchsorted(begins, cycle, side="right")) - 1)

    def _of(self, launch: int) -> Replay:
        trace, program = self.trace, self.trace.launches[launch].program
        here = trace.rows_of(launch)
        name = self.kernels[launch]
        is_host = self.scheduled.launches.launches[launch].kernel in {step.kernel for step in self.scheduled.hosts}
        filled, lives, held = held_by_launch(trace, self.scheduled, self.lowered, launch)
        slots = tuple(_slots(program))
        numbers = {(slot.number, slot.slot): place for place, slot in enumerate(slots)}
        life_of = np.full(len(filled), -1)
        for number, life in enumerate(lives):
            life_of[list(life.fillings)] = number
        found = Tiling(name, (), ()) if is_host else tiling(name, self.scheduled, self.lowered)
        drawn = tuple(grids(found))
        places, visits = _visits(found, drawn)
        return Replay(
            launch=launch,
            kernel=name,
            begin=self.times[launch][0],
            end=self.times[launch][1],
            is_host=is_host,
            first_span=here.start,
            kinds=tuple(Opcode(kind).name for kind in trace.kind[here].tolist()),
            start=trace.start[here],
            until=trace.end[here],
            done=trace.done[here],
            capacity=trace.machine.scratchpad_bytes,
            slots=slots,
            lives=tuple(held),
            slot_of_life=tuple(numbers[life.buffer, life.slot] for life in lives),
            uses=_uses(program, numbers, life_of, filled.of_operand),
            tiling=found,
            grids=drawn,
            places=places,
            visits=visits,
        )


def _slots(program: TileProgram) -> list[Slot]:
    """The slots of all buffers, sorted by core and address."""
    found = [
        Slot(buffer.core, buffer.name, number, slot, buffer.offset + slot * buffer.slot_bytes, buffer.slot_bytes)
        for number, buffer in enumerate(program.buffers)
        for slot in range(buffer.slots)
    ]
    return sorted(found, key=lambda each: (each.core, each.address))


def _uses(program: TileProgram, numbers: dict[tuple[int, int], int], life_of: I64, filling: I64) -> Uses:
    inside = np.flatnonzero(program.space == Space.SCRATCHPAD)
    where = zip(program.target[inside].tolist(), program.slot[inside].tolist(), strict=True)
    slot = np.array([numbers[place] for place in where], np.int64)
    return Uses(program.owners()[inside], slot, life_of[filling[inside]], program.access[inside].astype(np.int64))


def _visits(view: Tiling, drawn: Sequence[Grid]) -> tuple[tuple[Place, ...], Visits]:
    places = list[Place]()
    known = dict[tuple[int, tuple[int, int, int, int]], int]()
    for number, grid in enumerate(drawn):
        for tile in grid.tiles:
            known[number, (tile.top, tile.left, tile.bottom, tile.right)] = len(places)
            places.append(Place(number, tile.top, tile.left, tile.bottom, tile.right, tile))
    by_argument = {each.argument: number for number, each in enumerate(view.tensors)}
    # Two inputs may have one name: an argument may be called as a parameter of the model is.
    by_name = {(each.tensor, len(each.coordinates)): number for number, each in reversed([*enumerate(view.tensors)])}
    rows = list[tuple[int, int, int, int, int]]()
    for row, touch in enumerate(view.touches):
        if touch.box is None or touch.access not in _BITS:
            continue
        number = by_argument.get(touch.argument, by_name.get((touch.tensor, len(touch.box.start))))
        if number is None:
            continue
        lies = place_of(touch.box, drawn[number].axes)
        if (number, lies) not in known:
            known[number, lies] = len(places)
            places.append(Place(number, *lies, tile=None))
        rows.append((touch.instruction, known[number, lies], _BITS[touch.access], int(touch.argument >= 0), row))
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return tuple(places), Visits(*columns)


_BITS: Final = {word: int(access) for access, word in ACCESS.items()}
