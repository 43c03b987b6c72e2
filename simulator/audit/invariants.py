"""Checks the invariants of every trace, on any machine, from the programs and not from the engine's own tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np

from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK, waited
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import links_of, stalls_of
from simulator.audit import trace_columns
from simulator.audit.trace_columns import MOST
from simulator.machine.machine import Machine
from simulator.machine.optional.shape_table import of_core
from simulator.optional.feature import Audited
from simulator.optional.feature_table import FEATURES, second_memory
from simulator.optional.simulation import works_and_pages
from simulator.records.spans import CHANNEL_COUNTERS, CHANNEL_CYCLES, HostCall, Via
from simulator.tileprogram.barriers import meetings
from simulator.tileprogram.buffer_addresses import clashes
from simulator.tileprogram.conflicts import Conflict, conflicts
from simulator.tileprogram.hazards import Grade
from simulator.tileprogram.program import I64, Access, OpClass, Opcode, Space, TileProgram
from simulator.trace_record import TraceRecord
from simulator.units.gather import INDEXED
from simulator.units.systolic import passes
from simulator.units.unit import Mask


def violations(trace: TraceRecord) -> list[str]:
    """The violations of invariants in a trace; empty if all hold:

    - every instruction of every launch has one span, in its launch's time
    - a span starts when the last of its constraints was met, and its cause is that constraint
    - no unit holds two spans at once
    - conflicts, derived again from the operands' boxes, are kept as firmly as each needs (`hazards.Grade`)
    - a core's instructions after a barrier start when all instructions of any core before it are complete
    - buffers that are in use at once lie apart, and all lie inside their core's scratchpad
    - a span's waits are no longer than the span, and a channel's states account for all its time
    - spans move the bytes of their boxes, the memory moves whole requests that cover these, and the channels of a
      banked memory serve each request once
    - the interconnect's links carry these bytes, each once in and once out, and no link is busy for longer than the run
    - no launch is faster than its bytes at full bandwidth, or its products, its element operations and its direct
      accesses at peak rate
    - no loop is faster than its chains of operations between iterations
    - optional hardware keeps invariants of its own: `Feature.violations`
    - steps on the host take at least what their bytes need over the host link, and their operations on the host
    - per unit, busy and idle cycles add up to the makespan, and so does the waterfall
    - the part of waits for the memory that counts as `inefficient_transfers` lies between the wasted parts of the best
      and the worst transfer, and is zero if no transfer wastes bytes
    """
    trace.check_has_programs("which its invariants are about")
    found = [
        *trace_columns.of_spans(trace),
        *trace_columns.of_units(trace),
        *_sum_violations(trace),
        *islice(_request_violations(trace), MOST),
        *islice(_shared_violations(trace), MOST),
        *_channel_violations(trace),
        *_link_violations(trace),
    ]
    audited = Audited(trace, partial(works_and_pages, trace), links_of(trace), _queued_bytes(trace.machine))
    for each in FEATURES:
        found += islice(each.violations(audited), MOST)
    known: dict[int, list[Conflict]] = {}
    for index, (launched, rows) in enumerate(zip(trace.launches, trace.rows_by_launch, strict=True)):
        program = launched.program
        if id(program) not in known:
            known[id(program)] = conflicts(program)
            found += _capacity_violations(trace, program)
        if not np.count_nonzero(trace.launch == index) == rows.stop - rows.start == len(program):
            found.append(f"launch {index} has not one span per instruction")
            continue
        name = f"launch {index} ({launched.kernel})"
        if isinstance(launched, HostCall):
            found += [f"{name}: {line}" for line in _host_violations(trace, rows, launched)]
            continue
        for lines in (
            islice(_order_violations(trace, rows, known[id(program)]), MOST),
            _meeting_violations(trace, rows, program),
            _byte_violations(trace, rows, program),
            _roofline_violations(trace, index, program),
            _chain_violations(trace, rows, program),
        ):
            found += [f"{name}: {line}" for line in lines]
    return found


def _sum_violations(trace: TraceRecord) -> Iterator[str]:
    for row in stalls_of(trace):
        parts = sum(value for key, value in row.items() if isinstance(value, int) and key != "total")
        if parts != trace.makespan or row["total"] != trace.makespan:
            yield f"busy and idle cycles of {row['unit']} add up to {parts}, not to {trace.makespan}"
        if any(isinstance(value, int) and value < 0 for value in row.values()):
            yield f"{row['unit']} has a negative number of cycles in {row}"
    total = sum(cycles for _, cycles in waterfall_of(trace))
    if total != trace.makespan:
        yield f"the waterfall adds up to {total}, not to {trace.makespan}"


def _request_violations(trace: TraceRecord) -> Iterator[str]:
    """Checks that DRAM moves whole requests, at least an instruction's bytes, and none for other instructions."""
    size, moves = trace.machine.dram.request_bytes, (trace.via == Via.DRAM) & (trace.kind != Opcode.HOST)
    wrong = (trace.requested % size != 0) | (trace.requested < trace.bytes * moves) | ((trace.requested > 0) & ~moves)
    for index in np.flatnonzero(wrong).tolist():
        yield f"for the {trace.bytes[index]} bytes of span {index} the memory moves {trace.requested[index]}"
    if trace.requested.sum() != trace.counters["dram_request_bytes"]:
        yield f"spans have {trace.requested.sum()} bytes moved, all in all {trace.counters['dram_request_bytes']} are"


