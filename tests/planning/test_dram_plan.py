"""Places in DRAM: nothing alive together overlaps, dead bytes are used again, and waits say so."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.machine.tile_form import Tile
from tests.flow import capture
from tests.programs import PROGRAMS
from workbench.ir import KernelGraph, Launches, TensorType
from workbench.lowering.lower import lower
from workbench.scheduling.planning.dram_plan import (
    ALIGNMENT,
    Lifetime,
    grid_of,
    grids,
    place,
    plan_launches,
    storage_bytes,
)

LAUNCHES = 12


def lifetime(index: int, size: int, one: int, other: int) -> Lifetime:
    return Lifetime(f"v{index}", size, min(one, other), max(one, other))


launch_numbers = st.integers(0, LAUNCHES - 1)
sizes = st.integers(0, 5 * ALIGNMENT)
between = st.lists(st.tuples(sizes, launch_numbers, launch_numbers), max_size=25)


@given(st.lists(sizes, max_size=5), between)
def test_nothing_alive_together_overlaps(whole: list[int], rest: list[tuple[int, int, int]]):
    wanted = [Lifetime(f"w{index}", size, -1, LAUNCHES) for index, size in enumerate(whole)]
    wanted += [lifetime(index, *each) for index, each in enumerate(rest)]
    placed = place(wanted, LAUNCHES)
    assert [(each.value, each.bytes, each.first, each.last) for each in placed] == [
        (each.value, each.bytes, each.first, each.last) for each in wanted
    ]
    for moment in range(-1, LAUNCHES + 1):
        alive = sorted((s.address, s.address + s.bytes) for s in placed if s.first <= moment <= s.last and s.bytes)
        for (_, end), (start, _) in itertools.pairwise(alive):
            assert end <= start
    assert all(each.address % ALIGNMENT == 0 for each in placed)


@given(between)
def test_the_peak_lies_between_the_most_alive_at_once_and_the_sum(rest: list[tuple[int, int, int]]):
    wanted = [lifetime(index, *each) for index, each in enumerate(rest)]
    peak = max((storage.end for storage in place(wanted, LAUNCHES)), default=0)
    most = max(sum(each.bytes for each in wanted if each.first <= n <= each.last) for n in range(LAUNCHES))
    assert most <= peak <= sum(-(-each.bytes // ALIGNMENT) * ALIGNMENT for each in wanted)


def planned(function, *inputs) -> tuple[KernelGraph, Launches]:
    lowered = lower(capture(function, inputs).graph)
    return lowered, plan_launches(lowered, {kernel.name: kernel.name for kernel in lowered.kernels})


def touched(lowered: KernelGraph, launches: Launches) -> list[dict[str, tuple[int, int, bool]]]:
    """For each launch the bytes of each base it touches, and whether it writes them: from the arguments alone."""
    base = lowered.bases
    size = {storage.value: storage.bytes for storage in launches.storages}
    found = []
    for kernel, launch in zip(lowered.kernels, launches.launches, strict=True):
        assert launch.arguments == (*kernel.inputs, *kernel.outputs)
        rows: dict[str, tuple[int, int, bool]] = {}
        for value, address in zip(launch.arguments, launch.addresses, strict=True):
            owner = base.get(value, value)
            rows[owner] = (address, address + size[owner], value in kernel.outputs or rows.get(owner, (0, 0, False))[2])
        found.append(rows)
    return found


def assert_sound(lowered: KernelGraph, launches: Launches) -> None:
    """Addresses and waits, checked without the planner's own notion of lifetimes."""
    rows = touched(lowered, launches)
    base = lowered.bases
    ends = {base.get(v, v) for v in (*lowered.captured.outputs, *(m.value for m in lowered.captured.mutations))}
    starts = {item.value for item in lowered.captured.inputs}
    for number, here in enumerate(rows):
        for value, (first, end, writes) in here.items():
            if not writes:
                continue
            for other, row in enumerate(rows):
                for name, (low, high, _) in row.items():
                    if name == value or high <= first or end <= low:
                        continue
                    assert name not in starts, f"launch {number} writes over input {name}"
                    lives = [n for n, each in enumerate(rows) if name in each]
                    assert not min(lives) <= number <= max(lives), f"launch {number} writes over {name}"
                    assert name not in ends or number < min(lives), f"launch {number} writes over result {name}"
                    assert other != number
    before = [set(launch.after) for launch in launches.launches]
    for waits in before:
        for launch in sorted(waits):
            waits |= before[launch]
    for early, late in itertools.combinations(range(len(rows)), 2):
        for low, high, writes in rows[early].values():
            for first, end, overwrites in rows[late].values():
                if (writes or overwrites) and low < end and first < high:
                    assert early in before[late], f"launch {late} touches what {early} does, and does not wait"


@pytest.mark.test_all(but=22)
@pytest.mark.parametrize("name", PROGRAMS)
def test_shared_programs_are_placed_soundly(name: str):
    program = PROGRAMS[name]
    captured = capture(program.build(), program.inputs(), program.kwargs())
    lowered = lower(captured.graph)
    assert_sound(lowered, plan_launches(lowered, {kernel.name: kernel.name for kernel in lowered.kernels}))


