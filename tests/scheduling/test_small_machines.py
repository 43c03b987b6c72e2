"""Machines with next to no scratchpad: what fits is scheduled, what does not is said before any time is spent."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from simulator.errors import DoesNotFit
from workbench.ground.errors import BadOption, TooManyInstructions
from workbench.scheduling.extraction import extract, program_size

TINY = {"vector_lanes": 4, "scratchpad_bytes_per_lane": 128}
"""512 bytes: four vectors."""


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "off")


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The count of every module that is read off from now on."""
    found = list[int]()
    run = program_size._Counter.run
    monkeypatch.setattr(
        program_size._Counter, "run", lambda self, function: found.append(run(self, function)) or found[-1]
    )
    return found


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize(
    ("function", "inputs", "per_lane", "slots"),
    [
        (lambda x, y: x + y, [torch.randn(30, 50)] * 2, 256, 2),
        (lambda x, y: x * y, [torch.randn(10, 50)] * 2, 128, 1),
        (torch.nn.Linear(30, 20), [torch.randn(8, 30)], 256, 1),
        (lambda x: torch.softmax(x, -1), [torch.randn(3, 70)], 256, 1),
        (torch.nn.Conv2d(3, 4, 3), [torch.randn(1, 3, 6, 6)], 256, 1),
        (lambda x: torch.sort(x).values, [torch.randn(2, 40)], 128, 1),
    ],
)
def test_buffers_give_up_slots_before_nothing_fits(monkeypatch, function, inputs, per_lane, slots):
    counts = counted(monkeypatch)
    machine = wb.machine("edge-8x8", vector_lanes=4, scratchpad_bytes_per_lane=per_lane)
    journey = wb.trace(function, *inputs, machine=machine)
    assert journey.check().ok
    kernels = journey.scheduled.kernels
    assert all(kernel.program.scratchpad_bytes <= machine.scratchpad_bytes for kernel in kernels)
    assert kernels[-1].mapping.buffers == slots
    # what fills an accumulator with zero is part of the matmul, and a tile of nothing is no instruction
    assert all(len(kernel.program) <= count for kernel, count in zip(kernels, counts[-len(kernels) :], strict=True))
    assert sum(counts) <= 1.5 * sum(len(kernel.program) for kernel in kernels)


def test_what_cannot_fit_is_told_without_reading_a_program_off(monkeypatch):
    monkeypatch.setattr(
        "workbench.scheduling.schedule_kernel.extract", lambda *_: pytest.fail("a program was read off")
    )
    journey = wb.trace(torch.nn.Linear(300, 200), torch.randn(8, 300), machine=wb.machine("edge-8x8", **TINY))
    with pytest.raises(
        DoesNotFit, match=r"single elements already, each with one slot: .* larger scratchpad"
    ) as caught:
        _ = journey.scheduled
    assert (caught.value.demand, caught.value.capacity, len(caught.value.buffers)) == (640, 512, 5)


@pytest.mark.parametrize(
    ("function", "inputs", "rounds"),
    [
        (lambda x, y: x @ y, [(4096, 2048), (2048, 2048)], "[0-9,]+ x 256 x [0-9]+ rounds"),
        (lambda x: torch.sort(x), [(500, 1000)], "500 x [0-9]+ rounds"),
    ],
)
def test_a_program_too_long_to_wait_for_is_not_begun(function, inputs, rounds):
    machine = wb.machine("edge-8x8", vector_lanes=4, scratchpad_bytes_per_lane=256)
    journey = wb.trace(function, *[torch.empty(shape) for shape in inputs], machine=machine)
    with pytest.raises(TooManyInstructions, match=f"{rounds}.*scratchpad of 1,024 bytes") as caught:
        _ = journey.scheduled
    assert caught.value.count > 2 * caught.value.most


@pytest.mark.test_all
def test_a_long_program_says_how_far_it_is(monkeypatch):
    told = list[str]()
    monkeypatch.setattr(extract, "so_far", told.append)
    journey = wb.trace(lambda x, y: x @ y, torch.randn(40, 40), torch.randn(40, 40), machine="edge-8x8")
    size = {dim: 2 for dim in journey.scheduled.record.kernels[0].mapping.tile}
    (kernel,) = journey.with_(mapping={"k0": {"tile": size}}).scheduled.kernels
    made = [int(each.split()[0].replace(",", "")) for each in told]
    assert made == [*range(1000, len(kernel.program) + 1, 1000)] != []
    (expected,) = {each.split()[3] for each in told}
    assert len(kernel.program) <= int(expected.replace(",", "")) <= 1.1 * len(kernel.program)


def test_the_limit_is_the_users(monkeypatch):
    journey = wb.trace(lambda x: x + 1, torch.randn(64, 64), machine=wb.machine("edge-8x8", **TINY))
    monkeypatch.setenv("ATEN_WORKBENCH_MOST_INSTRUCTIONS", "many")
    with pytest.raises(BadOption, match="ATEN_WORKBENCH_MOST_INSTRUCTIONS='many' is no count"):
        _ = journey.scheduled
    monkeypatch.setenv("ATEN_WORKBENCH_MOST_INSTRUCTIONS", "100")
    with pytest.raises(TooManyInstructions, match="the most is 100"):
        _ = journey.scheduled


def test_loops_that_differ_from_round_to_round_are_walked(monkeypatch):
    counts = counted(monkeypatch)
    journey = wb.trace(torch.sort, torch.randn(3, 100), machine=wb.machine("edge-8x8", **TINY))
    (kernel,) = journey.scheduled.kernels
    assert len(kernel.program) <= counts[-1] <= 1.1 * len(kernel.program)
