"""Banked memory: against a reference, against a controller that looks at every cycle, and by hand."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.request_stream import Stream, run_stream
from simulator.errors import MachineError
from simulator.machine.dram_file import Memory, load_memory, memory_names, parse_memory, timing_names
from simulator.machine.machine_file import load_machine
from simulator.memory.banked.address_map import (
    BANK,
    COLUMN,
    GROUP,
    PSEUDO,
    ROW,
    address_map,
    channel_of,
    coordinate_of,
)
from simulator.memory.banked.banks import figures_of, idle_gates, is_fresh, mark_fresh
from simulator.tileprogram.program import I64
from tests.fresh_process import python
from tests.simulator.ticking import Request, Ticking

DDR4, HBM2 = load_memory("DDR4_2400R"), load_memory("HBM2_2000Mbps")


def stream(memory: Memory, *addresses: int, writes: tuple[int, ...] = (), channels: int = 1) -> Stream:
    ways = np.array(writes or (0,) * len(addresses), np.int64)
    return run_stream(memory, np.array(addresses, np.int64), ways, channels)


def ticked(memory: Memory, addresses: I64, writes: I64) -> tuple[Ticking, int]:
    bits = address_map(memory, 1)

    def part(address: int, number: int) -> int:
        shift, width = bits[number].tolist()
        return (address >> shift) % (1 << width)

    asked = [
        Request((part(a, PSEUDO), part(a, GROUP), part(a, BANK)), part(a, ROW), part(a, COLUMN), bool(write))
        for a, write in zip(addresses.tolist(), writes.tolist(), strict=True)
    ]
    made = Ticking(memory)
    return made, made.run(asked)


def mixed(seed: int, count: int, request: int) -> tuple[I64, I64]:
    """Walks, jumps and repetitions, read and written."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.choice([1, 1, 1, 2, 64, -3], count))
    jump = rng.integers(0, 1 << 14, count)
    places = np.where(rng.random(count) < 0.7, walk, jump) % (1 << 14)
    return (places * request).astype(np.int64), (rng.random(count) < rng.choice([0, 0.3, 0.7])).astype(np.int64)


@pytest.mark.test_all(but=2)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize(
    ("name", "refreshes"),
    [
        *((name, "all") for name in memory_names()),
        *((name, "each") for name in memory_names() if load_memory(name).bank_refresh),
    ],
)
def test_events_give_what_looking_at_every_cycle_gives(name: str, refreshes: str) -> None:
    each = {"bank_refresh": 60, "refresh_interval": 1500} if refreshes == "each" else {}
    usual = {"refresh": 40, "refresh_interval": 211}  # some refreshes in a short stream
    memory = replace(load_memory(name), **{**usual, **each}, refreshes=refreshes)
    for seed in range(3):
        addresses, writes = mixed(seed, 160, memory.request_bytes)
        found, (expected, cycles) = run_stream(memory, addresses, writes), ticked(memory, addresses, writes)
        assert found.cycles == cycles
        after = found.spent["transfer_cycles"] - expected.moving  # what still moves when the last command is given
        assert 0 <= after < max(memory.burst, memory.column_to_column)
        assert found.spent["idle_cycles"] >= expected.idle
        outcomes = [found.counters[f"row_{name}"] for name in ("hits", "misses", "conflicts")]
        assert outcomes == list(expected.counters.values())
        answered = found.counters["reads"] - found.counters["forwarded"]
        assert round(found.average_read_latency * answered) == expected.latency
        assert sum(outcomes) + found.counters["forwarded"] == len(addresses)


def test_one_read_opens_its_row_and_waits_for_its_data() -> None:
    assert stream(DDR4, 0).average_read_latency == 1 + 16 + 16 + 4  # taken; ACT to RD; RD to data; data
    both = stream(DDR4, 0, 64)
    assert both.counters["row_hits"] == both.counters["row_misses"] == 1
    assert both.average_read_latency == 37 + (6 - 1) / 2  # one RD after the other in a group, taken a cycle later


def test_another_row_of_a_bank_waits_for_the_first_to_have_been_open() -> None:
    capacity_of_a_row_of_banks = 8192 * 16
    found = stream(DDR4, 0, capacity_of_a_row_of_banks)
    assert found.counters["row_conflicts"] == 1
    second = 1 + 39 + 16 + 16 + 16 + 4 - 1  # ACT, open, PRE, ACT, RD, data; taken a cycle later
    assert found.average_read_latency == (37 + second) / 2


