"""The vector unit: the cost of one pass over an iteration space.

A vector is `lanes` lanes of 256 bits, each with 8 elements of f32 or 16 of f16. The widest number, up to 32 bits, that
a pass reads, computes with or writes determines the elements of a lane. Numbers of 64 bits fill two vectors: moving
them counts as two operations of 32 bits, any other operation as four (`assumed`: nobody published their times), of
which two wait for the other two. Operations of such a pass on narrower numbers cost as much as in a pass without wide
ones. The lane dim is spread over the lanes, the other dims are packed into the elements of a lane. With L lanes of w
elements, and `rest` the product of the other extents:

    vectors   V = ceil(extent of the lane dim / L) * ceil(rest / w), of a space of one dim ceil(extent / (L * w)): its
              rows of lanes are packed into the elements of the lanes
    slots     alu(V) = ceil(V * alu operations / ALUs)      special(V) = V * special functions * interval
              ALU operations are arithmetic, comparison, conversion and moving a value; both kinds run side by side
              If the unit computes with no floats of 16 bits, it widens these and narrows such results: for each such
              operand `vector_conversion_operations` more ALU operations, on vectors of the wider elements
    chain     the first vector goes through all its operations one after the other: operations * latency
    pass      chain + max(alu, special)(V) - max(alu, special)(1), at least one cycle a vector

A reduction adds trees, each step one ALU operation on the last step's result (after a move where lanes must meet):

    within a lane     when a packed dim is reduced and fewer than w results share the lane: log2(w / results) steps
    across lanes      when the lane dim is reduced: log2(min(L, its extent)) steps for every vector of results. The
                      parts of a dim longer than L are first added up lane by lane. The unit across lanes is
                      pipelined: it begins a step of another vector while the ALUs add the values of the last step

Placement of data. The scratchpad has a bank for each lane, and a DMA lays bytes that are contiguous in DRAM along the
lanes, one word to each. A program says for each operand which dim of a pass lies along the lanes, and which dims walk
the operand at all (`OpInfo.contiguous` and `OpInfo.walks`). A pass pays for operands that lie otherwise than its own
lanes:

    turned        the lane dim walks the operand, but another dim lies along its lanes: each of its vectors goes through
                  the transposer
    spread        the operand lies along other dims and is the same for all lanes: it takes the way across lanes of a
                  reduction, backwards: log2(min(L, extent of the lane dim)) steps for each of its vectors
    stepped       the lane dim lies along the operand's lanes, but the pass takes every s-th element, as a pool with
                  stride s does: each of its vectors is put together from s (at most L) vectors, each of which takes
                  log2(L) steps across lanes

The lane dim of a pass is the dim with which all this takes the fewest cycles (`best_lanes`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64, MAX_RANK, Access, OpClass, Opcode, Space, TileProgram
from simulator.units.unit import Costs, Does, Mask, Unit, computed


def vectors(program: TileProgram, machine: Machine) -> I64:
    """The number of vectors V of each instruction; 1 for a scalar space."""
    lane, rest, _, _ = _split(program)
    groups, per_lane = -(-lane // machine.vector.lanes), _lane_words(program, machine)
    return np.where(rest == 1, -(-groups // per_lane), groups * -(-rest // per_lane))


def vector_cycles(program: TileProgram, machine: Machine) -> I64:
    """Cycles of each instruction as a vector pass, by the formulas of the module's docstring."""
    alu, special = _operations(program, machine)
    count, chain = vectors(program, machine), _chain(program, machine)
    body = chain + _bottleneck(count, alu, special, machine) - _bottleneck(np.ones_like(count), alu, special, machine)
    return np.maximum(body, count) + _trees(program, machine) + _moved_over(program, machine)


def parts(program: TileProgram, machine: Machine) -> dict[str, I64]:
    """The cycles of each pass by activity; the activities add up to `vector_cycles`."""
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
    """Cycles of each instruction as a vector pass if all lanes were full and nothing had a latency."""
    alu, special = _operations(program, machine)
    full = program.extent.prod(1) / (machine.vector.lanes * _lane_words(program, machine))
    return full * _slots(alu, special, machine)


def estimate(points: float, operations: I64, wide: I64, element_bytes: int, machine: Machine) -> tuple[float, float]:
    """Estimates a pass before there is an instruction: its cycles with all lanes full, and those of its first vector.

    `operations` and `wide`, those on 64 bits, are each a row of counts by `OpClass`.
    """
    alu, special = words(operations[None], wide[None])
    vectors = points / machine.vector_elements(min(element_bytes, _WORD))
    return vectors * float(_slots(alu, special, machine)[0]), int(_latency(alu, special, machine)[0])


def best_lanes(program: TileProgram, machine: Machine) -> TileProgram:
    """Returns the program with the fastest lane dim for each vector pass, the outermost if several are equally fast."""
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
    """Operations of 32 bits for each row of `counts` by `OpClass`, of which `wide` are on 64 bits: (ALU, special)."""
    more = wide * (_WIDE - 1)
    more[:, OpClass.MOVE] = wide[:, OpClass.MOVE] * (_WIDE_MOVE - 1)
    return _by_kind(counts + more)


def operations(program: TileProgram) -> I64:
    """Operations of 32 bits of each instruction, the unit of peak rates. (N x 2: ALU, special)"""
    points, (alu, special) = program.extent.prod(1), _by_rate(program)
    return np.stack([points * alu, points * special], axis=1)


