"""Deriving dependences and checking them, on programs made by hand and at random."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import Launched, Machine, load_machine, simulate, verify
from simulator.errors import InvariantViolation, ProgramError
from simulator.tileprogram.conflicts import conflicts
from simulator.tileprogram.program import DependenceKind, Opcode, TileProgram
from tests.broken_programs import drop_edge, implied, remove_slot, slot_implied
from tests.simulator.build import Made, caught, elementwise, matmul_chain
from tests.simulator.random_programs import check, check_circle, launches, machines, programs

RAW, WAR, WAW = (
    DependenceKind.READ_AFTER_WRITE,
    DependenceKind.WRITE_AFTER_READ,
    DependenceKind.WRITE_AFTER_WRITE,
)
ACC = DependenceKind.ACCUMULATE


def waits(program: TileProgram, index: int) -> dict[int, DependenceKind]:
    return dict(program.instruction(index).dependences)


def test_a_double_buffered_pipeline_waits_only_where_slots_come_round() -> None:
    program = elementwise(tiles=4, slots=2)
    assert waits(program, 1) == {0: RAW}
    assert waits(program, 2) == {1: RAW}
    assert waits(program, 6) == {1: WAR}  # the load into the slot that the first vector pass read
    assert waits(program, 7) == {6: RAW, 2: WAR}
    verify(program)


def test_a_k_chain_is_linked_by_accumulation() -> None:
    program = matmul_chain(32, 32, 64, tile=16, slots=2)
    matmuls = np.flatnonzero(program.opcode == Opcode.MATMUL).tolist()
    assert waits(program, matmuls[0])[0] == RAW  # the pass that clears the accumulator
    assert waits(program, matmuls[1])[matmuls[0]] == ACC
    assert waits(program, matmuls[3])[matmuls[2]] == ACC
    verify(program)


def test_halves_of_a_buffer_are_apart_and_the_whole_meets_both() -> None:
    made = Made()
    made.argument("x", (64,))
    made.buffer("t", 64)
    made.load(made.dram("x", (32,)), made.pad("t", (32,)))
    made.load(made.dram("x", (32,), 32), made.pad("t", (32,), offset=32))
    made.vector([made.pad("t", (64,))], made.pad("t", (64,)))
    program = made.build()
    assert waits(program, 1) == {}
    assert waits(program, 2) == {0: RAW, 1: RAW}


def test_what_no_two_boxes_share_is_no_conflict() -> None:
    """A window read with steps, overwritten in two pieces, and a load between the steps that waits for neither."""
    made = Made()
    made.argument("x", (2, 2))
    made.buffer("t", 9)
    made.buffer("sum", 2)
    made.vector([made.pad("t", (2, 1), offset=2, strides=(6, 2))], made.pad("sum", (2, 1)))
    made.vector([], made.pad("t", (3,)))
    made.vector([], made.pad("t", (2, 1), offset=5, strides=(3, 1)))
    made.load(made.dram("x", (2, 2)), made.pad("t", (2, 2), offset=3, strides=(3, 1)))
    program = made.build()
    assert waits(program, 3) == {}
    assert not [found for found in conflicts(program) if found.later == 3]
    verify(program)


def test_a_wait_that_another_brings_about_is_left_out() -> None:
    made = Made()
    made.argument("x", (64,))
    made.buffer("t", 64, 2)
    made.load(made.dram("x", (64,)), made.pad("t", (64,)))
    made.vector([made.pad("t", (64,))], made.pad("t", (64,), 1))
    made.vector([made.pad("t", (64,)), made.pad("t", (64,), 1)], made.pad("t", (64,), 1))
    assert waits(made.build(), 2) == {1: RAW}


def test_reading_is_over_before_a_matmul_is_complete() -> None:
    """A load may overwrite a matmul's input once it has streamed; a load that way orders nothing about its result."""
    made = Made()
    for name in ("x", "y"):
        made.argument(name, (64,), written=name == "y")
    for name in ("a", "b", "c"):
        made.buffer(name, 64)
    square = (8, 8)
    made.matmul(made.pad("a", square), made.pad("b", square), made.pad("c", square))
    made.load(made.dram("x", (64,)), made.pad("a", (64,)))
    made.vector([made.pad("a", (64,)), made.pad("c", (64,))], made.pad("c", (64,)))
    program = made.build()
    assert waits(program, 1) == {0: WAR}
    assert waits(program, 2) == {0: RAW, 1: RAW}
    result = int(program.dependence_start[2])
    assert not implied(program, result)
    assert caught(drop_edge(program, result))