def _shared_violations(trace: TraceRecord) -> Iterator[str]:
    found, moved = waited(trace), trace.requested > 0
    in_vain = 1 - trace.bytes[moved] / trace.requested[moved]
    least, most = in_vain.min(initial=1), in_vain.max(initial=0)
    for whole, wasted in ((found.before, found.wasted_before), (found.within, found.wasted_within)):
        wrong = (wasted < np.rint(least * whole) - 1) | (wasted > np.rint(most * whole) + (most > 0))
        for index in np.flatnonzero(wrong).tolist():
            yield (
                f"span {index} waits {whole[index]} cycles for the memory, {wasted[index]} of them in vain; of what "
                f"transfers move it is {least:.0%} to {most:.0%}"
            )
    rows = stalls_of(trace)
    for unit, cycles in enumerate(np.bincount(trace.unit, found.before + found.within, len(rows)).astype(int).tolist()):
        told = int(rows[unit][MEMORY_PEAK]) + int(rows[unit][INEFFICIENT])
        if told != cycles:
            yield f"{rows[unit]['unit']} waits {cycles} cycles for the memory while it serves others, told are {told}"


def _channel_violations(trace: TraceRecord) -> Iterator[str]:
    if trace.machine.dram.kind != "banked":
        return
    size = trace.machine.dram.request_bytes
    count = dict(zip(CHANNEL_COUNTERS, trace.channels.sum(0).tolist(), strict=True))
    served, asked = count["reads"] + count["writes"], trace.counters["dram_request_bytes"] // size
    if served != asked:
        yield f"the channels served {served} requests, asked were {asked}"
    for channel, cycles in enumerate(trace.channel_cycles.tolist()):
        if sum(cycles[:-1]) != trace.makespan or min(cycles) < 0 or cycles[-1] > trace.makespan:
            told = dict(zip(CHANNEL_CYCLES, cycles, strict=True))
            yield f"channel {channel} accounts for {told} of {trace.makespan} cycles"
    found = count["row_hits"] + count["row_misses"] + count["row_conflicts"]
    for number, what in ((found, "came to a bank"), (int(trace.channel_bytes.sum()) // size, "moved data")):
        if number + count["forwarded"] != served:
            yield f"of {served} requests {number} {what} and {count['forwarded']} were answered from the write queue"


def _link_violations(trace: TraceRecord) -> Iterator[str]:
    """Checks that all bytes enter and leave the interconnect once, and no link is held longer than the makespan."""
    asked, entered, left = trace.counters["dram_request_bytes"], 0, 0
    for row in links_of(trace):
        entered += int(row["bytes"]) if _is_end(str(row["from"])) else 0
        left += int(row["bytes"]) if _is_end(str(row["to"])) else 0
        if int(row["cycles"]) > trace.makespan:
            yield f"the link from {row['from']} to {row['to']} is held for {row['cycles']} of {trace.makespan} cycles"
    if trace.machine.network.kind != "simple" and not entered == left == asked:
        yield f"{asked} bytes were asked for, {entered} entered the interconnect and {left} left it"


def _is_end(place: str) -> bool:
    return place.rpartition(".")[2].startswith(("port", "dma", "channel"))


def _order_violations(trace: TraceRecord, rows: slice, found: list[Conflict]) -> Iterator[str]:
    start, end, done, unit = trace.start[rows], trace.end[rows], trace.done[rows], trace.unit[rows]
    for conflict in found:
        earlier, later = conflict.earlier, conflict.later
        kept = start[later] >= done[earlier]
        if conflict.grade == Grade.RELEASE:
            kept = start[later] >= end[earlier]
        elif conflict.grade == Grade.FOLLOW:
            kept |= unit[later] == unit[earlier] and start[later] >= end[earlier]
        if not kept:
            yield (
                f"instruction {later} starts at {start[later]}, before instruction {earlier} is complete at "
                f"{done[earlier]}: both touch {conflict.where}"
            )


def _meeting_violations(trace: TraceRecord, rows: slice, program: TileProgram) -> Iterator[str]:
    """Checks each BARRIER against its core's instructions before and after it, which the program gives."""
    start, end, done = trace.start[rows], trace.end[rows], trace.done[rows]
    for meeting in meetings(program):
        before = [np.flatnonzero(program.core[:row] == program.core[row]) for row in meeting]
        arrived = max(int(done[each].max(initial=0)) for each in before)
        for row in meeting:
            if start[row] < arrived:
                yield f"the barrier {row} starts at {start[row]}, what lies before it is complete at {arrived}"
            after = row + 1 + np.flatnonzero(program.core[row + 1 :] == program.core[row])
            if len(after) and start[after].min() < end[row]:
                first = after[start[after].argmin()]
                yield f"instruction {first} starts before the barrier {row} before it is over, at {end[row]}"


def _capacity_violations(trace: TraceRecord, program: TileProgram) -> Iterator[str]:
    capacity = trace.machine.scratchpad_bytes
    for low, high in clashes(program):
        yield f"buffer {high.name!r} of {program.kernel!r} lies on {low.name!r}, which is in use with it"
    for buffer in program.buffers:
        end = buffer.offset + buffer.bytes
        if end > capacity:
            yield f"buffer {buffer.name!r} of {program.kernel!r} ends at {end}, the scratchpad at {capacity}"


def _byte_violations(trace: TraceRecord, rows: slice, program: TileProgram) -> Iterator[str]:
    moved, via = trace.bytes[rows], trace.via[rows]
    for index in range(len(program)):
        row = program.instruction(index)
        asked = 0
        if row.opcode in (Opcode.LOAD, Opcode.STORE, Opcode.COPY):
            asked = math.prod(row.operands[0].shape) * row.operands[0].element_bytes
        elif row.opcode == Opcode.DIRECT:
            asked = sum(o.shape[0] * o.element_bytes for o in row.operands if o.space == Space.DRAM)
        elif row.opcode in (Opcode.GATHER, Opcode.SCATTER):
            memory = row.operands[-1]
            ways = 2 if memory.access == Access.READ_WRITE else 1
            asked = math.prod(row.extent) * memory.element_bytes * ways
        asked = 0 if via[index] == Via.SKIPPED else asked
        if moved[index] != asked:
            yield f"instruction {index} moves {moved[index]} bytes, its box has {asked}"


def _host_violations(trace: TraceRecord, rows: slice, call: HostCall) -> Iterator[str]:
    """Checks that the host link carries all bytes of a step, no faster than its latency and bandwidth allow."""
    machine, seconds = trace.machine, (trace.end - trace.start)[rows] / (1e6 * trace.machine.clock_mhz)
    if trace.bytes[rows].tolist() != [call.bytes_in, 0, call.bytes_out]:
        yield f"moves {trace.bytes[rows].tolist()} bytes, asked were {call.bytes_in} and {call.bytes_out}"
    for way, size in ((0, call.bytes_in), (2, call.bytes_out)):
        least = machine.host.link_latency_us / 1e6 + size / machine.host.link_bytes_per_second
        if seconds[way] < least * (1 - 1e-9):
            yield f"moves {size} bytes over the host link in {seconds[way]} s, less than the {least} it needs"
    if seconds[1] < call.flops / machine.host.flops_per_second * (1 - 1e-9):
        yield f"computes {call.flops} operations on the host in {seconds[1]} s"


def _roofline_violations(trace: TraceRecord, index: int, program: TileProgram) -> Iterator[str]:
    machine = trace.machine
    _, begin, end = trace.kernel_spans[index]
    in_dram = np.isin(program.opcode, [Opcode.LOAD, Opcode.STORE, Opcode.DIRECT, *INDEXED])
    rows = trace.rows_of(index)
    size, via = trace.bytes[rows], trace.via[rows]
    second, beside = via == Via.SECOND, second_memory(machine)
    moved = int(size[in_dram & ~second].sum()) - _queued_bytes(machine)
    products = (program.opcode == Opcode.MATMUL) & (via != Via.SKIPPED)
    macs = program.extent.prod(1) * passes(program, machine) * products
    rate = machine.bus_bytes_per_cycle if machine.dram.kind == "simple" else machine.dram_bytes_per_cycle
    floors = [("bandwidth", Fraction(moved) / rate)]
    if second.any():
        floors.append((beside.name, int(size[second].sum()) / beside.bytes_per_cycle))
    for core in np.unique(program.core).tolist():
        mine = program.core == core
        own, ratio = of_core(machine, core)
        floors += [
            (f"products on core {core}", Fraction(int(macs[mine].sum()), own.macs_per_cycle) / ratio),
            (f"element operations on core {core}", _vector_floor(own, program, mine) / ratio),
            (f"direct accesses on core {core}", _scalar_floor(own, program, mine) / max(ratio, 1)),
        ]
    for name, least in floors:
        if end - begin < least:
            yield f"takes {end - begin} cycles, less than the {float(least):.1f} its {name} need"


def _chain_violations(trace: TraceRecord, rows: slice, program: TileProgram) -> Iterator[str]:
    """Checks that a loop takes at least the operations of one iteration, and of each chain, one after the other.

    Code outside a loop is a single iteration.
    """
    computing = [op for op, info in enumerate(program.ops) if info.carried or any(info.class_counts)]
    for index in np.flatnonzero((program.opcode == Opcode.DIRECT) & np.isin(program.op, computing)).tolist():
        own, ratio = of_core(trace.machine, int(program.core[index]))
        taken, info = int(trace.end[rows][index] - trace.start[rows][index]), program.ops[int(program.op[index])]
        if taken < (least := _latency(info.class_counts, own) / ratio):
            yield f"instruction {index} takes {taken} cycles, one of its iterations needs {float(least):.1f}"
        for chain in info.carried:
            least = int(program.extent[index, 0]) // chain.iterations * _latency(chain.class_counts, own) / ratio
            if taken < least:
                yield f"instruction {index} takes {taken} cycles, a chain of its iterations needs {float(least):.1f}"


def _latency(counts: Sequence[int], own: Machine) -> int:
    """Cycles of operations, counted by `OpClass`, one after the other."""
    return sum(
        count * (own.vector.special_latency_cycles if kind == OpClass.SPECIAL else own.vector.alu_latency_cycles)
        for kind, count in enumerate(counts)
        if kind != OpClass.MOVE
    )


def _queued_bytes(machine: Machine) -> int:
    """The most bytes in flight at the end of a launch: a banked memory counts a write as done once it is queued."""
    if machine.dram.kind == "simple":
        return 0
    return machine.dram.channels * machine.banked_memory().queue_entries * machine.dram.request_bytes


def _vector_floor(machine: Machine, program: TileProgram, mine: Mask) -> Fraction:
    """The least cycles of the vector unit: all lanes full, all ALUs busy, no waits."""
    counts = program.class_counts()
    alu, special = Fraction(0), Fraction(0)
    for index in np.flatnonzero(mine & (program.opcode == Opcode.VECTOR)).tolist():
        operands = slice(int(program.operand_start[index]), int(program.operand_start[index + 1]))
        widest = int(program.element_bytes[operands].max(initial=1))
        vectors = Fraction(int(program.extent[index].prod()), machine.vector_elements(min(widest, 4)))
        body: I64 = counts[program.op[index]]
        alu += vectors * int(body[OpClass.ALU] + body[OpClass.CONVERT] + body[OpClass.MOVE]) / machine.vector.alus
        intervals = max(vectors - 1, Fraction(0))  # the last vector of a pass needs no interval after it
        special += intervals * int(body[OpClass.SPECIAL]) * machine.vector.special_interval_cycles
    return max(alu, special)


def _scalar_floor(machine: Machine, program: TileProgram, mine: Mask) -> Fraction:
    """The least cycles of the scalar unit: to send its accesses, and to get the answers at the largest overlap."""
    sent, unanswered = 0, 0
    for index in np.flatnonzero(mine & (program.opcode == Opcode.DIRECT)).tolist():
        for operand in program.instruction(index).operands:
            far = operand.space == Space.DRAM
            sent += operand.shape[0]
            unanswered += operand.shape[0] * (machine.dram_latency_cycles if far else machine.scratchpad.latency_cycles)
    return max(Fraction(sent, machine.scalar.accesses_per_cycle), Fraction(unanswered, machine.scalar.outstanding))
