"""Chains between iterations, read off hand-written loops, and what they cost."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from simulator import Launched, load_machine, simulate
from simulator.errors import InvariantViolation
from simulator.tileprogram.program import Carried, Opcode, TileProgram
from simulator.units import scalar
from tests.extraction import reading

MACHINE = load_machine("edge-8x8", alu_latency_cycles=3, scalar_outstanding=1000)
FAR, ALU, SPECIAL = (
    MACHINE.dram_latency_cycles,
    MACHINE.vector.alu_latency_cycles,
    MACHINE.vector.special_latency_cycles,
)
N = 512

KERNEL = """func.func @k(%x: memref<512xf32>, %y: memref<512xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %n = arith.constant 512 : index
  %one = arith.constant 1.0 : f32
{body}
  return
}}"""

ONE_VALUE = """  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %one) -> (f32) {{
    %e = memref.load %x[%i] : memref<512xf32>
{body}
    scf.yield %v : f32
  }}
  memref.store %r, %y[%c0] : memref<512xf32>"""

TWO_VALUES = """  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %one, %b = %one) -> (f32, f32) {{
    %e = memref.load %x[%i] : memref<512xf32>
{body}
    scf.yield %v, %w : f32, f32
  }}
  memref.store %r#0, %y[%c0] : memref<512xf32>"""


def read(body: str) -> TileProgram:
    return reading.read(KERNEL.format(body=body), MACHINE)


def loop_of(program: TileProgram) -> tuple[Carried, ...]:
    return program.ops[int(program.op[0])].carried


def cycles(program: TileProgram) -> int:
    """Of the first loop."""
    trace = simulate([Launched("k", program, (0, 4096))], MACHINE)
    trace.invariants()
    return int(trace.end[0] - trace.start[0])


@pytest.mark.parametrize(
    ("body", "chains", "expected"),
    [
        ("%v = arith.divf %e, %a : f32", {(1, (0, 1, 0, 0))}, FAR + N * SPECIAL),
        ("%v = arith.addf %a, %e : f32", {(1, (1, 0, 0, 0))}, FAR + N * ALU),
        ("%v = arith.maximumf %a, %e : f32", {(1, (1, 0, 0, 0))}, FAR + N * ALU),
        # the division is of this iteration alone
        (
            "%d = arith.divf %e, %one : f32\n    %v = arith.addf %a, %d : f32",
            {(1, (1, 0, 0, 0))},
            FAR + SPECIAL + N * ALU,
        ),
        # of two ways to what is yielded, none is longer for every machine
        (
            "%d = arith.divf %a, %e : f32\n    %s = arith.addf %a, %e : f32\n    %t = arith.mulf %s, %e : f32\n"
            "    %v = arith.select %same, %d, %t : f32",
            {(1, (1, 1, 0, 0)), (1, (3, 0, 0, 0))},
            FAR + 2 * ALU + N * (SPECIAL + ALU),
        ),
    ],
)
def test_a_value_that_is_handed_on(body: str, chains: set[tuple[int, tuple[int, ...]]], expected: int) -> None:
    prefix = "  %same = arith.constant true\n" if "%same" in body else ""
    program = read(prefix + ONE_VALUE.format(body="    " + body))
    assert {(chain.iterations, chain.class_counts) for chain in loop_of(program)} == chains
    assert cycles(program) == expected


@pytest.mark.parametrize(
    ("body", "chains", "expected"),
    [
        # side by side: the longest counts
        (
            "%v = arith.addf %a, %e : f32\n    %w = arith.divf %b, %e : f32",
            {(1, (1, 0, 0, 0)), (1, (0, 1, 0, 0))},
            FAR + ALU + N * SPECIAL,
        ),
        # in turn: each is the other one iteration later
        ("%w = arith.divf %a, %e : f32\n    %v = arith.mulf %b, %b : f32", {(2, (1, 1, 0, 0))}, None),
        # Fibonacci's: one addition an iteration
        ("%w = arith.addf %a, %b : f32\n    %v = arith.negf %b : f32", {(1, (1, 0, 0, 0))}, None),
        # what one hands to the other, and nobody back, is no chain
        ("%v = arith.addf %e, %e : f32\n    %w = arith.divf %a, %e : f32", set[tuple[int, tuple[int, ...]]](), None),
    ],
)
def test_several_values(body: str, chains: set[tuple[int, tuple[int, ...]]], expected: int | None) -> None:
    program = read(TWO_VALUES.format(body="    " + body))
    assert {(chain.iterations, chain.class_counts) for chain in loop_of(program)} == chains
    if expected is not None:
        assert cycles(program) == expected


CONDITIONAL = """    %few = arith.cmpi ult, %i, %c8 : index
    %v = scf.if %few -> (f32) {
      %q = arith.divf %a, %e : f32
      %s = arith.addf %q, %one : f32
      scf.yield %s : f32
    } else {
      %p = arith.addf %a, %e : f32
      scf.yield %p : f32
    }"""