def test_four_rows_at_a_time() -> None:
    """Activates of other groups follow at once, of the fifth when the first is long enough ago."""
    slow = replace(DDR4, four_activates=100)
    rows = [number * 8192 for number in range(5)]
    four, five = stream(slow, *rows[:4]), stream(slow, *rows)
    assert 5 * five.average_read_latency - 4 * four.average_read_latency == 1 + 100 + 16 + 16 + 4 - 4
    assert five.counters["activates"] == 5


def test_a_read_of_what_is_still_to_be_written_is_answered_by_the_queue() -> None:
    found = stream(DDR4, 0, 8192, 8192, writes=(1, 1, 0))
    assert found.counters["forwarded"] == 1
    assert sum(found.counters[name] for name in ("row_hits", "row_misses", "row_conflicts")) == 2


def test_reads_wait_while_writes_are_drained() -> None:
    """The 27th write of 32 starts the drain, though reads are there."""
    reads = [number * 64 for number in range(30)]
    few = stream(DDR4, *reads, *(1 << 20 | number * 64 for number in range(25)), writes=(0,) * 30 + (1,) * 25)
    many = stream(DDR4, *reads, *(1 << 20 | number * 64 for number in range(26)), writes=(0,) * 30 + (1,) * 26)
    assert many.average_read_latency > few.average_read_latency + 20


def test_refreshes_come_in_their_interval() -> None:
    memory = replace(DDR4, refresh_interval=1000)
    found = stream(memory, *(number * 64 for number in range(2000)))
    passed = found.cycles // 1000
    assert passed > 10 and passed <= found.counters["refreshes"] <= passed + 2
    assert (
        found.cycles
        > stream(replace(memory, refresh=1), *(number * 64 for number in range(2000))).cycles + passed * 400
    )


def test_banks_refreshed_one_by_one_hold_up_nobody_who_does_not_want_them() -> None:
    """A stream moves at nearly the memory's rate, though as many rows are refreshed; all at once stops it."""
    requests = np.arange(100_000, dtype=np.int64) * 32
    fast = replace(HBM2, address="RoBaCoBgRaCh")  # both pseudo-channels are busy
    whole, apart = (
        run_stream(replace(fast, refreshes=each), requests, np.zeros_like(requests)) for each in ("all", "each")
    )
    lost = HBM2.refresh / HBM2.refresh_interval
    assert whole.cycles > (1 + 0.9 * lost) * len(requests)
    assert apart.cycles < (1 + 0.4 * lost) * len(requests)
    banks = HBM2.bank_groups * HBM2.banks
    rounds = [found.cycles / HBM2.refresh_interval for found in (whole, apart)]
    assert whole.counters["refreshes"] == pytest.approx(2 * rounds[0], abs=4)
    assert apart.counters["refreshes"] == pytest.approx(2 * banks * rounds[1], abs=4)


def test_a_round_of_refreshes_ends_with_the_last_bank_of_a_pseudo_channel() -> None:
    figures, gates = figures_of(HBM2), idle_gates(HBM2, 1)[0]
    banks = HBM2.bank_groups * HBM2.banks
    mark_fresh(figures, gates, 0)
    for last in range(banks, 2 * banks):
        assert not is_fresh(gates, last)
        mark_fresh(figures, gates, last)
        assert is_fresh(gates, last) == (last < 2 * banks - 1)
    assert [is_fresh(gates, bank) for bank in range(2 * banks)] == [True] + [False] * (2 * banks - 1)


def test_banks_are_not_refreshed_one_by_one_on_a_slow_clock() -> None:
    machine = load_machine("tpu-v3", memory="banked", dram_refresh="each", dram_refresh_rate=1)
    slow = {"dram_bytes_per_second": 10**9, "dram_channels": 8}
    with pytest.raises(MachineError, match=r"0 cycles lie between .* expected dram_refresh = 'all'"):
        machine.with_(**slow)
    assert machine.with_(**slow, dram_refresh="all").banked_memory().refreshes == "all"
    with pytest.raises(MachineError, match=r"so slow that 0 cycles lie between two refreshes, of which 3 are gone$"):
        machine.with_(dram_bytes_per_second=10**7, dram_refresh="all")
    with pytest.raises(MachineError, match=r"'edge-8x8' with \w+: dram_refresh = 'each': with bank_refresh = 0"):
        load_machine("edge-8x8", dram_refresh="each")


