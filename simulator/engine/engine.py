"""The engine: runs programs on a machine and makes a trace, in integer cycles, jumping from event to event.

Launches run one after another: each begins with an empty scratchpad when the one before has ended. event_loop.py runs a
single launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.event_loop import Hardware, run
from simulator.engine.repeated_launches import Repeats
from simulator.engine.state import Parts, figures_of, kinds_of
from simulator.engine.watch import Progress, Watch
from simulator.errors import LaunchError, ProgramError
from simulator.machine.machine import Machine
from simulator.memory import dram, network, several_buses
from simulator.memory.bus import idle_bus
from simulator.optional.feature_table import check_asked, second_memory
from simulator.optional.simulation import Simulation
from simulator.records.spans import CAUSES, HOST_STEPS, WAITS, Cause, HostCall, Launched, SpanTable
from simulator.tileprogram.buffer_addresses import check_fit
from simulator.tileprogram.program import I32, I64, TileProgram
from simulator.tileprogram.verifier import LARGEST, verify_tables
from simulator.trace.trace import Ran, Trace, assemble
from simulator.units.cost_table import TracedWork, work
from simulator.units.host import round_trip
from simulator.units.unit_table import unit_names

if TYPE_CHECKING:  # these folders may have been removed
    from simulator.optional.chiplets.placed import Placed
    from simulator.optional.common_memory.residents import Resident


def simulate(
    launches: Sequence[Launched | HostCall],
    machine: Machine,
    *,
    seconds: float | None = None,
    repeats: bool = True,
    progress: Progress | None = None,
    residents: Sequence[Resident] = (),
    placed: Sequence[Placed] = (),
) -> Trace:
    """Runs the launches, and the steps on the host between them, one after another on the machine.

    `seconds` limits the time of the simulation; it calls `progress` with the instructions started so far, and all. With
    `repeats`, a launch that must repeat an earlier one is not simulated again (see repeated_launches.py); the trace is
    the same. `residents` are the tensors kept in the common memory; `placed` says, on a machine of several chiplets, in
    which chiplet's memory the pages of tensors lie.

    Raises `DoesNotFit` for a program with more buffers than scratchpad, `CommonMemoryFull` for more residents than the
    common memory holds, `NoSuchPlace` for a chiplet that the machine lacks, `NotYetSupported` for a feature that this
    version cannot simulate, `ProgramError` or `LaunchError` for an invalid program or launch, `SimulationStopped` at
    the time limit.
    """
    asked = {"residents": tuple(residents), "placed": tuple(placed)}
    beside = second_memory(machine)
    parts = Parts(
        figures_of(machine),
        kinds_of(machine),
        dram.figures_of(machine),
        dram.idle_state(),
        idle_bus(machine.dram_latency_cycles, machine.bus_bytes_per_cycle),
        idle_bus(beside.latency_cycles, beside.bytes_per_cycle),
    )
    banked = dram.banked(machine)
    net, lines = network.network(machine), several_buses.buses(machine)
    ran, begins = list[Ran](), list[int]()
    checked = set[int]()
    watch = Watch(seconds, progress, len(launches), sum(len(each.program) for each in launches))
    check_asked(asked, machine, len(launches))
    repeated, optional = Repeats(machine, repeats), Simulation(machine, asked)
    now = 0
    for index, launched in enumerate(launches):
        watch.launch, watch.kernel = index, launched.kernel
        watch.look(0, now)
        _check_order(index, launched)
        if isinstance(launched, HostCall):
            begins.append(now)
            traced, rows, times = _run_on_host(launched, machine, len(unit_names(machine)), now)
            found = Ran(traced, rows, times, _no_waits(len(times), machine))
        else:
            if id(launched.program) not in checked:
                _check_program(launched.program, machine)
                checked.add(id(launched.program))
            _check_launch(index, launched)
            now += machine.core.launch_overhead_cycles
            begins.append(now)
            spared = optional.spared(index, launched)
            found = repeated.find(launched, spared, now)
            if found is None:
                whole = optional.work(index, launched, spared)
                banked = banked and dram.launched(banked, machine, whole, optional.pages())
                net = net and network.launched(net, machine, whole)
                lines = lines and several_buses.launched(lines, whole)
                traced, within = whole.traced(), _no_waits(len(launched.program), machine)
                whole = whole.to_run()
                hardware = Hardware(parts, banked, net, lines)
                rows, times = run(launched.program, whole, hardware, within, now, watch)
                found = Ran(traced, rows, times, within)
                del whole  # it is as large as its program
                repeated.keep(launched, spared, now, found)
        now = max(now, int(found.spans.done.max(initial=0)))
        watch.before += len(found.met)
        ran.append(found)
    channels, links = dram.statistics(parts.memory, banked, now), net.carried if net else np.zeros(0, np.int64)
    return assemble(launches, machine, ran, begins, channels, links, asked)


def _run_on_host(call: HostCall, machine: Machine, unit: int, begin: int) -> tuple[TracedWork, SpanTable, I64]:
    """Runs a host call on unit `unit` from cycle `begin`; returns its work, its spans, when constraints were met."""
    done = replace(work(call.program, (), machine), moved=np.array([call.bytes_in, 0, call.bytes_out], np.int64))
    spans, met = SpanTable.of(HOST_STEPS), np.full((HOST_STEPS, CAUSES), -1, np.int64)
    spans.unit[:], spans.issue[:], spans.issue_cause[:] = unit, begin, Cause.LAUNCH
    met[:, Cause.LAUNCH] = begin
    now = begin
    for step, taken in enumerate(round_trip(call.bytes_in, call.flops, call.bytes_out, machine)):
        spans.start[step] = now
        if step:
            met[step, Cause.UNIT_BUSY] = met[step, Cause.DATA] = now
            spans.blocker[step] = step - 1
        spans.cause[step] = Cause.DATA if step else Cause.LAUNCH
        now += taken
        spans.phase[step] = spans.end[step] = spans.done[step] = now
    return done.traced(), spans, met


def _no_waits(rows: int, machine: Machine) -> I32:
    """Zeros for the waits of each instruction while it holds its unit; no rows if the machine has no such waits.

    32 bits are enough: a longer wait would take hours to simulate in banked memory, and with a simple one the rest
    counts as busy.
    """
    told = machine.dram.kind == "banked" or machine.has_links
    return np.zeros((rows if told else 0, WAITS), np.int32)


def _check_program(program: TileProgram, machine: Machine) -> None:
    verify_tables(program)
    check_fit(program, machine.scratchpad_bytes)
    if program.core.max(initial=0) >= machine.core.count:
        where = f"{machine.name!r} has {machine.core.count}"
        raise ProgramError(program.kernel, [f"instructions of core {program.core.max()}: {where}"])


def _check_launch(index: int, launched: Launched) -> None:
    given, expected = len(launched.addresses), len(launched.program.arguments)
    if given != expected:
        raise LaunchError(f"launch {index} of {launched.kernel!r} gives {given} addresses for {expected} arguments")
    for address in launched.addresses:
        if not 0 <= address <= LARGEST:
            raise LaunchError(
                f"launch {index} of {launched.kernel!r} has an argument at {address}: no address of a memory"
            )


def _check_order(index: int, launched: Launched | HostCall) -> None:
    late = [other for other in launched.after if not 0 <= other < index]
    if late:
        raise LaunchError(f"launch {index} of {launched.kernel!r} waits for launch {late[0]}, which is not before it")