def _slots(alu: I64, special: I64, machine: Machine) -> npt.NDArray[np.float64]:
    """Cycles per vector of a long pass: ALU operations and special functions run side by side."""
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
    """Per instruction: the lane dim's extent; the product of the others; of the reduced others; if the lane is
    reduced."""
    dims = np.arange(MAX_RANK)
    is_lane: Mask = np.equal(dims[None, :], program.lane[:, None])
    reduced: Mask = np.not_equal((program.reduction[:, None] >> dims[None, :]) & 1, 0)
    lane = np.where(is_lane, program.extent, 1).prod(1)
    rest = np.where(is_lane, 1, program.extent).prod(1)
    reduced_rest = np.where(reduced & ~is_lane, program.extent, 1).prod(1)
    return lane, rest, reduced_rest, np.logical_or.reduce(reduced & is_lane, axis=1)


def _lane_elements(program: TileProgram, machine: Machine, at_most: int = np.iinfo(np.int64).max) -> I64:
    """Elements of a lane, by each instruction's widest numbers; numbers wider than `at_most` bytes count as
    `at_most`."""
    widened = np.where(_widened(program, machine) > 0, machine.vector.narrowest_float_bytes, 1)
    widest = np.maximum(np.minimum(_widest(program), at_most), widened)
    return np.maximum(1, machine.vector.bits_per_lane // (8 * widest))


def _lane_words(program: TileProgram, machine: Machine) -> I64:
    """Elements of a lane for operations of 32 bits; an operation on 64 bits counts as several of these."""
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
"""Bytes of the widest numbers on which an operation is a single one."""

_WIDE, _WIDE_MOVE = 4, 2
"""Operations of 32 bits for an operation on 64 bits, as for products of halves; and for moving such a number."""


def _operations(program: TileProgram, machine: Machine) -> tuple[I64, I64]:
    """Operations of 32 bits of each instruction per point: (ALU, widening and narrowing included; special)."""
    alu, special = _by_rate(program)
    return alu + _widened(program, machine) * machine.vector.conversion_operations, special


def _chain(program: TileProgram, machine: Machine) -> I64:
    """Cycles of the first vector's operations; of the four for an operation on 64 bits, two wait for the others."""
    counts = program.class_counts() + program.wide_counts()
    counts[:, OpClass.MOVE] = program.class_counts()[:, OpClass.MOVE]
    alu, special = _by_kind(counts[program.op])
    alu += _widened(program, machine) * machine.vector.conversion_operations
    return _latency(alu, special, machine)


def _by_rate(program: TileProgram) -> tuple[I64, I64]:
    """Operations of 32 bits of each instruction's body per point: (ALU, special)."""
    alu, special = words(program.class_counts(), program.wide_counts())
    return alu[program.op], special[program.op]


def _by_kind(counts: I64) -> tuple[I64, I64]:
    return counts[:, OpClass.ALU] + counts[:, OpClass.CONVERT] + counts[:, OpClass.MOVE], counts[:, OpClass.SPECIAL]


def _widened(program: TileProgram, machine: Machine) -> I64:
    """Number of operands of each instruction that the unit widens or narrows: all of two bytes.

    bf16, which takes fewer operations than f16, and integers of two bytes count like f16.
    """
    widened, halves = np.zeros(len(program), np.int64), program.element_bytes == _HALF
    if machine.vector.narrowest_float_bytes <= _HALF or not halves.any():
        return widened
    counts = program.class_counts()[program.op]
    computes = (counts.sum(1) > counts[:, OpClass.MOVE]) & (program.opcode == Opcode.VECTOR)
    owner = program.owners()
    np.add.at(widened, owner, halves & computes[owner])
    return widened


def _moved_over(program: TileProgram, machine: Machine, *, spread: bool = True) -> I64:
    """Cycles for operands that do not lie along the pass's lanes: turned and, if `spread`, also spread and stepped."""
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
    read = program.access == Access.READ  # `_trees` has the cycles of reductions across lanes
    step = _lane_step(program, across)
    stepped = read & (contiguous >= 0) & (contiguous == lane) & walked & (across > 1) & (step > 1) & (elements > 1)
    sources = np.minimum(step, machine.vector.lanes) * (machine.vector.lanes - 1).bit_length()
    cycles = np.where(elsewhere & walked, turned * machine.vector.transpose_cycles_per_vector, 0)
    cycles += np.where(elsewhere & ~walked & read, -(-elements // per_lane) * steps, 0) if spread else 0
    cycles += np.where(stepped, turned * sources * machine.vector.cross_lane_step_cycles, 0) if spread else 0
    np.add.at(out, owner, cycles)
    return out


def _lane_step(program: TileProgram, along: I64) -> I64:
    """For each operand in the scratchpad, the step from lane to lane along its lane dim; 1 if another dim lies
    closer."""
    most = np.iinfo(np.int64).max
    apart = np.where(program.shape > 1, np.abs(program.strides), most)
    closest = apart.min(1, initial=most)
    across = ((apart == closest[:, None]) & (program.shape == along[:, None])).any(1)
    known = across & (closest < most) & (program.space == Space.SCRATCHPAD)
    return np.where(known, np.maximum(closest, 1), 1)


def _layouts(program: TileProgram, owner: I64, place: I64) -> tuple[I64, I64]:
    """For each operand, the dims that walk it, as bits, and the dim along the lanes, -1 for none."""
    widest = int(place.max(initial=-1)) + 1
    known = np.full((2, len(program.ops), widest), -1, np.int64)
    for number, op in enumerate(program.ops):
        known[0, number, : len(op.walks)] = op.walks
        known[1, number, : len(op.contiguous)] = op.contiguous
    of = program.op[owner]
    return known[0, of, place], known[1, of, place]


def _log2(values: I64) -> I64:
    """Steps of a tree over `values` values: log2, rounded up, in exact integers."""
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