def test_what_a_branch_hands_on_counts_by_its_longer_side() -> None:
    program = read(ONE_VALUE.format(body=CONDITIONAL))
    assert [chain.class_counts for chain in loop_of(program)] == [(1, 1, 0, 0)]
    assert program.ops[int(program.op[0])].class_counts == (2, 1, 0, 0)  # the comparison, and one side of the branch
    assert cycles(program) == FAR + ALU + N * (ALU + SPECIAL)


def test_operations_in_a_branch_cost_what_they_cost_outside() -> None:
    body = """  scf.for %i = %c0 to %n step %c1 {{
    %e = memref.load %x[%i] : memref<512xf32>
    {before}
    %s = math.exp %e : f32
    %t = math.exp %s : f32
    memref.store %t, %y[%i] : memref<512xf32>
    {after}
  }}"""
    taken = read(
        body.format(before="scf.if %yes {", after="}").replace(
            "  scf.for", "  %yes = arith.constant true\n  scf.for", 1
        )
    )
    plain = read(body.format(before="", after=""))
    assert taken.ops[0].class_counts == plain.ops[0].class_counts == (0, 2, 0, 0)
    assert cycles(taken) == cycles(plain)


NESTED = """  %r = scf.for %o = %c0 to %c8 step %c1 iter_args(%c = %one) -> (f32) {
    %inner = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c) -> (f32) {
      %e = memref.load %x[%i] : memref<512xf32>
      %v = arith.divf %a, %e : f32
      scf.yield %v : f32
    }
    scf.yield %inner : f32
  }
  memref.store %r, %y[%c0] : memref<512xf32>"""


def test_a_nested_loop_hands_on_through_each_of_its_inner_ones() -> None:
    program = read(NESTED)
    trace = simulate([Launched("k", program, (0, 4096))], MACHINE)
    trace.invariants()
    assert program.opcode.tolist() == [Opcode.DIRECT] * 9
    assert int(trace.end[7] - trace.start[0]) == 8 * (FAR + N * SPECIAL)


def test_a_loop_that_touches_nothing_takes_its_time() -> None:
    body = """  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %one) -> (f32) {
    %v = arith.divf %one, %a : f32
    scf.yield %v : f32
  }
  memref.store %r, %y[%c0] : memref<512xf32>"""
    program = read(body)
    assert len(program) == 2 and cycles(program) == N * SPECIAL


def test_an_affine_loop_hands_on_as_well() -> None:
    body = """  %r = affine.for %i = 0 to 512 iter_args(%a = %one) -> (f32) {
    %e = memref.load %x[%i] : memref<512xf32>
    %v = arith.divf %a, %e : f32
    affine.yield %v : f32
  }
  memref.store %r, %y[%c0] : memref<512xf32>"""
    assert cycles(read(body)) == FAR + N * SPECIAL


AROUND = """  %last = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %one) -> (f32) {{
    %e = memref.load %x[%i] : memref<512xf32>
{before}
    memref.store %e, %y[%i] : memref<512xf32>
    scf.for %j = %c1 to %c8 step %c1 {{
      %f = memref.load %x[%j] : memref<512xf32>
      memref.store %f, %y[%j] : memref<512xf32>
    }}
{after}
    scf.yield %v : f32
  }}
  memref.store %last, %y[%c0] : memref<512xf32>"""
PAIRS = 50


def around(before: str, after: str) -> TileProgram:
    return read(AROUND.format(before=before, after=after))


def test_arithmetic_around_an_inner_loop_is_computed_one_by_one_in_every_round():
    of = ["%e", *(f"%l{n}" for n in range(PAIRS))]
    pairs = [f"    %e{n} = math.exp {of[n]} : f32\n    %l{n} = math.log %e{n} : f32" for n in range(PAIRS)]
    last = f"    %v = arith.addf %a, %l{PAIRS - 1} : f32"
    bare = around("    %none = arith.constant 1.0 : f32", "    %v = arith.constant 2.0 : f32")
    for made in (around("\n".join(pairs), last), around("", "\n".join([*pairs, last]))):
        assert scalar.operations(made).sum(0).tolist() == [8, 8 * 2 * PAIRS]
        taken = [simulate([Launched("k", program, (0, 4096))], MACHINE) for program in (bare, made)]
        for trace in taken:
            trace.invariants()
        more = 8 * (2 * PAIRS * SPECIAL + ALU)
        assert more <= taken[1].makespan - taken[0].makespan <= 1.05 * more


def test_the_invariant_sees_arithmetic_outside_a_loop_that_takes_no_time():
    made = around("    %s = math.exp %e : f32", "    %v = arith.addf %a, %s : f32")
    with mock.patch.object(scalar, "_cycles", lambda part, *_: (np.zeros(len(part.program), np.int64),) * 2):
        trace = simulate([Launched("k", made, (0, 4096))], MACHINE)
    with pytest.raises(InvariantViolation, match=f"one of its iterations needs {SPECIAL}.0"):
        trace.invariants()
