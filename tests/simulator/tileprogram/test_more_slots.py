"""The same program with more slots: what scheduling with so many would have made."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import workbench as wb
from simulator import Launched, simulate, verify
from simulator.tileprogram.more_slots import with_room_for_all, with_slots
from simulator.tileprogram.program import DependenceKind, TileProgram
from workbench.ir import ScheduledKernel


def _scheduled(buffers: int) -> tuple[wb.Journey, ScheduledKernel]:
    mapping = {"*": {"tile": {"m": 128, "n": 128, "k": 128}, "order": ["m", "n", "k"], "buffers": buffers}}
    journey = wb.trace(torch.matmul, torch.randn(384, 384), torch.randn(384, 384), machine="tpu-v3", mapping=mapping)
    return journey, journey.scheduled.kernels[0].record


def _cycles(journey: wb.Journey, program: TileProgram) -> int:
    (launched,) = journey.simulated.record.launches
    return simulate([Launched(launched.kernel, program, launched.addresses)], journey.machine).makespan


@pytest.mark.parametrize("slots", [2, 3, 5])
@pytest.mark.parametrize("before", [1, 2])
def test_a_program_with_more_slots_is_the_one_that_is_scheduled_with_so_many(before: int, slots: int):
    journey, kernel = _scheduled(before)
    more = with_slots(kernel.program, slots, journey.machine.scratchpad_bytes)
    assert more is not None
    verify(more)
    wanted, made = _scheduled(slots)
    assert [buffer.slots for buffer in more.buffers] == [buffer.slots for buffer in made.program.buffers]
    assert replace(more, ops=made.program.ops) == made.program  # whose text has its lines elsewhere
    assert _cycles(journey, more) == wanted.simulated.cycles


def test_what_does_not_fit_is_none():
    _, kernel = _scheduled(2)
    assert with_slots(kernel.program, 4, kernel.program.scratchpad_bytes) is None


def test_with_room_for_all_nothing_waits_for_a_slot_and_all_that_is_read_is_waited_for():
    journey, kernel = _scheduled(2)
    program = with_room_for_all(kernel.program)
    data = (DependenceKind.READ_AFTER_WRITE, DependenceKind.ACCUMULATE)
    assert set(program.dependence_kind.tolist()) <= {*data, DependenceKind.WRITE_AFTER_READ}
    for row in range(len(program)):
        before = kernel.program.instruction(row).dependences
        after = program.instruction(row).dependences
        assert set(after) <= set(before)
        assert {each for each in before if each[1] in data} <= set(after)
    assert _cycles(journey, program) < _cycles(journey, kernel.program)
