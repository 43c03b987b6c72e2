"""The table of pages on a machine of several chiplets: which chiplet's memory holds each page.

The first launch that accesses a page places it: as the plan says (`Placed`), or else by the machine's `dram_placement`:

    interleaved    in the memories of all chiplets in turn, by the page's number
    local          in the memory of the chiplet that asks for most of the page's bytes in that launch; if several ask
                   for equally many, in their memories in turn, by the page's number

A page stays there as long as its tensor lives. If another tensor's life begins at the same address, the page is placed
again; the old contents are dead, so moving it costs nothing. If tensors share a page, the tensor that the plan places
decides, else the tensor that was there first.

In its chiplet's memory a page has a frame: one that an earlier page gave up, or the next one never used. The chiplets
are the parts of the memory in memory/pages.py, which translates addresses by this table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.compiled import compiled
from simulator.errors import LaunchError
from simulator.machine.machine import Machine
from simulator.machine.optional.chiplets_shape import chiplet_of_core
from simulator.memory.banked.requests import offset, points
from simulator.memory.pages import Pages
from simulator.optional.chiplets.placed import Placed
from simulator.optional.feature import Followed
from simulator.tileprogram.program import I64, TileProgram
from simulator.units.cost_table import Work
from simulator.units.request_addresses import Walks

_MOST = 1 << 24
_NOWHERE, _INTERLEAVED, _LOCAL = -1, -1, -2


class PageTable(Followed):
    """Follows where pages lie, from launch to launch."""

    def __init__(self, machine: Machine, placed: Sequence[Placed] = ()) -> None:
        self.machine, self.placed = machine, placed
        self.placed_pages = np.zeros((len(placed) + 1, machine.chiplet.count), np.int64)
        """For each tensor, and last for pages of no tensor: the number of pages placed on each chiplet."""
        self.asked = np.zeros((len(placed) + 1, machine.chiplet.count, machine.chiplet.count), np.int64)
        """In the same rows: bytes in whole requests, by the requesting chiplet and the chiplet that holds the bytes."""
        self._shift = machine.chiplet.page_bytes.bit_length() - 1
        self._first = np.array([each.first for each in placed], np.int64)
        self._last = np.array([each.last for each in placed], np.int64)
        self._wanted = np.array([each.where is not None for each in placed], np.bool_)
        self._chiplet, self._frame, self._owner, self._policy = (np.zeros(0, np.int32) for _ in range(4))
        self._reach, self._begun = max((each.address + each.bytes for each in placed), default=0), 0
        self._frames = [0] * machine.chiplet.count
        self._given_up = [np.zeros(0, np.int32) for _ in range(machine.chiplet.count)]

    def pages(self) -> Pages:
        return Pages(self._shift, self._chiplet, self._frame)

    def ask(self, number: int, program: TileProgram, asked: Work) -> Work:
        """Places the pages of the next launch; returns its work with the bytes from each chiplet's memory."""
        self._grow(number, asked.walks)
        self._begin(number)
        count, size = self.machine.chiplet.count, self.machine.dram.request_bytes
        home = np.array([chiplet_of_core(self.machine, core) for core in range(self.machine.core.count)])[program.core]
        pages = self.pages()
        by_page = np.zeros((len(self._chiplet), count), np.int64)
        by_row = np.zeros((len(program), 2, count), np.int64)
        _tally(asked.walks, home, size, pages, by_page, by_row[:0])
        touched = np.flatnonzero(by_page.any(1))
        self._place(touched, by_page[touched])
        _tally(asked.walks, home, size, pages, by_page[:0], by_row)
        owners, lie = self._owner[touched], self._chiplet[touched]
        for asks in range(count):
            np.add.at(self.asked[:, asks], (owners, lie), by_page[touched, asks] * size)
        by_row *= size
        asked.table.requested[:] = by_row.sum((1, 2))
        remote = by_row.sum() - by_row[np.arange(len(program)), :, home].sum()
        return replace(asked, by_part=by_row, remote=int(remote))

    def _grow(self, number: int, walked: Walks) -> None:
        """Grows the table up to the last page that is accessed or holds a tensor."""
        boxes, runs = walked.boxes, walked.runs
        reach = (boxes.strides * (boxes.extents - 1)).clip(0)
        last_box = (boxes.address + reach.sum(1) + boxes.run).max(initial=0)
        pages = (int(max(last_box, (runs.address + runs.size).max(initial=0), self._reach)) >> self._shift) + 1
        if pages > _MOST:
            raise LaunchError(
                f"launch {number} asks for an address for which a table of {pages:,} pages would be needed, at most "
                f"{_MOST:,} are kept: take a page_bytes larger than {self.machine.chiplet.page_bytes}"
            )
        more = max(0, pages - len(self._chiplet))
        self._chiplet = np.pad(self._chiplet, (0, more), constant_values=_NOWHERE)
        self._frame = np.pad(self._frame, (0, more))
        self._owner = np.pad(self._owner, (0, more), constant_values=-1)
        self._policy = np.pad(self._policy, (0, more), constant_values=self._policy_of(None))

    def _begin(self, number: int) -> None:
        """Assigns pages to the tensors whose lives begin; these pages will be placed anew."""
        begins = np.flatnonzero((self._first.clip(0) >= self._begun) & (self._first.clip(0) <= number))
        for index in sorted(begins.tolist(), key=lambda index: not self._wanted[index]):
            each = self.placed[index]
            if not each.bytes:
                continue
            pages = np.arange(each.address >> self._shift, (each.address + each.bytes - 1 >> self._shift) + 1)
            owner = self._owner[pages]
            kept = (owner >= 0) & (self._last[owner] >= max(each.first, 0))
            pages = pages[~kept | (self._wanted[index] & ~self._wanted[owner])]
            self._give_up(pages)
            self._owner[pages] = index
            self._policy[pages] = self._policy_of(each.where)
        self._begun = number + 1

    def _policy_of(self, where: int | str | None) -> int:
        if isinstance(where, int):
            return where
        return _LOCAL if (where or self.machine.chiplet.placement) == "local" else _INTERLEAVED

    def _give_up(self, pages: I64) -> None:
        for chiplet in range(self.machine.chiplet.count):
            frames = self._frame[pages[self._chiplet[pages] == chiplet]]
            self._given_up[chiplet] = np.concatenate([self._given_up[chiplet], frames])
        self._chiplet[pages] = _NOWHERE

    def _place(self, touched: I64, asked: I64) -> None:
        """Places the `touched` pages that have no place; `asked` has each chiplet's requests for each touched page."""
        new = self._chiplet[touched] == _NOWHERE
        pages, asked = touched[new], asked[new]
        count, policy = self.machine.chiplet.count, self._policy[pages]
        most = asked == asked.max(1, initial=0, keepdims=True)
        turn = pages % np.maximum(most.sum(1), 1)
        nearest = np.argmax(most.cumsum(1) == turn[:, None] + 1, axis=1)
        chiplet = np.where(policy >= 0, policy, np.where(policy == _LOCAL, nearest, pages % count))
        self._chiplet[pages] = chiplet
        np.add.at(self.placed_pages, (self._owner[pages], chiplet), 1)
        for each in range(count):
            mine, again = pages[chiplet == each], self._given_up[each]
            new_frames = np.arange(max(0, len(mine) - len(again)), dtype=np.int32) + self._frames[each]
            self._frame[mine] = np.concatenate([again[: len(mine)], new_frames])
            self._given_up[each], self._frames[each] = again[len(mine) :], self._frames[each] + len(new_frames)


