"""One cycle of a run as tables: the contents of each slot, the instructions that read or write it, the boxes they
touch, and how often each tile has been moved so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import I64, Access
from workbench.explaining.views.scratchpads.launch_replay import Replay
from workbench.explaining.views.scratchpads.scratchpad import Band, Occupancy
from workbench.explaining.views.scratchpads.tiles import ACCESS, tiles_table
from workbench.ground.basics.table import Cell, Table

EMPTY: Final = "empty"
WAITS: Final = "not read yet"
IN_USE: Final = "in use"

SLOTS: Final = (
    "core", "buffer", "slot", "state", "tensor", "role", "written_by", "read_by", "start", "read", "end", "address",
    "bytes",
)  # fmt: skip
TILES: Final = ("tensor", "access", "axes", "start", "extent", "first", "moved", "moves", "now")


@dataclass(frozen=True, eq=False)
class Moment:
    """One cycle of a launch."""

    cycle: int
    replay: Replay

    @property
    def at_work(self) -> tuple[int, ...]:
        """The instructions that hold a unit in this cycle."""
        replay = self.replay
        return tuple(np.flatnonzero((replay.start <= self.cycle) & (self.cycle < replay.until)).tolist())

    def lives_now(self) -> dict[int, int]:
        """Slot -> the number of its contents among the lives."""
        pairs = zip(self.replay.slot_of_life, self.replay.lives, strict=True)
        return {slot: number for number, (slot, held) in enumerate(pairs) if held.start <= self.cycle < held.end}

    @property
    def bytes_now(self) -> int:
        """Bytes of the slots that hold something, on the core with most of them: each has a scratchpad of its own."""
        held = Counter[int]()
        for slot in self.lives_now():
            held[self.replay.slots[slot].core] += self.replay.slots[slot].bytes
        return max(held.values(), default=0)

    def is_now(self, instruction: I64, access: I64) -> npt.NDArray[np.intp]:
        """The places of the accesses that go on in this cycle."""
        started = self.replay.start[instruction] <= self.cycle
        return np.flatnonzero(started & (self.cycle < self.replay.over(instruction, access)))

    def slots(self) -> Table:
        """One row a slot of the launch's buffers."""
        replay, lives, uses = self.replay, self.lives_now(), self.replay.uses
        going = self.is_now(uses.instruction, uses.access)
        rows = list[tuple[Cell, ...]]()
        for number, slot in enumerate(replay.slots):
            here = going[uses.slot[going] == number]
            users = (self._named(here, Access.WRITE), self._named(here, Access.READ))
            held = replay.lives[lives[number]] if number in lives else None
            state = EMPTY if held is None else WAITS if self.cycle < held.read else IN_USE
            what = (held.tensor, held.role) if held else (None, None)
            times = (held.start, held.read, held.end) if held else (None, None, None)
            rows.append((slot.core, slot.buffer, slot.slot, state, *what, *users, *times, slot.address, slot.bytes))
        return Table(SLOTS, tuple(rows), self._why_empty)

    def _named(self, uses: npt.NDArray[np.intp], access: Access) -> str:
        """The instructions of these uses, written as a user selects them: `LOAD #3`."""
        numbers = self.replay.uses.instruction[uses[(self.replay.uses.access[uses] & access) != 0]]
        return ", ".join(f"{self.replay.kinds[number]} #{number}" for number in dict.fromkeys(numbers.tolist()))

    def boxes(self) -> Table:
        """One row a box that an instruction touches now, as in the kernel's tiles."""
        visits = self.replay.visits
        going = set(visits.touch[self.is_now(visits.instruction, visits.access)].tolist())
        view = self.replay.tiling
        now = replace(view, touches=tuple(touch for row, touch in enumerate(view.touches) if row in going))
        return replace(tiles_table(now), why_empty="no instruction touches a box of a tensor in this cycle")

    def tiles(self) -> Table:
        """One row a tile of a tensor that is moved."""
        replay, visits = self.replay, self.replay.visits
        so_far = np.bincount(self._moves_so_far(), minlength=len(replay.places)).tolist()
        going = self.is_now(visits.instruction, visits.access)
        now = np.zeros(len(replay.places), np.int64)
        np.bitwise_or.at(now, visits.place[going], visits.access[going])
        rows = list[tuple[Cell, ...]]()
        for number, place in enumerate(replay.places):
            if place.tile is None:
                continue
            grid = replay.grids[place.grid]
            sides = zip(grid.axes, (place.top, place.left), (place.bottom, place.right), strict=True)
            drawn = [side for side in sides if side[0] >= 0]
            axes, start = tuple(axis for axis, _, _ in drawn), tuple(low for _, low, _ in drawn)
            extent = tuple(high - low for _, low, high in drawn)
            counted = (place.tile.first, so_far[number], place.tile.visits)
            rows.append((grid.tensor, grid.access, axes, start, extent, *counted, _word(int(now[number]))))
        return Table(TILES, tuple(rows), self._why_empty or "the kernel moves nothing")

    def _moves_so_far(self) -> I64:
        """The places of all moves that have begun."""
        visits = self.replay.visits
        begun = (self.replay.start[visits.instruction] <= self.cycle) & (visits.is_move > 0)
        return visits.place[begun]

    @property
    def _why_empty(self) -> str:
        return f"PyTorch computes {self.replay.kernel} on the host" if self.replay.is_host else ""

    def summary(self) -> str:
        """The activity in a line."""
        replay = self.replay
        if self.cycle < replay.begin or self.cycle >= replay.end:
            when = "begins" if self.cycle < replay.begin else "ended"
            work = f"{replay.kernel} {when} in cycle {(replay.begin if when == 'begins' else replay.end):,}"
        else:
            busy = ", ".join(f"{replay.kinds[number]} #{number}" for number in self.at_work)
            work = f"{replay.kernel}: {busy or 'no instruction'} at work"
        share = 100 * self.bytes_now // max(replay.capacity, 1)  # whole percent, as the browser counts them
        told = "<1%" if self.bytes_now and not share else f"{share}%"
        where = " of the fullest core" if len({slot.core for slot in replay.slots}) > 1 else ""
        held = f"{self.bytes_now:,} of {replay.capacity:,} bytes{where} hold something ({told})"
        return f"cycle {self.cycle:,}, {work}; {held}"


def _word(access: int) -> str:
    return ACCESS[Access(access)] if access else ""


def occupancy_of(replay: Replay) -> Occupancy:
    """The launch's occupancy, as the picture over time shows it."""
    kernel = replay.lives[0].kernel if replay.lives else replay.kernel
    band = Band(kernel, replay.kernel, replay.launch, replay.begin, replay.end)
    return Occupancy(replay.lives, (band,), replay.capacity)
