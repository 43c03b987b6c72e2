"""The vector unit: what one pass over an iteration space takes.

A vector is `lanes` lanes of 256 bits, 8 elements of f32 each, 16 of f16: the widest number that is read, computed with
or written says how many. The lane dim is spread over the lanes, the other dims
are packed into the elements of a lane; with L lanes of w elements and `rest` the product of the other extents,

    vectors   V = ceil(extent of the lane dim / L) * ceil(rest / w)
    slots     alu(V) = ceil(V * alu operations / ALUs)      special(V) = V * special functions * interval
              ALU operations are arithmetic, comparison, conversion and moving a value; both kinds run side by side
    chain     the first vector goes through all its operations one after the other: operations * latency
    pass      chain + max(alu, special)(V) - max(alu, special)(1), at least one cycle a vector

A reduction adds trees, each step one ALU operation on the last step's result (after a move where lanes must meet):

    within a lane     when a packed dim is reduced and fewer than w results share the lane: log2(w / results) steps
    across lanes      when the lane dim is reduced: log2(min(L, its extent)) steps for every vector of results

A pass that turns lanes into elements (`OpInfo.transposes`) takes the transposer for each of its vectors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.machine import Machine
from simulator.program import I64, MAX_RANK, OpClass, TileProgram

Flags = npt.NDArray[np.bool_]


def vectors(program: TileProgram, machine: Machine) -> I64:
    """V for each instruction, 1 for a scalar space."""
    lane, rest, _, _ = _split(program)
    return -(-lane // machine.vector_lanes) * -(-rest // _lane_elements(program, machine))


def vector_cycles(program: TileProgram, machine: Machine) -> I64:
    """Cycles of each instruction, taken as a vector pass; the formulas of the module's docstring."""
    counts, transposes = _bodies(program)
    alu = counts[:, OpClass.ALU] + counts[:, OpClass.CONVERT] + counts[:, OpClass.MOVE]
    special = counts[:, OpClass.SPECIAL]
    count = vectors(program, machine)
    chain = alu * machine.alu_latency_cycles + special * machine.special_latency_cycles
    body = chain + _bottleneck(count, alu, special, machine) - _bottleneck(np.ones_like(count), alu, special, machine)
    turned = np.where(transposes, count * machine.transpose_cycles_per_vector, 0)
    return np.maximum(body, count) + _trees(program, machine) + turned


def operations(program: TileProgram) -> I64:
    """Element operations of each instruction: what its peak rate is counted in. (N x 2: ALU, special)"""
    counts, _ = _bodies(program)
    points = program.extent.prod(1)
    alu = counts[:, OpClass.ALU] + counts[:, OpClass.CONVERT] + counts[:, OpClass.MOVE]
    return np.stack([points * alu, points * counts[:, OpClass.SPECIAL]], axis=1)


def _bottleneck(count: I64, alu: I64, special: I64, machine: Machine) -> I64:
    return np.maximum(-(-count * alu // machine.vector_alus), count * special * machine.special_interval_cycles)


def _trees(program: TileProgram, machine: Machine) -> I64:
    lane, rest, reduced_rest, lane_reduced = _split(program)
    per_lane = _lane_elements(program, machine)
    results = rest // reduced_rest
    groups = -(-lane // machine.vector_lanes)
    folded = np.minimum(reduced_rest, np.maximum(per_lane // results, 1))
    within = groups * _log2(folded) * machine.alu_latency_cycles
    step = machine.cross_lane_step_cycles + machine.alu_latency_cycles
    across = -(-results // per_lane) * _log2(np.minimum(lane, machine.vector_lanes)) * step
    return within + np.where(lane_reduced, across, 0)


def _split(program: TileProgram) -> tuple[I64, I64, I64, Flags]:
    """Extent of the lane dim, product of the others, product of the reduced ones among those, is the lane reduced."""
    dims = np.arange(MAX_RANK)
    is_lane: Flags = np.equal(dims[None, :], program.lane[:, None])
    reduced: Flags = np.not_equal((program.reduction[:, None] >> dims[None, :]) & 1, 0)
    lane = np.where(is_lane, program.extent, 1).prod(1)
    rest = np.where(is_lane, 1, program.extent).prod(1)
    reduced_rest = np.where(reduced & ~is_lane, program.extent, 1).prod(1)
    return lane, rest, reduced_rest, np.logical_or.reduce(reduced & is_lane, axis=1)


def _lane_elements(program: TileProgram, machine: Machine) -> I64:
    """Elements a lane holds of the widest numbers that each instruction reads, computes with or writes."""
    widest = np.ones(len(program), np.int64)
    owner = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    np.maximum.at(widest, owner, program.element_bytes)
    computed = np.array([op.computed_bytes for op in program.ops], np.int64)
    return np.maximum(1, machine.vector_bits_per_lane // (8 * np.maximum(widest, computed[program.op])))


def _bodies(program: TileProgram) -> tuple[I64, Flags]:
    counts = np.array([op.class_counts for op in program.ops], np.int64).reshape(-1, len(OpClass))
    transposes = np.array([op.transposes for op in program.ops], np.bool_)
    return counts[program.op], transposes[program.op]


def _log2(values: I64) -> I64:
    """Steps of a tree over that many values: log2, rounded up, in exact integers."""
    steps = np.zeros_like(values)
    left = values - 1
    while np.any(left > 0):
        steps += left > 0
        left >>= 1
    return steps
