"""Steps on the host between two launches: what they cost, and that the sums of a trace still hold."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from simulator import HostCall, Launched, load_machine, machine_names, simulate
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import stalls_of
from simulator.errors import InvariantViolation, LaunchError, ProgramError
from simulator.tileprogram.program import Opcode
from simulator.tileprogram.verifier import verify
from simulator.trace.trace import Trace
from tests.simulator.build import elementwise

MACHINE = load_machine("tpu-v3", launch_overhead_cycles=0)


def copying() -> Launched:
    """A kernel of six row blocks."""
    return Launched("k", elementwise(), (0, 65536))


def test_a_step_costs_two_latencies_its_bytes_and_its_operations():
    trace = simulate([HostCall("h", 16_000_000, 8_000_000, 50_000_000)], MACHINE)
    trace.invariants()
    microseconds = 2 * MACHINE.host.link_latency_us + 24_000_000 / 16e9 * 1e6 + 50_000_000 / 50e9 * 1e6
    assert trace.makespan == pytest.approx(microseconds * MACHINE.clock_mhz, abs=3)
    assert trace.columns()["bytes"] == [16_000_000, 0, 8_000_000]
    assert trace.columns()["unit"] == ["host"] * 3 and trace.columns()["kind"] == ["HOST"] * 3
    assert trace.columns()["cause"] == ["launch", "data", "data"]


def test_a_step_is_never_free():
    trace = simulate([HostCall("h", 0, 0, 0)], MACHINE)
    assert trace.makespan == 2 * math.ceil(MACHINE.host.link_latency_us * MACHINE.clock_mhz)


@pytest.mark.parametrize("name", machine_names())
def test_kernels_wait_for_the_step_between_them_and_everything_adds_up(name: str):
    machine = load_machine(name)
    alone = simulate([copying()], machine).makespan
    host = simulate([HostCall("h", 1024, 1024, 256)], machine).makespan
    trace = simulate([copying(), HostCall("h", 1024, 1024, 256, after=(0,)), copying()], machine)
    trace.invariants()
    assert trace.makespan == 2 * alone + host
    waterfall = dict(waterfall_of(trace))
    assert waterfall["host link"] + waterfall["host compute"] == host
    rows = {row["unit"]: row for row in stalls_of(trace)}
    assert rows["host"]["busy"] == host
    assert all(row["host"] == host for unit, row in rows.items() if unit != "host")
    assert trace.kernel_spans[1] == ("h", alone, alone + host)


def test_a_trace_without_such_steps_has_no_such_unit():
    trace = simulate([copying()], MACHINE)
    assert "host" not in trace.unit_names and "host" not in stalls_of(trace)[0]


def test_a_faster_link_than_the_machines_is_a_violation():
    trace = simulate([HostCall("h", 16_000_000, 8_000_000, 50_000_000)], MACHINE)
    quick = load_machine(
        "tpu-v3",
        launch_overhead_cycles=0,
        host_link_bytes_per_second=8_000_000_000,
        host_flops_per_second=1_000_000_000,
    )
    with pytest.raises(InvariantViolation, match=r"over the host link in .*less than") as caught:
        dataclasses.replace(trace, machine=quick).invariants()
    assert "operations on the host in" in str(caught.value)
    lost = dataclasses.replace(trace, bytes=np.zeros(3, np.int64))
    with pytest.raises(InvariantViolation, match=r"moves \[0, 0, 0\] bytes, asked were"):
        lost.invariants()


def test_a_trace_with_a_step_is_saved_and_loaded(tmp_path):
    trace = simulate([copying(), HostCall("h", 10, 20, 30)], MACHINE)
    trace.save(tmp_path / "trace.npz")
    loaded = Trace.load(tmp_path / "trace.npz")
    assert loaded.digest() == trace.digest() and waterfall_of(loaded) == waterfall_of(trace)


def test_a_step_cannot_wait_for_what_comes_later():
    with pytest.raises(LaunchError, match="waits for launch 3"):
        simulate([HostCall("h", 0, 0, 0, after=(3,))], MACHINE)


def test_the_opcode_is_none_of_a_program():
    program = copying().program
    opcode = program.opcode.copy()
    opcode[0] = Opcode.HOST
    with pytest.raises(ProgramError, match="is no instruction of a program"):
        verify(dataclasses.replace(program, opcode=opcode))