def test_an_edge_that_points_forward_is_refused() -> None:
    program = elementwise(tiles=2)
    dependence = program.dependence.copy()
    dependence[0] = 4
    told = r"instruction 1 \(VECTOR vector at line 2\) waits for instruction 4, which is not earlier"
    with pytest.raises(ProgramError, match=told):
        verify(dataclasses.replace(program, dependence=dependence))


def test_a_circle_of_waiting_instructions_is_spelt_out() -> None:
    program = elementwise(tiles=2)  # 0 LOAD, 1 VECTOR, 2 STORE, ...
    dependence = np.concatenate([[2], program.dependence]).astype(np.int32)
    start = program.dependence_start.copy()
    start[1:] += 1  # instruction 0 waits for 2, which waits for 1, which waits for 0
    kind = np.concatenate([[RAW], program.dependence_kind]).astype(np.uint8)
    broken = dataclasses.replace(program, dependence=dependence, dependence_start=start, dependence_kind=kind)
    circle = r"a circle .*: 0 LOAD waits for 2 STORE waits for 1 VECTOR waits for 0 LOAD"
    with pytest.raises(ProgramError, match=circle):
        simulate([Launched("k", broken, (0,) * len(broken.arguments))], load_machine("edge-8x8"))


def test_sizes_beyond_64_bits_are_refused_and_not_wrapped() -> None:
    program = elementwise(tiles=2)
    strides = program.strides.copy()
    strides[0, 0] = 2**61
    with pytest.raises(ProgramError, match=r"the box of operand 0 come to"):
        verify(dataclasses.replace(program, strides=strides))
    huge = dataclasses.replace(program.arguments[0], shape=(2**40, 2**30), strides=(2**30, 1))
    with pytest.raises(ProgramError, match=r"argument '.*' spans"):
        verify(dataclasses.replace(program, arguments=(huge, *program.arguments[1:])))
    buffer = dataclasses.replace(program.buffers[0], slot_bytes=2**62, slots=8)
    with pytest.raises(ProgramError, match=r"buffer '.*' ends at byte"):
        verify(dataclasses.replace(program, buffers=(buffer, *program.buffers[1:])))


def test_only_matmuls_of_one_accumulator_can_be_chained() -> None:
    program = matmul_chain(32, 32, 32, tile=16, slots=2)
    links = np.flatnonzero(program.dependence_kind == ACC)
    for edge in (0, int(links[0])):
        kinds, accumulates = program.dependence_kind.copy(), program.accumulates.copy()
        kinds[edge] = ACC
        accumulates[program.opcode != Opcode.MATMUL] = 1  # a vector pass that claims to accumulate is none
        if edge == links[0]:
            accumulates[:] = 0
        with pytest.raises(ProgramError, match=r"instruction \d+ .* cannot accumulate onto instruction \d+"):
            verify(dataclasses.replace(program, dependence_kind=kinds, accumulates=accumulates))


@pytest.mark.parametrize(
    ("column", "index", "value", "message"),
    [
        ("slot", 1, 2, "instruction 0 .* uses slot 2 of 'in'"),
        ("target", 1, 5, "names buffer 5, which is not there: 0 is 'in', 1 is 'result'"),
        ("offset", 0, 10**6, "reaches bytes 4000000 to"),
        ("offset", 1, -1, "reaches bytes -4 to"),
        ("opcode", 0, 77, r"opcode\[0\] = 77 is not between 0 and 9"),
        ("access", 0, 0, r"access\[0\] = 0 is neither read nor write"),
        ("operand_rank", 0, 9, r"operand_rank\[0\] = 9"),
        ("op", 0, 99, r"op\[0\] = 99"),
        ("opcode", 0, 1, "does not read one box and write another in its spaces"),
        ("stationary", 0, 0, None),
    ],
)
def test_what_is_out_of_range_is_named(column: str, index: int, value: int, message: str | None) -> None:
    program = elementwise(tiles=2)
    values = getattr(program, column).copy()
    values[index] = value
    broken = dataclasses.replace(program, **{column: values})
    if message is None:
        verify(broken)
        return
    with pytest.raises(ProgramError, match=message):
        verify(broken)


