"""The space of mappings: all of it is legal, it has the heuristic's own choice, and no candidate beats its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.scheduling.heuristic import choose
from workbench.scheduling.mapping_space import Space, mapping_space
from workbench.scheduling.prepared_kernel import PreparedKernel, context_for
from workbench.scheduling.scratchpad_demand import Demand

PROGRAMS: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda a, b, c: torch.relu(a @ b + c), ((24, 40), (40, 32), (32,))),
    "bmm": (torch.bmm, ((3, 20, 24), (3, 24, 18))),
    "softmax": (lambda x: torch.softmax(x, 1), ((20, 48),)),
    "add": (lambda x, y: x + y, ((33, 100), (100,))),
    "conv": (nn.Conv2d(8, 16, 3, padding=1).eval(), ((1, 8, 12, 12),)),
}
MACHINES = {"one core": wb.machine("edge-8x8"), "four cores": wb.machine("edge-8x8", cores=4)}


def journey(program: str, machine: wb.Machine) -> wb.Journey:
    function, shapes = PROGRAMS[program]
    torch.manual_seed(0)
    return wb.trace(function, *(torch.randn(shape) for shape in shapes), machine=machine)


def space_of(j: wb.Journey) -> tuple[Space, Callable[[int], object]]:
    made = j.scheduled.record.kernels[0]
    found = partial(PreparedKernel(j.rendered.record[0], context_for(None), {}).payload_with, j.machine)
    return mapping_space(found, j.machine, made.mapping), found


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_candidates_are_legal_and_different_and_have_todays_mapping(program: str, machine: str):
    j = journey(program, MACHINES[machine])
    space, _ = space_of(j)
    made = j.scheduled.record.kernels[0]
    keys = [(*each.mapping.tile.items(), each.mapping.order, each.mapping.buffers) for each in space.candidates]
    spread = [tuple(each.mapping.cores.items()) for each in space.candidates]
    assert len(set(zip(keys, spread, strict=True))) == len(keys) > 5
    assert sum(each.mapping is made.mapping for each in space.candidates) == 1
    assert [each.predicted for each in space.candidates] == sorted(each.predicted for each in space.candidates)
    for each in space.candidates:
        assert set(each.mapping.tile) == set(made.dims) == set(each.mapping.order)
        assert all(1 <= size <= made.dims[dim] for dim, size in each.mapping.tile.items())
        assert math.prod(each.mapping.cores.values()) <= j.machine.core.count


@pytest.mark.test_all
def test_what_does_not_fit_is_no_candidate():
    small = wb.machine("edge-8x8", scratchpad_bytes_per_lane=256)
    whole, few = (space_of(journey("matmul", machine))[0] for machine in (MACHINES["one core"], small))
    assert 0 < len(few.candidates) < len(whole.candidates)
    module = journey("matmul", small).rendered.record[0]
    payload = partial(PreparedKernel(module, context_for(None), {}).payload_with, small)
    assert all(
        Demand(small, payload(each.mapping.buffers), each.mapping.buffers).fits(each.mapping.tile, each.mapping.order)
        for each in few.candidates
    )


def test_the_prediction_is_the_heuristics_price():
    j = journey("matmul", MACHINES["one core"])
    space, found = space_of(j)
    chosen = choose(found(2), j.machine)
    (today,) = [each for each in space.candidates if each.mapping is j.scheduled.record.kernels[0].mapping]
    assert f"(about {today.predicted:.0f} cycles)" in chosen.reason


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_candidate_is_faster_than_its_bound(program: str, machine: str, whole_sweep: bool):
    """One in so many: large and small tiles, all orders and numbers of slots."""
    j = journey(program, MACHINES[machine])
    space, _ = space_of(j)
    name, measured = j.scheduled.record.kernels[0].kernel, 0
    for each in space.candidates[:: max(len(space.candidates) // (11 if whole_sweep else 6), 1)]:
        cycles = j.with_(mapping={name: each.asked}).simulated.cycles
        assert 0 <= each.least <= cycles, each
        measured += 1
    assert measured > 5


@pytest.mark.test_all
def test_the_bound_counts_what_a_loop_loads_again():
    """With the columns' loop outside, all of the left operand passes the bus in each of its rounds."""
    j = journey("bmm", wb.machine("edge-8x8"))
    space, _ = space_of(j)
    plain = {
        (each.mapping.tile["n"], each.mapping.tile["k"]): each.least
        for each in space.candidates
        if each.mapping.tile["b"] == 1 and each.mapping.tile["m"] == 20 and each.mapping.buffers == 1
    }
    assert plain[9, 12] > plain[18, 24] > 0
