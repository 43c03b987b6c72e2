"""The vector unit: the cost of one pass over an iteration space.

A vector is `lanes` lanes of 256 bits, 8 elements of f32 each, 16 of f16: the widest number that is read, computed with
or written says how many, up to 32 bits. Numbers of 64 bits fill two vectors: a move of them is two, any other operation
four of 32 bits (`assumed`: nobody published what they take), two after two as for latency. What the same pass does on
narrower numbers costs what it costs alone. The lane dim is spread over the lanes, the other dims are packed into the
elements of a lane; with L lanes of w elements and `rest` the product of the other extents,

    vectors   V = ceil(extent of the lane dim / L) * ceil(rest / w), of a space of one dim ceil(extent / (L * w)): its
              rows of lanes are packed into the elements of the lanes
    slots     alu(V) = ceil(V * alu operations / ALUs)      special(V) = V * special functions * interval
              ALU operations are arithmetic, comparison, conversion and moving a value; both kinds run side by side
              Floats of 16 bits are widened where the unit computes with none so narrow, and results narrowed: as many
              ALU operations more for each such operand, on vectors of as many elements as the wide ones take
    chain     the first vector goes through all its operations one after the other: operations * latency
    pass      chain + max(alu, special)(V) - max(alu, special)(1), at least one cycle a vector

A reduction adds trees, each step one ALU operation on the last step's result (after a move where lanes must meet):

    within a lane     when a packed dim is reduced and fewer than w results share the lane: log2(w / results) steps
    across lanes      when the lane dim is reduced: log2(min(L, its extent)) steps for every vector of results. Of a dim
                      longer than L the parts are added up lane by lane before. The unit across lanes is pipelined: it
                      begins a step of another vector while the ALUs add what the last step moved

Where data lies. The scratchpad has a bank for each lane, and a DMA lays what is contiguous in DRAM along them, one word
to each. A program says for each operand which dim of a pass lies along the lanes, and which dims walk it at all
(`OpInfo.contiguous` and `OpInfo.walks`). A pass pays for operands that lie otherwise than its own lanes do:

    turned        the lane dim walks it, but its lanes hold another: each of its vectors goes through the transposer
    spread        what lies along other dims and is the same for all lanes: the way across lanes that a reduction takes,
                  backwards, log2(min(L, extent of the lane dim)) steps for every vector of it; all L lanes of the dim
                  take the same vector
    stepped       its lanes hold the lane dim, but the pass takes every s-th of them, as a pool with stride s does: each
                  of its vectors is put together from s (at most L), each of which takes log2(L) steps across lanes

The lane dim of a pass is the one with which all this takes the fewest cycles (`best_lanes`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64, MAX_RANK, Access, OpClass, Opcode, Space, TileProgram
from simulator.units.unit import Costs, Does, Mask, Unit, computed


def vectors(program: TileProgram, machine: Machine) -> I64:
    """V for each instruction, 1 for a scalar space."""
    lane, rest, _, _ = _split(program)
    groups, per_lane = -(-lane // machine.vector.lanes), _lane_words(program, machine)
    return np.where(rest == 1, -(-groups // per_lane), groups * -(-rest // per_lane))


def vector_cycles(program: TileProgram, machine: Machine) -> I64:
    """Cycles of each instruction, taken as a vector pass; the formulas of the module's docstring."""
    alu, special = _operations(program, machine)
    count, chain = vectors(program, machine), _chain(program, machine)
    body = chain + _bottleneck(count, alu, special, machine) - _bottleneck(np.ones_like(count), alu, special, machine)
    return np.maximum(body, count) + _trees(program, machine) + _moved_over(program, machine)