def test_buffers_that_share_addresses_are_refused() -> None:
    program = elementwise(tiles=2)
    first, second = program.buffers
    moved = dataclasses.replace(second, offset=first.bytes - 4)
    with pytest.raises(ProgramError, match="buffers 'in' and 'result' share scratchpad bytes"):
        verify(dataclasses.replace(program, buffers=(first, moved)))


@pytest.mark.parametrize("program", [elementwise(6, 2), elementwise(8, 3), matmul_chain(32, 32, 64, 16, 2)])
def test_every_dropped_edge_that_matters_is_caught(program: TileProgram) -> None:
    verify(program)
    verdicts = [(implied(program, edge), caught(drop_edge(program, edge))) for edge in range(len(program.dependence))]
    assert all(was_caught != was_implied for was_implied, was_caught in verdicts)
    assert sum(was_caught for _, was_caught in verdicts) > len(verdicts) // 2


@pytest.mark.parametrize("program", [elementwise(6, 2), elementwise(8, 3), matmul_chain(32, 32, 64, 16, 2)])
def test_every_removed_slot_is_caught(program: TileProgram) -> None:
    for buffer in range(len(program.buffers)):
        assert caught(remove_slot(program, buffer))


def test_a_slot_that_queue_order_makes_superfluous_is_told_apart() -> None:
    """An accumulator that only the in-order vector unit clears and reads is safe in one slot."""
    program = matmul_chain(32, 32, 16, tile=16, slots=2)
    lone = Made()
    lone.buffer("t", 64, 2)
    for slot in (0, 1, 0, 1):
        lone.vector([], lone.pad("t", (64,), slot))
        lone.vector([lone.pad("t", (64,), slot)], lone.pad("t", (64,), slot))
    assert slot_implied(lone.build(), 0) and not caught(remove_slot(lone.build(), 0))
    assert not slot_implied(program, 0) and caught(remove_slot(program, 0))


def test_the_trace_of_a_program_that_lacks_an_edge_breaks_its_invariants() -> None:
    program = elementwise(6, 2)
    broken = drop_edge(program, 0)  # the first vector pass no longer waits for its load
    with pytest.raises(InvariantViolation, match=r"instruction 1 starts at \d+, before instruction 0 is complete"):
        simulate([Launched("k", broken, (0, 0))], load_machine("tpu-v3")).invariants()


def test_the_only_slot_of_a_buffer_cannot_be_removed() -> None:
    with pytest.raises(ProgramError, match="has one slot"):
        remove_slot(elementwise(2, 1), 0)


# -- random programs --------------------------------------------------------------------------------------------------


@pytest.mark.test_all
@settings(max_examples=100, deadline=None, derandomize=True)
@given(launches(), machines(), st.integers(1, 40))
def test_random_programs_keep_all_invariants_on_random_machines(
    several: list[Launched], machine: Machine, stretch: int
) -> None:
    check(several, machine, stretch)


@pytest.mark.test_all
@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs(12), machines(), st.integers(0, 12), st.integers(0, 12))
def test_random_circles_are_told_and_never_hang(program: TileProgram, machine: Machine, row: int, awaited: int) -> None:
    check_circle(program, machine, row, awaited)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(12, direct=False))
def test_random_programs_lose_no_edge_unnoticed_and_have_none_in_vain(program: TileProgram) -> None:
    for edge in range(len(program.dependence)):
        assert caught(drop_edge(program, edge)) != implied(program, edge)
    assert caught(remove_slot(program, 0)) != slot_implied(program, 0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(12))
def test_random_programs_with_loops_of_accesses_lose_no_edge_unnoticed(program: TileProgram) -> None:
    """Of rows whose strides give no coordinates, `boxes` may say that they meet when they do not; never the reverse."""
    for edge in range(len(program.dependence)):
        assert caught(drop_edge(program, edge)) or implied(program, edge)
    assert caught(remove_slot(program, 0)) or slot_implied(program, 0)
