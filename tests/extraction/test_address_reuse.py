"""A softmax too long for its row to stay in the scratchpad: three loops, whose buffers take turns at the addresses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from simulator.engine.engine import simulate
from simulator.errors import InvariantViolation, ProgramError
from simulator.records.spans import Launched
from simulator.tileprogram.program import DependenceKind, TileProgram
from simulator.tileprogram.verifier import verify
from simulator.trace.trace import Trace
from tests.broken_programs import drop_edge, implied
from tests.flow import Flow, flow
from workbench.checking.replay.replay_trace import replay

ROWS, COLUMNS = 4, 40_000


def split_softmax(tile: int) -> tuple[Flow, torch.Tensor, TileProgram]:
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    made = flow(lambda x: torch.softmax(x, 1), [x], machine="edge-8x8", mapping={"*": {"tile": {"d0": 4, "d1": tile}}})
    (kernel,) = made.scheduled.kernels
    return made, x, kernel.program


def run(made: Flow, program: TileProgram, **figures: int) -> Trace:
    return simulate([Launched(program.kernel, program, (0, 1 << 24))], made.machine.with_(**figures))


def replayed(made: Flow, program: TileProgram, trace: Trace, x: torch.Tensor) -> torch.Tensor:
    """Runs a program, the scheduled one or a changed one, in the order of its trace."""
    out = torch.empty_like(x)
    kernel = dataclasses.replace(made.scheduled.kernels[0], program=program)
    replay(kernel, [x.flatten().numpy(), out.view(-1).numpy()], trace.start.tolist(), trace.done.tolist())
    return out


def test_a_larger_tile_fits_and_the_numbers_are_right():
    made, x, program = split_softmax(3500)
    assert sum(buffer.bytes for buffer in program.buffers) > made.machine.scratchpad_bytes >= program.scratchpad_bytes
    verify(program)
    trace = run(made, program)
    trace.invariants()
    out = replayed(made, program, trace, x)
    torch.testing.assert_close(out, torch.softmax(x, 1), rtol=1e-4, atol=0)


def test_a_smaller_tile_shares_nothing():
    _, _, program = split_softmax(1250)
    assert sum(buffer.bytes for buffer in program.buffers) == program.scratchpad_bytes
    assert DependenceKind.REUSE not in program.dependence_kind


def test_every_dropped_reuse_that_matters_is_caught():
    _, _, program = split_softmax(3500)
    edges = [
        edge for edge in np.flatnonzero(program.dependence_kind == DependenceKind.REUSE) if not implied(program, edge)
    ]
    assert edges
    for edge in edges:
        with pytest.raises(ProgramError, match="at its address"):
            verify(drop_edge(program, int(edge)))


def test_an_address_handed_on_too_early_gives_wrong_numbers():
    """The last loop's loads go where the loop before it still works, and do not wait for it.

    On a machine whose special functions are slow, they arrive before the tiles there have been read.
    """
    made, x, program = split_softmax(1250)
    buffers = list(program.buffers)
    buffers[4] = dataclasses.replace(buffers[4], offset=buffers[3].offset)
    broken = dataclasses.replace(program, buffers=tuple(buffers))
    with pytest.raises(ProgramError, match="at its address"):
        verify(broken)
    trace = run(made, broken, special_interval_cycles=40)
    with pytest.raises(InvariantViolation, match="at its address"):
        trace.invariants()
    out = replayed(made, broken, trace, x)
    assert not torch.allclose(out, torch.softmax(x, 1), rtol=1e-4, atol=0)