@pytest.mark.test_all(but=35)
@pytest.mark.parametrize("refreshes", ["all", "each"])
@pytest.mark.parametrize("seed", range(20))
def test_with_the_fewest_cycles_between_refreshes_requests_are_served(seed: int, refreshes: str) -> None:
    """As often as a memory's file may ask for refreshes, however slow the commands are beside them."""
    rng = np.random.default_rng(seed)
    drawn = {name: int(rng.integers(1, 30)) for name in timing_names() if name != "refresh_interval"}
    memory = replace(
        HBM2,
        refreshes=refreshes,
        pseudo_channels=2 ** int(rng.integers(3)),
        banks=2 ** int(rng.integers(3)),
        command_buses=int(rng.integers(1, 3)),
        **drawn,
    )
    often = next(
        asked
        for asked in (replace(memory, refresh_interval=interval) for interval in itertools.count(1))
        if asked.between_refreshes[0] >= asked.between_refreshes[1]
    )
    addresses, writes = mixed(seed, 300, often.request_bytes)
    assert run_stream(often, addresses, writes).counters["refreshes"] > 0


def test_two_buses_give_two_commands_a_cycle() -> None:
    addresses, writes = mixed(5, 400, 32)
    assert (
        run_stream(HBM2, addresses, writes).cycles
        < run_stream(replace(HBM2, command_buses=1), addresses, writes).cycles
    )


@pytest.mark.parametrize("address", ["RoBaRaCoCh", "RoBaCoBgRaCh", "BaChRoCoRa"])
@pytest.mark.parametrize(("channels", "hashed"), [(1, "none"), (4, "none"), (8, "xor"), (8, "all")])
def test_every_request_has_its_own_place(channels: int, hashed: str, address: str) -> None:
    memory = replace(HBM2, rows=4, channel_hash=hashed, address=address)
    count = channels * 2 * 16 * 4 * 32
    bits = address_map(memory, channels)
    places = {(channel_of(bits, 32 * at), coordinate_of(bits, 32 * at)) for at in range(count)}
    assert len(places) == count
    assert {channel for channel, _ in places} == set(range(channels))


def test_neighbours_in_other_groups_fill_the_bus() -> None:
    """A group takes a request every fourth cycle, two pseudo-channels of four groups one in each."""
    apart, addresses = replace(HBM2, address="RoBaCoBgRaCh"), [number * 32 for number in range(3000)]
    assert stream(apart, *addresses).cycles < 3100 < 0.6 * stream(HBM2, *addresses).cycles


def test_a_hash_spreads_what_strides_over_the_channels() -> None:
    bits = [address_map(replace(HBM2, channel_hash=each), 16) for each in ("none", "xor")]
    plain, hashed = ({channel_of(each, 4096 * at) for at in range(64)} for each in bits)
    assert (len(plain), len(hashed)) == (1, 16)


