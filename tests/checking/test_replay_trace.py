"""Programs replayed in the order of a timeline: good ones give the kernel's result, broken ones do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from simulator.tileprogram.program import Access, Buffer, Instruction, Opcode, Operand, Space, TileProgram
from simulator.tileprogram.program_builder import ProgramBuilder
from tests.mlir.tile_programs import Edge, edges, matmul_kernel, one_by_one, softmax_kernel, timeline
from workbench.checking.replay.replay_trace import replay
from workbench.ground.errors import ReplayError
from workbench.ir import ScheduledKernel
from workbench.running.jit import compile_scheduled

Floats = npt.NDArray[np.float32]


def randoms(count: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def replayed(kernel: ScheduledKernel, inputs: Sequence[Floats], times: tuple[Sequence[int], Sequence[int]]) -> Floats:
    """The output storage after replay; it starts as numbers no kernel here computes."""
    argument = kernel.program.arguments[-1]
    out = np.full(argument.shape[0] * argument.shape[1], 7e7, np.float32)
    replay(kernel, [*inputs, out], *times)
    return out


def softmax(x: Floats, rows: int) -> Floats:
    return torch.softmax(torch.from_numpy(x).view(rows, -1), 1).numpy().ravel()


def agrees(ours: Floats, expected: Floats) -> bool:
    return bool(np.allclose(ours, expected, rtol=1e-4, atol=1e-4))


@pytest.mark.parametrize("seed", range(3))
def test_softmax_in_an_overlapped_timeline(seed: int) -> None:
    kernel, x = softmax_kernel(50, 7, 8), randoms(350)
    times = timeline(kernel.program, edges(kernel.program), seed)
    assert max(times[1]) < sum(np.subtract(times[1], times[0])), "the timeline should overlap instructions"
    assert agrees(replayed(kernel, [x], times), softmax(x, 50))


@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
def test_chained_matmuls_stream_behind_each_other(a_t: bool, b_t: bool) -> None:
    kernel = matmul_kernel(21, 13, 30, (8, 8, 8), a_t=a_t, b_t=b_t)
    a, b = randoms(21 * 30), randoms(30 * 13, 1)
    expected = (a.reshape(30, 21).T if a_t else a.reshape(21, 30)) @ (b.reshape(13, 30).T if b_t else b.reshape(30, 13))
    assert agrees(replayed(kernel, [a, b], one_by_one(kernel.program)), expected.ravel())
    waits = edges(kernel.program)
    starts, ends = timeline(kernel.program, waits)
    assert any(starts[edge.target] < ends[edge.source] for edge in waits if edge.kind == "chain")
    assert agrees(replayed(kernel, [a, b], (starts, ends)), expected.ravel())


def test_replay_and_native_code_agree() -> None:
    """The same text, once as machine code and once as a program in time."""
    kernel, x = softmax_kernel(50, 7, 8), randoms(350)
    native = torch.empty(50, 7)
    compile_scheduled(kernel.mlir, "softmax")([torch.from_numpy(x).view(50, 7), native])
    assert agrees(replayed(kernel, [x], one_by_one(kernel.program)), native.numpy().ravel())


def missed(kernel: ScheduledKernel, inputs: Sequence[Floats], expected: Floats) -> tuple[int, list[Edge]]:
    """Of the waits for a result whose loss changes the timeline: how many replay catches, and those it misses."""
    waits = edges(kernel.program)
    whole, caught, unseen = timeline(kernel.program, waits), 0, list[Edge]()
    for edge in waits:
        times = timeline(kernel.program, [other for other in waits if other != edge])
        if edge.kind == "raw" and times != whole:
            if agrees(replayed(kernel, inputs, times), expected):
                unseen.append(edge)
            else:
                caught += 1
    return caught, unseen


def test_every_lost_wait_for_a_result_is_caught_in_softmax() -> None:
    kernel, x = softmax_kernel(26, 5, 8), randoms(130)
    caught, unseen = missed(kernel, [x], softmax(x, 26))
    assert caught >= 15
    # Only a row's maximum may come from other numbers than it should: softmax is the same for any shift.
    assert {int(kernel.program.op[edge.target]) for edge in unseen} <= {2}


def test_every_lost_wait_for_a_result_is_caught_in_matmul() -> None:
    kernel = matmul_kernel(12, 9, 20, (8, 8, 8))
    a, b = randoms(240), randoms(180, 1)
    caught, unseen = missed(kernel, [a, b], (a.reshape(12, 20) @ b.reshape(20, 9)).ravel())
    assert caught >= 10
    assert unseen == []


def test_a_matmul_that_starts_and_ends_before_the_one_it_follows_is_caught() -> None:
    kernel = matmul_kernel(8, 8, 16, (8, 8, 8))
    a, b = randoms(128), randoms(128, 1)
    matmuls = [index for index in range(len(kernel.program)) if kernel.program.opcode[index] == Opcode.MATMUL]
    starts, ends = map(list, one_by_one(kernel.program))
    expected = (a.reshape(8, 16) @ b.reshape(16, 8)).ravel()
    first, second = matmuls
    ends[first] = ends[second]  # still adds what it read before the second one's results
    assert agrees(replayed(kernel, [a, b], (starts, ends)), expected)
    ends[first] = ends[second] + 1
    starts[second + 1] = ends[second + 1] = ends[first] + 1
    assert not agrees(replayed(kernel, [a, b], (starts, ends)), expected)


def changed(
    kernel: ScheduledKernel, rows: list[Instruction], buffers: Sequence[Buffer] | None = None
) -> ScheduledKernel:
    program = kernel.program
    made = ProgramBuilder(
        program.kernel, list(program.arguments), list(buffers or program.buffers), list(program.ops), [], rows
    )
    return replace(kernel, program=made.build())


def instructions(program: TileProgram) -> list[Instruction]:
    return [program.instruction(index) for index in range(len(program))]


def with_operands(row: Instruction, change: Callable[[Operand], Operand]) -> Instruction:
    return replace(row, operands=tuple(map(change, row.operands)))


def in_pad(operand: Operand, buffer: int) -> bool:
    return operand.space == Space.SCRATCHPAD and operand.target == buffer


def is_x(operand: Operand) -> bool:
    return operand.space == Space.DRAM and operand.target == 0


@pytest.mark.parametrize("buffer", [0, 2])
def test_one_slot_too_few_is_caught(buffer: int) -> None:
    """The timeline of two slots, on a scratchpad where both are one. (Maxima can be shared unseen, see above.)"""
    kernel, x = softmax_kernel(50, 7, 8), randoms(350)
    times = timeline(kernel.program, edges(kernel.program))
    rows = [
        with_operands(row, lambda operand: replace(operand, slot=0) if in_pad(operand, buffer) else operand)
        for row in instructions(kernel.program)
    ]
    assert not agrees(replayed(changed(kernel, rows), [x], times), softmax(x, 50))


def test_buffers_that_share_an_address_are_caught() -> None:
    kernel, x = softmax_kernel(50, 7, 8), randoms(350)
    first, second, third = kernel.program.buffers
    overlapping = [first, second, replace(third, offset=second.offset)]
    # Maxima and sums of one tile are never alive together, but those of two tiles are.
    broken = changed(kernel, instructions(kernel.program), overlapping)
    assert agrees(replayed(broken, [x], one_by_one(kernel.program)), softmax(x, 50))
    inside = [first, replace(second, offset=first.offset + 4), third]
    broken = changed(kernel, instructions(kernel.program), inside)
    assert not agrees(replayed(broken, [x], one_by_one(kernel.program)), softmax(x, 50))


def test_scratchpad_nobody_wrote_is_not_a_number() -> None:
    kernel, x = softmax_kernel(8, 7, 8), randoms(56)
    rows = [row for row in instructions(kernel.program) if row.opcode != Opcode.LOAD]
    broken = changed(kernel, rows)
    assert np.isnan(replayed(broken, [x], one_by_one(broken.program))).all()


def test_an_operand_said_to_be_only_written_cannot_be_read() -> None:
    """The row maximum combines with what is there: a program that hides this read computes nothing."""
    kernel, x = softmax_kernel(8, 7, 8), randoms(56)
    rows = [
        replace(row, operands=(*row.operands[:-1], replace(row.operands[-1], access=Access.WRITE)))
        for row in instructions(kernel.program)
    ]
    broken = changed(kernel, rows)
    assert np.isnan(replayed(broken, [x], one_by_one(broken.program))).all()


def test_inputs_may_start_anywhere_in_their_storage() -> None:
    kernel, x = softmax_kernel(10, 7, 4), randoms(170)
    rows = [
        with_operands(row, lambda operand: replace(operand, offset=operand.offset + 100) if is_x(operand) else operand)
        for row in instructions(kernel.program)
    ]
    shifted = changed(kernel, rows)
    assert agrees(replayed(shifted, [x], one_by_one(shifted.program)), softmax(x[100:], 10))


def test_reaching_past_a_storage_is_an_error() -> None:
    kernel = softmax_kernel(10, 7, 4)
    with pytest.raises(ReplayError, match="reaches past its memory of 276 bytes"):
        replayed(kernel, [randoms(69)], one_by_one(kernel.program))


def test_what_cannot_be_replayed_is_named() -> None:
    kernel, x = softmax_kernel(8, 7, 8), randoms(56)
    rows = instructions(kernel.program)
    direct = changed(kernel, [replace(rows[0], opcode=Opcode.DIRECT)])
    with pytest.raises(ReplayError, match=r"instruction 0, .*: there is no loop of loads and stores"):
        replayed(direct, [x], one_by_one(direct.program))
    with pytest.raises(ReplayError, match="ends before it starts"):
        replayed(kernel, [x], ([5] * 8, [4] * 8))
    with pytest.raises(ReplayError, match="takes 2 storages, 1 were given"):
        replay(kernel, [x], *one_by_one(kernel.program))
    moved = replace(kernel, mlir="\n" + kernel.mlir)
    with pytest.raises(ReplayError, match="where there is no linalg op"):
        replayed(moved, [x], one_by_one(kernel.program))


def test_instructions_without_duration_run_in_program_order() -> None:
    kernel, x = softmax_kernel(20, 7, 8), randoms(140)
    nowhen = [3] * len(kernel.program)
    assert agrees(replayed(kernel, [x], (nowhen, nowhen)), softmax(x, 20))


def test_edges_are_found_by_kind() -> None:
    """One tile: the load's result is read by the maximum, whose result the exponential reads before it overwrites."""
    found = edges(softmax_kernel(8, 7, 8).program)
    assert Edge(0, 2, "raw") in found
    assert Edge(1, 2, "raw") in found
    assert Edge(2, 3, "raw") in found