def deep(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = torch.softmax(x, dim=0).t()
    return x


def test_a_deep_chain_needs_two_intermediates_at_a_time():
    lowered, launches = planned(deep, torch.randn(64, 64))
    size = 64 * 64 * 4
    assert len(launches.launches) == 10
    assert sum(storage.bytes for storage in launches.storages) == 11 * size
    assert launches.dram_bytes == 4 * size  # what is given, what is returned, and the two that a launch is between
    assert_sound(lowered, launches)


def test_what_is_given_and_returned_shares_with_nothing():
    _, launches = planned(deep, torch.randn(64, 64))
    whole = [storage for storage in launches.storages if storage.first < 0]
    assert [storage.last for storage in whole] == [10, 10]
    for storage in whole:
        assert not any(storage.overlaps(other) for other in launches.storages if other is not storage)


def branches(x: torch.Tensor) -> torch.Tensor:
    """Two chains of one length that meet at the end: nothing of one reads anything of the other."""
    a, b = x, x + 1
    for _ in range(3):
        a, b = torch.softmax(a, 0).t(), torch.softmax(b, 0).t()
    return a @ b


def test_a_launch_waits_for_readers_of_the_bytes_it_writes():
    lowered, launches = planned(branches, torch.randn(64, 64))
    assert_sound(lowered, launches)
    maker = {value: n for n, kernel in enumerate(lowered.kernels) for value in kernel.outputs}
    base = lowered.bases
    reads = [
        {maker[base.get(value, value)] for value in kernel.inputs if base.get(value, value) in maker}
        for kernel in lowered.kernels
    ]
    others = [set(launch.after) - reads[n] for n, launch in enumerate(launches.launches)]
    assert any(others), "no bytes are used again across the two chains, so this tests nothing"


def test_every_launch_waits_for_what_it_reads():
    lowered, launches = planned(branches, torch.randn(64, 64))
    maker = {value: n for n, kernel in enumerate(lowered.kernels) for value in kernel.outputs}
    base = lowered.bases
    for kernel, launch in zip(lowered.kernels, launches.launches, strict=True):
        made = {maker[base.get(value, value)] for value in kernel.inputs if base.get(value, value) in maker}
        assert made <= set(launch.after)


def test_a_mutated_input_and_its_new_value_both_stay():
    def step(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x.sum(0))
        return torch.softmax(x + total, 0)

    lowered, launches = planned(step, torch.randn(8, 16), torch.zeros(16))
    (mutation,) = lowered.captured.mutations
    whole = {storage.value for storage in launches.storages if storage.first < 0}
    assert {mutation.target, mutation.value} <= whole
    assert_sound(lowered, launches)


@given(
    st.lists(st.integers(2, 9), min_size=2, max_size=4),
    st.booleans(),
    st.builds(Tile, st.integers(1, 5), st.integers(1, 6)),
    st.integers(0, 30),
)
def test_the_storage_of_a_tensor_ends_with_its_last_whole_matrix_of_blocks(
    extents: list[int], turned: bool, block: Tile, offset: int
):
    """Each element is looked at: in which matrix it lies; each of these has so many blocks, ragged ones are whole."""
    shape, dense = tuple(extents), TensorType.dense(tuple(extents), "f32").strides
    kind = TensorType(shape[::-1], "f32", dense[::-1], offset) if turned else TensorType(shape, "f32", dense, offset)
    rows, columns = shape[-2:]
    assert grid_of(kind) == (rows, columns)
    last = max(
        (offset + sum(step * at for step, at in zip(dense, place, strict=True))) // (rows * columns)
        for place in itertools.product(*map(range, shape))
    )
    matrix = len({(row // block.rows, column // block.columns) for row in range(rows) for column in range(columns)})
    assert storage_bytes(kind, block) == (last + 1) * matrix * block.rows * block.columns * 4
    assert storage_bytes(kind) == (offset + math.prod(shape)) * 4


def test_a_tensor_of_one_dim_lies_in_one_row_and_is_not_padded():
    for shape, strides in (((7,), (1,)), ((1, 7), (7, 1)), ((5, 7), (0, 1)), ((7,), (3,))):
        kind = TensorType(shape, "f32", strides)
        assert grid_of(kind) is None and storage_bytes(kind, Tile(8, 128)) == storage_bytes(kind)
    assert storage_bytes(TensorType((0, 3), "f32", (3, 1)), Tile(8, 128)) == 0


def test_a_view_lies_in_the_blocks_of_the_tensor_it_is_part_of():
    def turned(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).reshape(5, 12).t()[3:] + 1

    lowered = lower(capture(turned, (torch.ones(6, 10),)).graph)
    found = grids(lowered)
    assert lowered.views
    assert {found[view.value] for view in lowered.views} == {found[view.base] for view in lowered.views} == {(6, 10)}
    sizes = [
        {each.value: each.bytes for each in plan_launches(lowered, runs, block).storages}
        for runs in [{kernel.name: kernel.name for kernel in lowered.kernels}]
        for block in (None, Tile(8, 128))
    ]
    assert sizes[0].keys() == sizes[1].keys()
    assert sizes[0]["x"] == 6 * 10 * 4 and sizes[1]["x"] == 8 * 128 * 4
