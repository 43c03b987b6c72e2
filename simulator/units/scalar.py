"""The scalar unit: the cost of a loop of unstaged accesses.

A DIRECT instruction is an innermost loop of n iterations that reads and writes single elements where they lie, in DRAM
or in the scratchpad, and computes on them one at a time. Every load or store of its body is one operand: a first
element, a count and a stride. The unit sends its accesses in order, `accesses per cycle` of them in a cycle, as long as
fewer than `outstanding` are unanswered. Loads of later iterations pass stores that wait for their data (access and
execution are decoupled), so iterations overlap unless one reads an element that an earlier one wrote. Addresses are
computed beside the data and cost nothing. All figures of the unit are assumed, and so are its omissions: it has no
cache and no buffer for recently read or written data, so every access to DRAM is a request of its own, of which all but
one element is thrown away, and every write is a request too. This makes unstaged access slow; there is no extra factor.

With T accesses in all, `latency` that of the place accessed (of the memory, or of the scratchpad), and per iteration
a ALU operations (arithmetic, comparison, conversion; moving a value is the accesses themselves) and s special ones:

    work(n)     max(ceil(T / accesses per cycle), n * a, n * s * interval)      everything answered at once
    pace(n)     max(work(n), ceil(sum of latencies over all accesses / outstanding))
    chain       longest load + a * ALU latency + s * special latency + longest store: one iteration, start to end
    loop        the longest of  work(n) + longest latency
                                max(chain, pace(1)) + pace(n) - pace(1)
                                ceil(n / d) * max(chain, pace(1))       if iteration i + d reads what i wrote
                                max(chain, pace(1)) + ceil(n / d) * carried - first  for each chain between iterations
                and not over before the last of its requests has been on the bus and been answered (see memory/dram.py)

A value that an iteration hands to a later one (`OpInfo.carried`) is a chain through all iterations: `carried` is the
latency of its operations, a ALU and s special ones; d is the number of iterations after which the value is back;
`first` is the part of the latency in the first iteration: all of it, but no more than the iteration computes. Loads,
stores and other computations run beside the chain.

Arithmetic outside of innermost loops is an instruction of one iteration without an access.

The requests of a loop are granted the bus as one transfer, like those of a copy. One core's scalar unit is one
in-order unit: a loop starts when the loop before it has ended, its last access answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64, Access, OpClass, Opcode, Space, TileProgram
from simulator.units.unit import MEETS, Costs, Does, Part, Unit, computed


def _costs(part: Part) -> Costs:
    """The costs of loops of accesses by the module's closed forms, and of BARRIERs: the latency between the cores.

    `Part.ratio` is the ratio of the core's clock: answers come by the machine's clock, chains run by the core's.
    """
    program, addresses, machine, rows = part.program, part.addresses, part.machine, len(part.program)
    meets = program.opcode == Opcode.BARRIER
    across = meets * (machine.network.latency_cycles + machine.across_cycles)
    if not np.any(program.opcode == Opcode.DIRECT):
        return Costs(across, mark=MEETS * meets)
    owner, here = _operands(program)
    count, size = program.shape[here].prod(1), program.element_bytes[here].astype(np.int64)
    in_dram, writes = program.space[here] == Space.DRAM, (program.access[here] & Access.WRITE) != 0
    base = np.array([*addresses, 0], np.int64)[np.where(in_dram, program.target[here], -1)]
    address = base + program.offset[here] * size
    request = machine.dram.request_bytes
    touched = (address % request + size + request - 1) // request * request
    work, waiting = _cycles(part, owner, here)
    return Costs(
        work + across,
        waiting=waiting,
        mark=MEETS * meets,
        moved=_sums(rows, owner, np.where(in_dram, count * size, 0)),
        read=_sums(rows, owner, np.where(in_dram & ~writes, count * size, 0)),
        written=_sums(rows, owner, np.where(in_dram & writes, count * size, 0)),
        requested=_sums(rows, owner, np.where(in_dram, count * touched, 0)),  # each access moves whole requests
    )


def operations(program: TileProgram) -> I64:
    """Operations on data of each DIRECT instruction. (N x 2: ALU, special)"""
    counts = program.class_counts()[program.op]
    points = np.where(program.opcode == Opcode.DIRECT, program.extent.prod(1), 0)
    alu = counts[:, OpClass.ALU] + counts[:, OpClass.CONVERT]
    return np.stack([points * alu, points * counts[:, OpClass.SPECIAL]], axis=1)


def _cycles(part: Part, owner: I64, here: I64) -> tuple[I64, I64]:
    """Cycles of each instruction if every access were answered at once; and its further cycles, for answers and for
    results of earlier iterations."""
    program, machine, ratio, rows = part.program, part.machine, part.ratio, len(part.program)
    count, writes = program.shape[here].prod(1), (program.access[here] & Access.WRITE) != 0
    in_dram = program.space[here] == Space.DRAM
    latency = np.where(in_dram, machine.dram_latency_cycles, machine.scratchpad.latency_cycles).astype(np.int64)
    loads, stores = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    np.maximum.at(loads, owner[~writes], latency[~writes])
    np.maximum.at(stores, owner[writes], latency[writes])
    points = np.where(program.opcode == Opcode.DIRECT, program.extent.prod(1), 0)
    total = operations(program)
    each = total // np.maximum(points, 1)[:, None]
    chain = loads + each @ (machine.vector.alu_latency_cycles, machine.vector.special_latency_cycles) + stores

    def work(accesses: I64, done: I64) -> I64:
        sent = -(-accesses // machine.scalar.accesses_per_cycle)
        return np.maximum(sent, np.maximum(done[:, 0], done[:, 1] * machine.vector.special_interval_cycles))

    def held(cycles: I64) -> I64:
        return -(-cycles // machine.scalar.outstanding)

    ones = np.ones_like(count)
    busy, one = work(_sums(rows, owner, count), total), work(_sums(rows, owner, ones), each)
    pace = np.maximum(busy, held(_sums(rows, owner, count * latency)))
    pace_of_one = np.maximum(one, held(_sums(rows, owner, latency)))
    alone, distance = np.maximum(chain, pace_of_one), _distance(program, owner, here)
    in_turn = np.where(distance > 0, -(-points // np.maximum(distance, 1)) * alone, 0)
    whole = np.maximum(busy + np.maximum(loads, stores), np.maximum(alone + pace - pace_of_one, in_turn))
    own_busy = -(-busy * ratio.denominator // ratio.numerator)
    return busy, np.maximum(whole - busy, alone + _handed_on(program, machine, ratio) - own_busy)


def _handed_on(program: TileProgram, machine: Machine, ratio: Fraction) -> I64:
    """Cycles of the longest chain between iterations, without the part of the chain in the first iteration."""
    longest = np.zeros(len(program), np.int64)
    for number, op in enumerate(program.ops):
        here = np.flatnonzero((program.op == number) & (program.opcode == Opcode.DIRECT)) if op.carried else ()
        for chain in op.carried if len(here) else ():
            latency = _latency(chain.class_counts, machine)
            first = min(latency, _latency(op.class_counts, machine))
            turns = -(-program.extent[here, 0] // chain.iterations)
            all_turns = -(-turns * latency * ratio.denominator // ratio.numerator)
            longest[here] = np.maximum(longest[here], all_turns - first)
    return longest


def _latency(counts: Sequence[int], machine: Machine) -> int:
    """The latency of a chain of operations, counted by `OpClass`: each operation waits for the one before."""
    plain = counts[OpClass.ALU] + counts[OpClass.CONVERT]
    return plain * machine.vector.alu_latency_cycles + counts[OpClass.SPECIAL] * machine.vector.special_latency_cycles


def _distance(program: TileProgram, owner: I64, here: I64) -> I64:
    """The least number of iterations after which a loop reads an element that it wrote; 0 if it never does.

    A write and a read of the same stride are compared exactly, others by their first and last byte.
    """
    nearest = np.full(len(program), np.iinfo(np.int64).max)
    most = int(np.diff(program.operand_start).max(initial=0))
    for apart in range(1, most):
        for one, other in ((here[:-apart], here[apart:]), (here[apart:], here[:-apart])):
            together = owner[:-apart] == owner[apart:]
            together &= (program.access[one] & Access.WRITE != 0) & (program.access[other] & Access.READ != 0)
            for column in (program.space, program.target, program.slot):
                together &= column[one] == column[other]
            pairs = np.flatnonzero(together)
            steps = _steps(program, one[pairs], other[pairs])
            np.minimum.at(nearest, owner[:-apart][pairs][steps > 0], steps[steps > 0])
    return np.where(nearest == np.iinfo(np.int64).max, 0, nearest)


def _steps(program: TileProgram, write: I64, read: I64) -> I64:
    """Iterations from each write to the read of the same element, 0 where no read comes later."""
    size, stride = program.element_bytes.astype(np.int64), program.strides[:, 0] * program.element_bytes
    start, reach = program.offset * size, stride * (program.shape[:, 0] - 1)
    low, high = start + np.minimum(reach, 0), start + np.maximum(reach, 0) + size
    meet = (low[write] < high[read]) & (low[read] < high[write])
    alike = (stride[write] == stride[read]) & (stride[write] != 0) & (size[write] == size[read])
    apart = start[write] - start[read]
    step = np.where(alike, stride[write], 1)
    later = np.where(apart % step == 0, np.maximum(apart // step, 0), 0)
    return np.where(meet, np.where(alike, later, 1), 0)


def _operands(program: TileProgram) -> tuple[I64, I64]:
    """The operands of DIRECT instructions: the instruction of each operand, and the operand's number."""
    owner = program.owners()
    here = np.flatnonzero(program.opcode[owner] == Opcode.DIRECT)
    return owner[here], here


def _sums(rows: int, owner: I64, values: I64) -> I64:
    out = np.zeros(rows, np.int64)
    np.add.at(out, owner, values)
    return out


UNIT = Unit(
    name="scalar",
    lane="scalar",
    does={
        Opcode.DIRECT: Does("scalar", "compute", ("accesses", "latency"), "scalar_latency"),
        Opcode.BARRIER: Does("barrier", "barrier"),
    },
    costs=_costs,
    asks_memory=True,
    counts=lambda program, machine, done: computed(operations(program)),
    energy={"alu": "vector_op_pj", "special": "special_op_pj"},
)
