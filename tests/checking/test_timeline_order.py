"""`j.check(stage="simulated")`: the numbers that the order of a timeline makes, and an order that makes others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.tileprogram.program import Opcode
from simulator.trace.trace import Trace
from workbench.checking.replay.timeline_order import kernels_in_order
from workbench.ground.errors import HostRoute
from workbench.running.run_program import NativeProgram


def test_a_timeline_makes_pytorchs_numbers_on_any_inputs():
    j = wb.trace(lambda x, w: F.gelu(x @ w), torch.randn(64, 96), torch.randn(96, 80), machine="edge-8x8")
    assert j.check(stage="simulated").stage == "simulated" and j.check(stage="simulated").ok
    assert j.check(torch.randn(64, 96), torch.randn(96, 80), stage="simulated").ok
    wrong = j.check(torch.full((64, 96), torch.nan), torch.randn(96, 80), stage="simulated")
    assert wrong.ok, "what is not a number in PyTorch is none here"


def test_inputs_are_read_where_they_lie():
    whole = torch.randn(90)
    j = wb.trace(lambda x: x * 2 + 1, whole[10:50])
    for given in (whole[10:50], torch.randn(40), whole[:40], whole[50:], torch.randn(80)[::2]):
        assert j.check(given, stage="simulated").ok
    few = wb.trace(lambda x: (x + 1).to(torch.bfloat16).sum(1), torch.randn(5, 1).expand(5, 3))
    assert few.check(stage="simulated").ok


def test_what_a_call_changes_is_compared_and_put_back():
    def changes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.randn(6, 7)
    before = x.clone()
    check = wb.trace(changes, x).check(stage="simulated")
    assert check.ok and len(check.results) == 2 and torch.equal(x, before)


def test_kernels_that_are_one_run_at_their_own_cycles():
    j = wb.trace(lambda x, w: x @ w @ w, torch.randn(40, 40), torch.randn(40, 40), machine="edge-8x8")
    assert len(j.scheduled.record.kernels) == 1 and len(j.scheduled.record.launches.launches) == 2
    assert j.check(stage="simulated").ok


def early(trace: Trace, rows: np.ndarray) -> Trace:
    """These spans begin, and end, with their launch's first."""
    start, done = trace.start.copy(), trace.done.copy()
    first = np.array([start[trace.launch == launch].min() for launch in trace.launch[rows]])
    done[rows] += first - start[rows]
    start[rows] = first
    return replace(trace, start=start, done=done)


@pytest.mark.parametrize("opcode", [Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR], ids=lambda each: each.name)
def test_a_timeline_in_which_one_does_not_wait_makes_other_numbers(opcode: Opcode):
    x, w = torch.randn(64, 96), torch.randn(96, 80)
    j = wb.trace(lambda x, w: F.gelu(x @ w), x, w, machine="edge-8x8")
    scheduled, trace = j.scheduled.record, j.simulated.record

    def computed(order: Trace) -> torch.Tensor:
        functions = kernels_in_order(j.lowered.record, scheduled, order)
        return NativeProgram.from_functions(j.lowered.record, functions).run([x, w])[0]

    right = F.gelu(x @ w)
    assert torch.allclose(computed(trace), right, rtol=1e-4, atol=1e-4)
    last = np.flatnonzero(scheduled.kernels[0].program.opcode == opcode)[-1:]
    assert not torch.allclose(computed(early(trace, last)), right, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_a_broken_up_function_and_a_step_on_the_host_are_checked_too():
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = torch.linalg.inv(x @ x.T + 9 * torch.eye(8))
        torch._dynamo.graph_break()
        return x.relu() + 1

    with pytest.warns(HostRoute):
        j = wb.trace(broken, torch.randn(8, 8))
    assert j.check(stage="simulated").ok
