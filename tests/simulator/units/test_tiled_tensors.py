"""Tensors in blocks: what boxes cover, against all of their elements one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator import Launched, Machine, load_machine, simulate
from simulator.machine.tile_form import Tile
from simulator.memory.banked.requests import request_counts, requests_of
from simulator.records.spans import Grid
from simulator.tileprogram.program import Access, Operand, Space, TileProgram
from simulator.units.cost_table import work
from simulator.units.dma import in_rows, transfers
from simulator.units.tiled_tensors import covered, storage_elements
from tests.simulator.build import Made, dense, direct_copy

Block = tuple[int, int, int]
"""Which matrix, which row of blocks and which column of blocks."""


def machine(block: Tile, **figures: int | float | str) -> Machine:
    return load_machine("tpu-v3", dram_tile=f"{block.rows}x{block.columns}", launch_overhead_cycles=0, **figures)


class Box(NamedTuple):
    """A box of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def elements(self) -> list[int]:
        """Positions of its elements in a tensor that lies row after row."""
        ways = [range(0, stride * extent, stride) if stride else [0] * extent for stride, extent in self.dims]
        return [self.offset + sum(steps) for steps in itertools.product(*ways)]

    @property
    def dims(self) -> list[tuple[int, int]]:
        return list(zip(self.strides, self.shape, strict=True))


def load(*boxes: Box, size: int = 4) -> TileProgram:
    made = Made()
    made.argument("x", (1 << 20,))
    for number, box in enumerate(boxes):
        made.buffer(f"t{number}", math.prod(box.shape) * size // 4 + 1)
        source = Operand(Space.DRAM, 0, 0, box.offset, box.shape, box.strides, size, Access.READ)
        target = Operand(Space.SCRATCHPAD, number, 0, 0, box.shape, dense(box.shape), size, Access.WRITE)
        made.load(source, target)
    return made.build()


def touched(box: Box, grid: Grid, block: Tile) -> set[Block]:
    """The blocks of all elements of a box, each looked at by itself."""
    matrix = grid.rows * grid.columns
    return {
        (at // matrix, at % matrix // grid.columns // block.rows, at % grid.columns // block.columns)
        for at in box.elements()
    }


def first_byte(at: Block, grid: Grid, block: Tile, size: int) -> int:
    wide, high = -(-grid.columns // block.columns), -(-grid.rows // block.rows)
    return ((at[0] * high + at[1]) * wide + at[2]) * block.rows * block.columns * size


def said(box: Box, grid: Grid, block: Tile, size: int) -> list[int]:
    """The first byte of each block that `covered` says, as often as it says it."""
    found = covered(load(box, size=size), np.array([0]), [grid], machine(block))
    assert found is not None and found.tiled.tolist() == [True]
    run, each = int(found.run[0]), block.rows * block.columns * size
    assert run % each == 0 and found.bytes[0] == math.prod(found.extents[0].tolist()) * run
    ways = [[stride * at for at in range(n)] for n, stride in zip(found.extents[0], found.strides[0], strict=True)]
    starts = [int(found.first[0]) + int(sum(steps)) for steps in itertools.product(*ways)]
    assert max(starts) + run == int(found.first[0] + found.span[0])
    return [start + at for start in starts for at in range(0, run, each)]


blocks_ = st.builds(Tile, st.integers(1, 5), st.integers(1, 6))
sizes = st.sampled_from([1, 2, 4])


@st.composite
def tensors(draw: st.DrawFn) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(2, 9), min_size=2, max_size=4)))


