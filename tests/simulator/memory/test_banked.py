"""The engine on banked memory: transfers become their requests, and compete for channels and banks."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simulator import Launched, Machine, Trace, load_machine, simulate
from simulator.analysis.stalls import bandwidth_of, channels_of
from simulator.errors import InvariantViolation, MachineError
from simulator.memory.banked.address_map import address_map
from simulator.memory.banked.channels import idle_channels
from simulator.memory.banked.controller import drain
from simulator.memory.banked.fields import Source
from simulator.memory.banked.requests import request_counts, requests_of
from simulator.memory.dram import ask
from simulator.tileprogram.program import I64, Access, Opcode, Operand, TileProgram
from simulator.units.cost_table import work
from tests.fresh_process import python
from tests.simulator import build
from tests.simulator.build import Made, direct_copy, elements, elementwise, matmul_chain
from tests.simulator.engine.test_engine import loads
from tests.simulator.units.test_gather import IDS, rows

EDGE, TPU = (load_machine(name, memory="banked") for name in ("edge-8x8", "tpu-v3"))


def run(program: TileProgram, machine: Machine = EDGE, *, apart: int = 1 << 16) -> Trace:
    return build.run(program, machine, apart=apart)


def by_itself(machine: Machine, asked: list[I64], begins: list[int]) -> list[int]:
    """When the last of each source's requests is done, all given to idle channels at once. In the machine's cycles."""
    bits = address_map(machine.banked_memory(), machine.dram.channels)
    most = max(map(len, asked))
    channels = idle_channels(machine.banked_memory(), machine.dram.channels, len(asked), most)
    ratio = machine.dram_clock_ratio
    for source, (requests, begin) in enumerate(zip(asked, begins, strict=True)):
        ask(channels, bits, source, -(-begin * ratio // 1), requests)
    drain(channels)
    return [-int(-done / ratio // 1) for done in channels.sources[:, Source.DONE].tolist()]


@pytest.mark.parametrize("machine", [EDGE, TPU], ids=lambda machine: machine.name)
def test_transfers_of_all_queues_end_as_their_requests_do_side_by_side(machine: Machine) -> None:
    """However the engine cuts time into stretches, the channels see what they see when nothing is cut."""
    machine = machine.with_(launch_overhead_cycles=0)
    trace = run(loads(machine.dma.queues, elements=3000), machine)
    size = machine.dram.request_bytes
    asked = [np.arange(at * 12000 // size, -(-(at + 1) * 12000 // size), dtype=np.int64) * size for at in range(8)]
    begins = [start + machine.way_to_banks_cycles for start in trace.start.tolist()]
    assert trace.start.tolist() == list(range(8))
    assert trace.end.tolist() == by_itself(machine, asked, begins)


def test_a_transfer_is_done_before_those_behind_it() -> None:
    """Requests stand in line: the first of eight loads takes as long as it does by itself."""
    alone, together = (run(loads(count, elements=3000), TPU) for count in (1, 8))
    assert together.start.tolist() == [together.start[0] + place for place in range(8)]
    assert together.end[0] - together.start[0] == alone.makespan - alone.start[0]
    assert np.all(np.diff(together.end) > 0)


def test_cores_take_turns_at_a_channel() -> None:
    """Two sources with a port each are done together; with one port the first is done in half of the time."""
    memory = TPU.banked_memory()
    asked = [np.arange(4096, dtype=np.int64) * 32 + (base << 24) for base in (0, 1)]
    apart, line = (idle_channels(memory, 16, 2, 4096, ports=ports) for ports in (2, 1))
    for channels in (apart, line):
        for source, requests in enumerate(asked):
            ask(channels, address_map(memory, 16), source, 0, requests)
        drain(channels)
    first, last = line.sources[:, Source.DONE].tolist()
    assert 1.8 * first < last < 2.2 * first
    assert min(apart.sources[:, Source.DONE].tolist()) > 0.9 * last


def test_a_queue_takes_its_time_even_if_the_memory_is_faster() -> None:
    machine = load_machine("edge-8x8", memory="banked", dma_bytes_per_cycle=1)
    assert run(loads(1, elements=1000), machine).makespan == 4000 + machine.way_to_banks_cycles


def test_one_bank_is_slower_than_two() -> None:
    """Rows of one bank take turns; rows of two are open side by side."""
    bank, row = 1 << 15, 1 << 17  # RoBaCoBgRaCh: 64-byte requests, 4 groups, 128 columns, 4 banks

    def two(apart: int) -> int:
        made = Made()
        made.argument("x", (1 << 20,))
        made.buffer("t", 16, 8)
        for slot in range(8):
            made.load(made.dram("x", (16,), slot % 2 * apart // 4 + slot * 64), made.pad("t", (16,), slot))
        plain = load_machine("edge-8x8", memory="banked", dma_queues=1, dram_hash="none")
        return run(made.build(), plain).makespan

    change = (22 + 22) // 2  # PRE to ACT to RD, in the machine's cycles
    assert two(row) >= two(bank) + 6 * change


def test_more_channels_move_more() -> None:
    """The same bytes a second, in 16 channels or in one: only what is spread moves as fast."""
    machine = TPU.with_(launch_overhead_cycles=0)
    wide = run(loads(8, elements=4096), machine)
    assert {row["bytes"] for row in channels_of(wide)} == {8 * 4096 * 4 // 16}
    narrow = machine.with_(dram_channels=1, dram_bytes_per_second=machine.dram.bytes_per_second // 16)
    assert run(loads(8, elements=4096), narrow).makespan > 8 * wide.makespan


def test_the_simple_memory_is_the_default_and_has_no_channels() -> None:
    trace = run(elementwise(), load_machine("edge-8x8"))
    assert trace.machine.dram.kind == "simple" and channels_of(trace) == [] and bandwidth_of(trace) == []


@pytest.mark.parametrize("machine", [EDGE, TPU], ids=lambda machine: machine.name)
def test_channels_say_what_they_moved_and_when(machine: Machine) -> None:
    trace = run(matmul_chain(32, 32, 32, 16), machine)
    assert (
        sum(row["bytes"] for row in channels_of(trace)) == trace.counters["dram_request_bytes"] == 5 * 16 * 16 * 4 * 4
    )
    assert sum(row["bytes"] for row in bandwidth_of(trace)) == trace.counters["dram_request_bytes"]
    peak = Fraction(machine.dram_bytes_per_cycle, machine.dram.channels)
    for row in bandwidth_of(trace):
        assert row["bytes"] <= (row["end"] - row["begin"] + 1) * peak
    loaded = Trace.load(io.BytesIO(trace.to_bytes()))
    assert channels_of(loaded) == channels_of(trace) and bandwidth_of(loaded) == bandwidth_of(trace)
    assert loaded.digest() == trace.digest()


def test_a_request_too_few_is_noticed() -> None:
    trace = run(elementwise())
    channels = trace.channels.copy()
    channels[0, 0] -= 1
    with pytest.raises(InvariantViolation, match="the channels served 383 requests, asked were 384"):
        replace(trace, channels=channels).invariants()
    with pytest.raises(InvariantViolation, match="383 moved data"):
        replace(
            trace, channel_bytes=trace.channel_bytes - np.eye(1, trace.channel_bytes.shape[1], dtype=int) * 64
        ).invariants()


def test_launches_and_idle_time_between_them() -> None:
    """A channel that stands idle for long is refreshed all along."""
    machine = load_machine("edge-8x8", memory="banked", launch_overhead_cycles=1_000_000)
    program = elementwise()
    trace = simulate([Launched(name, program, (0, 1 << 16)) for name in "kl"], machine)
    trace.invariants()
    interval = machine.banked_memory().refresh_interval / machine.dram_clock_ratio
    passed = trace.makespan // interval
    assert (
        passed > 300 and passed <= channels_of(trace)[0]["refreshes"] <= passed + 1
    )  # the last writes are still on the way
    assert trace.kernel_spans[1][1] == trace.kernel_spans[0][2] + 1_000_000


def _touched(operand: Operand, base: int, size: int) -> set[int]:
    """The requests that a box's elements lie in, one by one."""
    at = np.zeros((1,) * len(operand.shape), np.int64) + operand.offset
    for axis, (extent, stride) in enumerate(zip(operand.shape, operand.strides, strict=True)):
        index = np.arange(extent) * stride
        at = at + index.reshape([-1 if axis == each else 1 for each in range(len(operand.shape))])
    first = base + at.ravel() * operand.element_bytes
    return set((first // size).tolist()) | set(((first + operand.element_bytes - 1) // size).tolist())


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((64,), (1,), 0),
        ((64,), (1,), 3),
        ((64,), (-1,), 100),
        ((5, 7), (100, 1), 1),
        ((5, 7), (7, 1), 1),
        ((3, 4, 5), (1000, 100, 13), 0),
        ((4, 2), (1, 2), 0),
        ((1, 6, 1), (0, 3, 0), 5),
        ((2, 3, 2, 4, 8), (5000, 900, 200, -40, 2), 300),
    ],
)
def test_a_copy_asks_for_what_its_box_touches(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    made = Made()
    made.argument("x", (20000,))
    made.buffer("t", 2000)
    box = replace(made.dram("x", (1,)), shape=shape, strides=strides, offset=offset)
    made.load(box, made.pad("t", shape))
    program = made.build()
    asked = work(program, (64,), EDGE)
    out = np.zeros(10000, np.int64)
    count = requests_of(asked.walks, 0, 64, out)
    assert request_counts(asked.walks, 64).tolist() == [count]
    assert set((out[:count] // 64).tolist()) == _touched(box, 64, 64)
    assert (out[:count] % 64 == 0).all()


def test_a_loop_asks_for_its_elements_in_turn() -> None:
    made = Made()
    made.argument("x", (64, 16))
    made.argument("y", (64, 16), written=True)
    source, target = elements(made.dram("x", (4,)), stride=16), elements(made.dram("y", (3,)), Access.WRITE, stride=-16)
    made.direct(source, replace(target, offset=64))
    asked = work(made.build(), (0, 1 << 20), EDGE)
    out = np.zeros(7, np.int64)
    assert requests_of(asked.walks, 0, 64, out) == 7
    assert out.tolist() == [0, (1 << 20) + 257, 64, (1 << 20) + 193, 128, (1 << 20) + 129, 192]


@pytest.mark.parametrize(
    ("opcode", "access", "ways"),
    [
        (Opcode.GATHER, Access.READ, [0]),
        (Opcode.SCATTER, Access.WRITE, [1]),
        (Opcode.SCATTER, Access.READ_WRITE, [0, 1]),
    ],
)
def test_a_gather_asks_for_its_rows_where_they_are(opcode: Opcode, access: Access, ways: list[int]) -> None:
    program = rows(opcode, access)
    asked = work(program, (0, 4096), EDGE, {0: IDS})
    out = np.zeros(10000, np.int64)
    count = requests_of(asked.walks, len(program) - 1, 64, out)
    expected = [4096 + row * 256 + piece * 64 + way for row in IDS.tolist() for way in ways for piece in range(4)]
    assert out[:count].tolist() == expected
    simulate([Launched("k", program, (0, 4096), indices={0: IDS})], EDGE).invariants()


def test_direct_accesses_are_requests_each() -> None:
    trace = run(direct_copy(4, 32))
    assert channels_of(trace)[0]["reads"] == channels_of(trace)[0]["writes"] == 4 * 32


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"dram_timing": "HBM2_2000"}, "no memory 'HBM2_2000'; did you mean"),
        ({"dram_timing": "HBM2_2000Mbps"}, "a request of HBM2_2000Mbps is 32 bytes, not the dram_request_bytes = 64"),
        ({"dram_standard": "DDR5"}, "DDR4_3200AA is DDR4, not dram_standard = 'DDR5'"),
        ({"dram_channels": 3}, "dram_channels = 3: expected a power of two"),
        ({"dram_address": "RoBaCoBgCh"}, "dram_address = 'RoBaCoBgCh': expected each of Ch, Ra, Bg, Ba, Ro, Co once"),
        ({"memory": "fast"}, "expected one of simple, banked"),
    ],
)
def test_machines_whose_memory_makes_no_sense_are_refused(overrides: dict[str, str | int], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        EDGE.with_(**overrides)


def test_the_memory_is_clocked_as_the_bandwidth_says() -> None:
    assert (TPU.dram_clock_ratio, EDGE.dram_clock_ratio) == (1, 2)
    assert TPU.banked_memory().clock_ps == 1064 and EDGE.banked_memory().clock_ps == 625
    assert EDGE.banked_memory().row_cycle == 74 and TPU.banked_memory().row_cycle == 46


PLAIN = """
import sys
from simulator.memory import dram
from tests.simulator.memory.test_banked import EDGE, TPU, elementwise, run
digests = [run(elementwise(tiles=3), machine).digest() for machine in (EDGE, TPU)]
dram._least = lambda channels, most: 0  # time in the shortest stretches
assert digests == [run(elementwise(tiles=3), machine).digest() for machine in (EDGE, TPU)]
print(*digests)
"""


def test_plain_python_and_any_stretches_of_time_give_the_same() -> None:
    digests = [run(elementwise(tiles=3), machine).digest() for machine in (EDGE, TPU)]
    assert python("-c", PLAIN, NUMBA_DISABLE_JIT="1").split() == digests