def parts(program: TileProgram, machine: Machine) -> dict[str, I64]:
    """The cycles of each pass, by activity; they add up to `vector_cycles`."""
    (alu, special), count = _operations(program, machine), vectors(program, machine)
    trees, moved = _trees(program, machine), _moved_over(program, machine)
    turned = _moved_over(program, machine, spread=False)
    body = vector_cycles(program, machine) - trees - moved
    latency = np.minimum(body, _chain(program, machine))
    by_alus = -(-count * alu // machine.vector.alus) >= count * special * machine.vector.special_interval_cycles
    return {
        "arithmetic": np.where(by_alus, body - latency, 0),
        "special functions": np.where(by_alus, 0, body - latency),
        "latency of the units": latency,
        "moves across lanes": trees + moved - turned,
        "turned tiles": turned,
    }


def least_cycles(program: TileProgram, machine: Machine) -> npt.NDArray[np.float64]:
    """Cycles of each instruction, taken as a vector pass, if all lanes were full and nothing had a latency."""
    alu, special = _operations(program, machine)
    full = program.extent.prod(1) / (machine.vector.lanes * _lane_words(program, machine))
    return full * _slots(alu, special, machine)


def estimate(points: float, operations: I64, wide: I64, element_bytes: int, machine: Machine) -> tuple[float, float]:
    """Estimates the cycles of a pass before there is an instruction: with all lanes full, and of its first vector.

    `operations` and the `wide` ones among them are a row of counts by `OpClass`.
    """
    alu, special = words(operations[None], wide[None])
    vectors = points / machine.vector_elements(min(element_bytes, _WORD))
    return vectors * float(_slots(alu, special, machine)[0]), int(_latency(alu, special, machine)[0])


def best_lanes(program: TileProgram, machine: Machine) -> TileProgram:
    """The program with the lane dim for each vector pass that takes the fewest cycles, the outermost of equals."""
    chosen = np.flatnonzero((program.opcode == Opcode.VECTOR) & (program.rank > 0))
    if not len(chosen):
        return program
    cycles = np.full((MAX_RANK, len(program)), np.iinfo(np.int64).max)
    for dim in range(int(program.rank[chosen].max())):
        tried = replace(program, lane=np.full(len(program), dim, np.int8))
        cycles[dim] = np.where(program.rank > dim, vector_cycles(tried, machine), cycles[dim])
    lane = program.lane.copy()
    lane[chosen] = cycles.argmin(0)[chosen]
    return replace(program, lane=lane)


def words(counts: I64, wide: I64) -> tuple[I64, I64]:
    """Operations of 32 bits for each row of `counts`, by `OpClass`, and the `wide` ones of them: ALU, and special."""
    more = wide * (_WIDE - 1)
    more[:, OpClass.MOVE] = wide[:, OpClass.MOVE] * (_WIDE_MOVE - 1)
    return _by_kind(counts + more)


def operations(program: TileProgram) -> I64:
    """Operations of 32 bits of each instruction: what its peak rate is counted in. (N x 2: ALU, special)"""
    points, (alu, special) = program.extent.prod(1), _by_rate(program)
    return np.stack([points * alu, points * special], axis=1)


def _slots(alu: I64, special: I64, machine: Machine) -> npt.NDArray[np.float64]:
    """Cycles of one vector of many: its ALU operations and its special functions run side by side."""
    busy = np.maximum(alu / machine.vector.alus, special * machine.vector.special_interval_cycles)
    return np.maximum(busy, 1)


def _latency(alu: I64, special: I64, machine: Machine) -> I64:
    """Cycles of one vector's operations, one after the other."""
    return alu * machine.vector.alu_latency_cycles + special * machine.vector.special_latency_cycles


def _bottleneck(count: I64, alu: I64, special: I64, machine: Machine) -> I64:
    return np.maximum(-(-count * alu // machine.vector.alus), count * special * machine.vector.special_interval_cycles)


def _trees(program: TileProgram, machine: Machine) -> I64:
    lane, rest, reduced_rest, lane_reduced = _split(program)
    per_lane = _lane_elements(program, machine)
    results = rest // reduced_rest
    groups = -(-lane // machine.vector.lanes)
    folded = np.minimum(reduced_rest, np.maximum(per_lane // results, 1))
    within = groups * _log2(folded) * machine.vector.alu_latency_cycles
    lone = np.where(lane_reduced & (rest == 1), np.minimum(groups, per_lane), 1)
    within += _log2(lone) * machine.vector.alu_latency_cycles
    steps = _log2(np.minimum(lane, machine.vector.lanes))
    across = steps * (
        -(-results // per_lane) * machine.vector.cross_lane_step_cycles + machine.vector.alu_latency_cycles
    )
    return within + np.where(lane_reduced, across, 0)


def _split(program: TileProgram) -> tuple[I64, I64, I64, Mask]:
    """Extent of the lane dim, product of the others, product of the reduced ones among those, is the lane reduced."""
    dims = np.arange(MAX_RANK)
    is_lane: Mask = np.equal(dims[None, :], program.lane[:, None])
    reduced: Mask = np.not_equal((program.reduction[:, None] >> dims[None, :]) & 1, 0)
    lane = np.where(is_lane, program.extent, 1).prod(1)
    rest = np.where(is_lane, 1, program.extent).prod(1)
    reduced_rest = np.where(reduced & ~is_lane, program.extent, 1).prod(1)
    return lane, rest, reduced_rest, np.logical_or.reduce(reduced & is_lane, axis=1)


def _lane_elements(program: TileProgram, machine: Machine, at_most: int = np.iinfo(np.int64).max) -> I64:
    """Elements a lane holds of the widest numbers, `at_most` of so many bytes, that each instruction deals with."""
    widened = np.where(_widened(program, machine) > 0, machine.vector.narrowest_float_bytes, 1)
    widest = np.maximum(np.minimum(_widest(program), at_most), widened)
    return np.maximum(1, machine.vector.bits_per_lane // (8 * widest))


def _lane_words(program: TileProgram, machine: Machine) -> I64:
    """Elements that a lane holds for operations of 32 bits, of which those on 64 bits are several."""
    return _lane_elements(program, machine, _WORD)


def _widest(program: TileProgram) -> I64:
    """Bytes of the widest numbers that each instruction reads, computes with or writes."""
    widest = np.ones(len(program), np.int64)
    owner = program.owners()
    np.maximum.at(widest, owner, program.element_bytes)
    computed = np.array([op.computed_bytes for op in program.ops], np.int64)
    return np.maximum(widest, computed[program.op])


_HALF = 2
"""Bytes of a float of 16 bits."""

_WORD = 4
"""Bytes of the widest numbers that an operation takes as they are."""

_WIDE, _WIDE_MOVE = 4, 2
"""Operations of 32 bits that one on 64 bits takes, as products of halves do; and that moving such a number takes."""


def _operations(program: TileProgram, machine: Machine) -> tuple[I64, I64]:
    """Operations of 32 bits of each instruction per point: ALU, those that widen and narrow included, and special."""
    alu, special = _by_rate(program)
    return alu + _widened(program, machine) * machine.vector.conversion_operations, special


def _chain(program: TileProgram, machine: Machine) -> I64:
    """Cycles of the first vector's operations: of four on the same 64 bits, two wait for the other two."""
    counts = program.class_counts() + program.wide_counts()
    counts[:, OpClass.MOVE] = program.class_counts()[:, OpClass.MOVE]
    alu, special = _by_kind(counts[program.op])
    alu += _widened(program, machine) * machine.vector.conversion_operations
    return _latency(alu, special, machine)


def _by_rate(program: TileProgram) -> tuple[I64, I64]:
    """Operations of 32 bits of each instruction's body, per point: ALU, and special functions."""
    alu, special = words(program.class_counts(), program.wide_counts())
    return alu[program.op], special[program.op]


def _by_kind(counts: I64) -> tuple[I64, I64]:
    return counts[:, OpClass.ALU] + counts[:, OpClass.CONVERT] + counts[:, OpClass.MOVE], counts[:, OpClass.SPECIAL]


def _widened(program: TileProgram, machine: Machine) -> I64:
    """Operands of each instruction that the unit widens or narrows: all of two bytes, also bf16, which takes fewer
    operations than f16, and the few integers so wide."""
    widened, halves = np.zeros(len(program), np.int64), program.element_bytes == _HALF
    if machine.vector.narrowest_float_bytes <= _HALF or not halves.any():
        return widened
    counts = program.class_counts()[program.op]
    computes = (counts.sum(1) > counts[:, OpClass.MOVE]) & (program.opcode == Opcode.VECTOR)
    owner = program.owners()
    np.add.at(widened, owner, halves & computes[owner])
    return widened


def _moved_over(program: TileProgram, machine: Machine, *, spread: bool = True) -> I64:
    """Cycles for operands that do not lie along the pass's lanes: turned, or `spread` over all of them."""
    out = np.zeros(len(program), np.int64)
    owner = program.owners()
    place = np.arange(len(owner)) - program.operand_start[owner]
    walks, contiguous = _layouts(program, owner, place)
    lane = program.lane[owner].astype(np.int64)
    across = np.where(lane >= 0, program.extent[owner, np.maximum(lane, 0)], 1)
    elements = program.shape.prod(1)
    walked = ((walks >> np.maximum(lane, 0)) & 1) != 0
    elsewhere = (contiguous >= 0) & (contiguous != lane) & (across > 1)
    elsewhere &= program.extent[owner, np.maximum(contiguous, 0)] > 1
    per_lane = _lane_elements(program, machine)[owner]
    groups = -(-across // machine.vector.lanes)
    turned = groups * -(-(elements // across) // per_lane)
    steps = _log2(np.minimum(across, machine.vector.lanes)) * machine.vector.cross_lane_step_cycles
    read = program.access == Access.READ  # a reduction across lanes is among the pass's trees
    step = _lane_step(program, across)
    stepped = read & (contiguous >= 0) & (contiguous == lane) & walked & (across > 1) & (step > 1) & (elements > 1)
    sources = np.minimum(step, machine.vector.lanes) * (machine.vector.lanes - 1).bit_length()
    cycles = np.where(elsewhere & walked, turned * machine.vector.transpose_cycles_per_vector, 0)
    cycles += np.where(elsewhere & ~walked & read, -(-elements // per_lane) * steps, 0) if spread else 0
    cycles += np.where(stepped, turned * sources * machine.vector.cross_lane_step_cycles, 0) if spread else 0
    np.add.at(out, owner, cycles)
    return out


def _lane_step(program: TileProgram, along: I64) -> I64:
    """For each operand in the scratchpad, how far apart its places `along` the lanes lie: 1 where others lie closer."""
    most = np.iinfo(np.int64).max
    apart = np.where(program.shape > 1, np.abs(program.strides), most)
    closest = apart.min(1, initial=most)
    across = ((apart == closest[:, None]) & (program.shape == along[:, None])).any(1)
    known = across & (closest < most) & (program.space == Space.SCRATCHPAD)
    return np.where(known, np.maximum(closest, 1), 1)


def _layouts(program: TileProgram, owner: I64, place: I64) -> tuple[I64, I64]:
    """For each operand the dims that walk it, as bits, and the dim along the lanes, -1 for none."""
    widest = int(place.max(initial=-1)) + 1
    known = np.full((2, len(program.ops), widest), -1, np.int64)
    for number, op in enumerate(program.ops):
        known[0, number, : len(op.walks)] = op.walks
        known[1, number, : len(op.contiguous)] = op.contiguous
    of = program.op[owner]
    return known[0, of, place], known[1, of, place]


def _log2(values: I64) -> I64:
    """Steps of a tree over that many values: log2, rounded up, in exact integers."""
    steps = np.zeros_like(values)
    left = values - 1
    while np.any(left > 0):
        steps += left > 0
        left >>= 1
    return steps


UNIT = Unit(
    name="vector",
    lane="vpu",
    does={Opcode.VECTOR: Does("vector", "compute")},
    costs=lambda part: Costs(vector_cycles(part.program, part.machine)),
    counts=lambda program, machine, done: computed(operations(program)[program.opcode == Opcode.VECTOR]),
    energy={"alu": "vector_op_pj", "special": "special_op_pj"},
)