@st.composite
def parts(draw: st.DrawFn, least: int = 1, most: int = 1) -> tuple[Grid, Box]:
    """A part of a tensor: some places of each of its dims, `least` to `most` apart, in any order of the dims."""
    shape = draw(tensors())
    strides, picked, offset = dense(shape), list[tuple[int, int]](), 0
    for extent, stride in zip(shape, strides, strict=True):
        begin, step = draw(st.integers(0, extent - 1)), draw(st.integers(least, most))
        count = draw(st.integers(1, (extent - 1 - begin) // step + 1))
        offset += begin * stride
        back = draw(st.booleans()) and count > 1
        offset += (count - 1) * step * stride * back
        picked.append((count, -step * stride if back else step * stride))
    picked = draw(st.permutations(picked))
    box = Box(tuple(extent for extent, _ in picked), tuple(stride for _, stride in picked), offset)
    return Grid(shape[-2], shape[-1]), box


@st.composite
def anything(draw: st.DrawFn) -> tuple[Grid, Box]:
    """Boxes with strides that need not be those of the tensor: diagonals, flattened dims, the same place again."""
    shape = draw(tensors())
    strides = st.one_of(st.sampled_from((0, *dense(shape))), st.integers(-40, 90))
    dims = draw(st.lists(st.tuples(st.integers(1, 6), strides), min_size=1, max_size=4))
    lowest = sum(min(stride, 0) * (extent - 1) for extent, stride in dims)
    offset = draw(st.integers(0, 60)) - lowest
    return Grid(shape[-2], shape[-1]), Box(tuple(e for e, _ in dims), tuple(s for _, s in dims), offset)


@given(parts(), blocks_, sizes)
def test_a_part_of_a_tensor_covers_the_blocks_of_its_elements_each_once(
    part: tuple[Grid, Box], block: Tile, size: int
) -> None:
    grid, box = part
    expected = sorted(first_byte(at, grid, block, size) for at in touched(box, grid, block))
    assert sorted(said(box, grid, block, size)) == expected


@given(st.one_of(parts(1, 4), anything()), blocks_, sizes)
@example((Grid(8, 9), Box((6,), (10,), 0)), Tile(2, 2), 4)  # a diagonal
@example((Grid(9, 4), Box((3,), (12,), 8)), Tile(2, 4), 4)  # three rows on, of blocks of two
@example((Grid(4, 4), Box((3, 5), (16, 4), 8)), Tile(2, 2), 4)  # rows that go on in the next matrices, and these
@example((Grid(2, 2), Box((2, 2), (8, 8), 0)), Tile(1, 1), 1)  # two dims that meet the same matrices
@example((Grid(2, 2), Box((2, 3, 6), (8, 8, 0), 0)), Tile(1, 5), 1)  # as these, each several times
def test_no_box_covers_fewer_blocks_than_its_elements_lie_in(part: tuple[Grid, Box], block: Tile, size: int) -> None:
    grid, box = part
    found = said(box, grid, block, size)
    assert set(found) >= {first_byte(at, grid, block, size) for at in touched(box, grid, block)}
    asked = len(box.elements()) * size
    assert len(found) * block.rows * block.columns * size >= asked
    again = len(found) // len(set(found))
    assert len(found) == again * len(set(found)), "all are moved as often"
    assert again == -(-asked // (len(set(found)) * block.rows * block.columns * size))


@given(st.integers(1, 70), st.integers(2, 40), blocks_)
def test_a_stretch_of_a_flattened_tensor_covers_its_rows_of_blocks(begin: int, count: int, block: Tile) -> None:
    """All blocks of the rows it goes through, where it goes through more than one."""
    grid, box = Grid(10, 12), Box((count,), (1,), begin)
    first, last = begin // 12, (begin + count - 1) // 12
    if first == last:
        return
    rows = {row // block.rows for row in range(first, last + 1)}
    everywhere = {(0, row, column) for row in rows for column in range(-(-12 // block.columns))}
    assert set(said(box, grid, block, 4)) == {first_byte(at, grid, block, 4) for at in everywhere}


def test_rows_far_apart_leave_out_the_blocks_between() -> None:
    grid, block = Grid(64, 20), Tile(8, 8)
    found = said(Box((3, 20), (24 * 20, 1), 3 * 20), grid, block, 4)
    assert sorted(found) == [first_byte((0, row, column), grid, block, 4) for row in (0, 3, 6) for column in range(3)]


@settings(deadline=None)  # the simulator is compiled first
@given(st.lists(parts(1, 3), min_size=1, max_size=3), blocks_, sizes)
def test_a_copy_moves_its_blocks_in_whole_requests(given_: Sequence[tuple[Grid, Box]], block: Tile, size: int) -> None:
    grid = given_[0][0]
    boxes = [box for other, box in given_ if other == grid]
    program, on = load(*boxes, size=size), machine(block)
    moved = transfers(program, (0,), on, in_rows(program), [grid])
    each = block.rows * block.columns * size
    for at, box in enumerate(boxes):
        found = said(box, grid, block, size)
        bytes_ = len(found) * each
        request, width = on.dram.request_bytes, on.dma.bytes_per_cycle
        assert moved.bytes[at] == len(box.elements()) * size
        assert moved.request_bytes[at] == -(-bytes_ // request) * request
        run = int(moved.run[at])
        assert moved.stretch[at] == run and bytes_ % run == 0
        assert moved.cycles[at] == bytes_ // run * -(-run // width)
    simulate([Launched("k", program, (0,), grids=(grid,))], on).invariants()


@settings(deadline=None)
@given(parts(1, 3), st.sampled_from([Tile(8, 128), Tile(2, 4), Tile(3, 5)]), sizes, st.integers(0, 3))
def test_banked_memory_is_asked_for_each_block_within_the_padded_storage(
    part: tuple[Grid, Box], block: Tile, size: int, place: int
) -> None:
    grid, box = part
    on, base = machine(block, memory="banked"), place * 4096
    program = load(box, size=size)
    each, request = block.rows * block.columns * size, on.dram.request_bytes
    walks = work(program, (base,), on, grids=[grid]).walks
    asked = np.zeros(request_counts(walks, request)[0], np.int64)
    requests_of(walks, 0, request, asked)
    wanted = {(base + byte) // request for start in said(box, grid, block, size) for byte in range(start, start + each)}
    assert {address // request for address in asked.tolist()} == wanted
    matrices = max(box.elements()) // (grid.rows * grid.columns) + 1
    end = base + storage_elements(grid, matrices, block) * size
    assert base <= min(wanted) * request and max(wanted) * request < end


def test_only_what_has_a_grid_lies_in_blocks() -> None:
    program = load(Box((4, 3), (20, 1), 0))
    plain, tiled = load_machine("tpu-v3", dram_tile=""), machine(Tile(8, 128))
    for on, grids in ((plain, [Grid(64, 20)]), (tiled, [None]), (tiled, [])):
        assert covered(program, np.array([0, 1]), grids, on) is None
    found = covered(program, np.array([0, 1]), [Grid(64, 20)], tiled)
    assert found is not None and found.tiled.tolist() == [True, False], "the scratchpad's side does not"


@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_elements_that_are_looked_at_one_by_one_lie_in_a_row(memory: str) -> None:
    program = direct_copy(4, 32)
    grids = tuple(Grid(8, 16) for _ in program.arguments)
    addresses = tuple(at << 16 for at in range(len(grids)))
    on = machine(Tile(8, 128), memory=memory)
    ends = [simulate([Launched("k", program, addresses, grids=each)], on).end.tolist() for each in ((), grids)]
    assert ends[0] == ends[1]