def test_hashed_banks_spread_strides_and_streams() -> None:
    """Steps of a power of two stay in one group without it, and two streams close each other's rows."""
    plain, hashed = (replace(HBM2, address="RoBaCoBgRaCh", channel_hash=each) for each in ("none", "all"))
    column = [4096 // 16 * at for at in range(2000)]
    pair = [at * 32 + base for at in range(1500) for base in (0, 1 << 23)]
    assert stream(hashed, *column).cycles < 0.5 * stream(plain, *column).cycles
    conflicts = [stream(memory, *pair).counters["row_conflicts"] for memory in (hashed, plain)]
    assert conflicts[0] < conflicts[1] / 4


def test_channels_serve_side_by_side() -> None:
    addresses = tuple(number * 32 for number in range(4000))
    assert 4 * stream(HBM2, *addresses, channels=4).cycles < 1.1 * stream(HBM2, *addresses).cycles


def test_another_clock_keeps_the_nanoseconds_of_the_cells() -> None:
    fast = HBM2.at_clock(Fraction(500))
    assert (fast.row_cycle, fast.read_latency, fast.refresh_interval) == (96, 28, 7800)
    assert (fast.burst, fast.column_to_column_same_group) == (2, 4)


@pytest.mark.parametrize("name", memory_names())
def test_every_figure_has_a_source_or_is_assumed(name: str) -> None:
    memory = load_memory(name)
    assert memory.sources and {key for key, _ in memory.sources}.isdisjoint(memory.assumed)
    assert memory.row_cycle >= memory.row_active and memory.refresh_interval > memory.refresh


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("banks = 4", "banks = 3", "banks = 3: expected a power of two"),
        ("burst = 4", "burts = 4", "unknown figure 'burts'; did you mean 'burst'"),
        ("burst = 4\n", "", "lacks burst"),
        ("burst = 4", "burst = 0", "expected a whole number, at least 1"),
        ('"RoBaRaCoCh"', '"RoBaRaCo"', "expected each of Ch, Ra, Bg, Ba, Ro, Co once"),
        ('channel_hash = "xor"', 'channel_hash = "fold"', "expected one of"),
        ('refreshes = "all"', 'refreshes = "each"', "memory 'mine': refreshes = 'each': with bank_refresh = 0"),
        ("drain_to = 0.2", "drain_to = 0.9", "drain_to is not less than drain_from"),
        ("drain_to = 0.2", "drain_to = 0.8", "drain_to is not less than drain_from"),
        ("drain_to = 0.2", "drain_to = 2.0", "expected a part"),
        ('"read_to_write_gap",', "", "read_to_write_gap needs a source"),
        ("[sources]\n", "[sources]\nbank = 4\n", "sources: bank = 4: expected a table with a text for each"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(old: str, new: str, message: str) -> None:
    from simulator.machine import dram_file

    text = (dram_file._FOLDER / "DDR4_2400R.toml").read_text()
    assert old in text
    with pytest.raises(MachineError, match=message):
        parse_memory("mine", text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "nanoseconds"),
    [
        (
            "DDR4_3200AA",
            {"activate_to_read": "13.75", "precharge": "13.75", "row_active": "32", "row_cycle": "45.75"}
            | {"write_recovery": "15", "read_to_precharge": "7.5", "activate_to_activate": "2.5"}
            | {"activate_to_activate_same_group": "4.9", "four_activates": "21", "write_to_read": "2.5"}
            | {"write_to_read_same_group": "7.5", "column_to_column_same_group": "5", "refresh": "350"}
            | {"refresh_interval": "7800"},
        ),
        (
            "LPDDR5_6400",
            {"activate_to_read": "18", "activate_to_write": "18", "precharge": "18", "row_active": "42"}
            | {"activate_to_activate": "5", "four_activates": "20", "write_recovery": "34", "refresh": "280"}
            | {"bank_refresh": "140", "refresh_interval": "3906"},
        ),
    ],
)
def test_timings_are_their_nanoseconds_rounded_up(name: str, nanoseconds: dict[str, str]) -> None:
    memory = load_memory(name)
    cycles = {key: math.ceil(Fraction(time) * 1000 / memory.clock_ps) for key, time in nanoseconds.items()}
    assert {key: getattr(memory, key) for key in cycles} == cycles


def test_unknown_memories_are_named() -> None:
    with pytest.raises(MachineError, match="did you mean 'DDR4_2400R'"):
        load_memory("DDR4_2400")
    with pytest.raises(MachineError, match="cannot be read"):
        load_memory("nowhere.toml")
    with pytest.raises(MachineError, match="3 channels: banks need a power of two"):
        stream(DDR4, 0, channels=3)


def test_plain_python_gives_the_same() -> None:
    """The compiled functions are plain Python too."""
    code = (
        "import json, dataclasses; from tests.simulator.memory.test_banks import HBM2, mixed, run_stream;"
        "found = run_stream(HBM2, *mixed(9, 1500, 32), 2); print(json.dumps(dataclasses.asdict(found)))"
    )
    found = run_stream(HBM2, *mixed(9, 1500, 32), 2)
    assert json.loads(python("-c", code, NUMBA_DISABLE_JIT="1")) == dataclasses.asdict(found)