@compiled
def _tally(walked: Walks, home: I64, size: int, pages: Pages, by_page: I64, by_row: I64) -> None:
    """Counts the requests of every instruction, into each of the two tables that has rows: in `by_page` by page and the
    chiplet that asks, in `by_row` by instruction, direction and the chiplet that is asked."""
    boxes, runs = walked.boxes, walked.runs
    for row in range(len(home)):
        for box in range(walked.box_start[row], walked.box_start[row + 1]):
            for point in range(points(boxes, box)):
                address, way = boxes.address[box] + offset(boxes, box, point), 1 << boxes.writes[box]
                last = address + boxes.run[box] - 1
                _count(address // size, last // size, way, size, pages, by_page[:, home[row]], by_row[row : row + 1])
        for run in range(walked.run_start[row], walked.run_start[row + 1]):
            address = runs.address[run]
            first, last = address // size, (address + runs.size[run] - 1) // size
            _count(first, last, runs.ways[run], size, pages, by_page[:, home[row]], by_row[row : row + 1])


@compiled
def _count(first: int, last: int, ways: int, size: int, pages: Pages, by_page: I64, by_row: I64) -> None:
    """Counts the requests `first` to `last` of one run, page by page; a request lies in the page of its first byte."""
    while first <= last:
        page = first * size >> pages.shift
        behind = -(-((page + 1) << pages.shift) // size)  # the first request of the next page
        count = min(behind, last + 1) - first
        for way in range(2):
            if ways & (1 << way):
                if len(by_page):
                    by_page[page] += count
                if len(by_row):
                    by_row[0, way, pages.part[page]] += count
        first += count
