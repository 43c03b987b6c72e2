"""Programs of real kernels, broken on purpose: whatever matters is caught, what is equivalent is counted and printed.

A mutant is caught when the verifier refuses the program, or the trace of it breaks an invariant. Which mutants are
equivalent is decided by `implied`, which shares no code with either.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from simulator.engine.engine import simulate
from simulator.errors import InvariantViolation, ProgramError
from simulator.records.spans import Launched
from simulator.tileprogram.program import Space, TileProgram
from simulator.tileprogram.verifier import verify
from tests.broken_programs import drop_edge, implied, remove_slot
from tests.flow import Flow, flow
from tests.programs import FFN


def softmax() -> Flow:
    return flow(
        lambda x: torch.softmax(x, 1), [torch.randn(60, 44)], machine="edge-8x8", mapping={"*": {"tile": {"d0": 8}}}
    )


def matmul_bias_gelu() -> Flow:
    return flow(
        lambda a, b, bias: F.gelu(a @ b + bias),
        [torch.randn(50, 40), torch.randn(40, 36), torch.randn(36)],
        machine="edge-8x8",
        mapping={"*": {"tile": {"m": 16, "n": 16, "k": 16}}},
    )


def ffn() -> Flow:
    torch.manual_seed(0)
    model = FFN(24, 64).eval()
    tile = {"m": 16, "n": 16, "k": 16}
    return flow(model, [torch.randn(40, 24)], machine="edge-8x8", mapping={"*": {"tile": tile, "buffers": 3}})


PROGRAMS = {"softmax": softmax, "matmul_bias_gelu": matmul_bias_gelu, "ffn": ffn}


def caught(program: TileProgram, made: Flow) -> bool:
    try:
        verify(program)
        addresses = tuple(range(0, len(program.arguments) << 24, 1 << 24))
        simulate([Launched(program.kernel, program, addresses)], made.machine).invariants()
    except (ProgramError, InvariantViolation):
        return True
    return False


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_dropped_edge_that_matters_is_caught(name: str, whole_sweep: bool, capsys: pytest.CaptureFixture[str]):
    """Of some 80 edges of a kernel; in a whole sweep of each."""
    made = PROGRAMS[name]()
    dropped = equivalent = 0
    for kernel in made.scheduled.kernels:
        verify(kernel.program)
        edges = len(kernel.program.dependence)
        for edge in range(0, edges, 1 if whole_sweep else max(1, edges // 80)):
            if implied(kernel.program, edge):
                equivalent += 1
                continue
            dropped += 1
            assert caught(drop_edge(kernel.program, edge), made), f"edge {edge} of {kernel.kernel}"
    with capsys.disabled():
        print(f"\n{name}: {dropped} dropped edges caught, {equivalent} equivalent ones let pass")
    assert dropped > 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_removed_slot_is_caught(name: str):
    made = PROGRAMS[name]()
    removed = 0
    for kernel in made.scheduled.kernels:
        program = kernel.program
        for number, buffer in enumerate(program.buffers):
            used = set(program.slot[(program.space == Space.SCRATCHPAD) & (program.target == number)].tolist())
            if buffer.slots > 1 and used == set(range(buffer.slots)):
                removed += 1
                assert caught(remove_slot(program, number), made), f"{buffer.name} of {kernel.kernel}"
    assert removed >= 2


def test_an_intact_program_is_not_caught():
    for make in PROGRAMS.values():
        made = make()
        for kernel in made.scheduled.kernels:
            assert not caught(kernel.program, made)


def test_traces_are_the_same_in_every_run():
    made = matmul_bias_gelu()
    launched = [Launched("k", made.scheduled.kernels[0].program, (0, 1 << 20, 2 << 20, 3 << 20))]
    again = [dataclasses.replace(launched[0])]
    assert simulate(launched, made.machine).digest() == simulate(again, made.machine).digest()
