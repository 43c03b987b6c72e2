"""Several chiplets: whose memory a page lies in, what the way there costs, and who waits for whom on its bus."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from simulator import Cause, HostCall, Launched, Machine, NoSuchPlace, Placed, Trace, load_machine, simulate
from simulator.analysis.stalls import channels_of, links_of, stalls_of
from simulator.errors import InvariantViolation, LaunchError, MachineError
from simulator.machine.optional.chiplets_shape import between_cycles, chiplet_of_core, route
from simulator.records.spans import TOTALS, Wait
from simulator.tileprogram.program import TileProgram
from tests.fresh_process import python
from tests.simulator.build import Made, at_peak, direct_copy, elementwise, run
from tests.simulator.engine.test_cores import Cores, spread

PAGE, WIDTH, WAY, RATE = 4096, 64, 40, 16
"""Of the machine below: bytes a cycle of a link, cycles of one there and back, bytes a cycle of a chiplet's memory."""
REMOTE = TOTALS.index("dram_remote_bytes")
RING = "0-1 1-2 2-3 3-0"


def machine(chiplets: int = 2, cores: int = 1, **figures: int | float | str) -> Machine:
    known = {"dram_bytes_per_second": RATE * chiplets * 800_000_000, "dram_channels": chiplets, "page_bytes": PAGE}
    made = load_machine if figures.get("memory") == "banked" else at_peak
    return made("edge-8x8", chiplets=chiplets, cores=cores, **{**known, **figures})


def banked(chiplets: int = 2, **figures: int | float | str) -> Machine:
    return machine(chiplets, **{"memory": "banked", "dram_channels": 4 * chiplets, **figures})


LATENCY = machine().dram_latency_cycles


def load(*pages: int) -> TileProgram:
    """A load of so many pages each, one after another in a tensor, all at once."""
    made, at = Made(), 0
    made.argument("x", (sum(pages) * PAGE // 4,))
    for number, count in enumerate(pages):
        made.buffer(f"t{number}", count * PAGE // 4)
        made.load(made.dram("x", (count * PAGE // 4,), at), made.pad(f"t{number}", (count * PAGE // 4,)))
        at += count * PAGE // 4
    return made.build()


def on(chiplet: int | str, pages: int, first: int = 0, name: str = "x") -> Placed:
    return Placed(name, first * PAGE, pages * PAGE, 0, 0, chiplet)


@pytest.mark.parametrize("pages", [1, 3])
def test_a_load_from_its_own_chiplets_memory_has_that_bus_alone(pages: int) -> None:
    trace = run(load(pages), machine(), [on(0, pages)])
    assert trace.makespan == pages * PAGE // RATE + LATENCY
    assert trace.counters["dram_remote_bytes"] == trace.waits.sum() == 0


@pytest.mark.parametrize(("chiplet", "links"), [(1, 1), (2, 2), (3, 1)])
def test_a_load_from_elsewhere_takes_the_latency_of_each_link_more(chiplet: int, links: int) -> None:
    trace = run(load(1), machine(4, chiplet_links=RING), [on(chiplet, 1)])
    assert trace.makespan == PAGE // RATE + LATENCY + links * WAY
    assert trace.waits.tolist() == [[links * WAY, *[0] * (len(Wait) - 1)]]
    assert trace.counters["dram_remote_bytes"] == PAGE
    assert sum(int(row["bytes"]) for row in links_of(trace)) == links * PAGE


def test_a_link_slower_than_the_memory_takes_its_bytes() -> None:
    slow = machine(chiplet_link_bytes_per_cycle=4)
    assert run(load(1), slow, [on(1, 1)]).makespan == PAGE // 4 + LATENCY + WAY
    assert run(load(1), slow, [on(0, 1)]).makespan == PAGE // RATE + LATENCY


def test_pages_in_turn_have_all_buses_at_once() -> None:
    trace = run(load(4), machine())
    assert trace.makespan == 2 * PAGE // RATE + LATENCY + WAY
    assert trace.counters["dram_remote_bytes"] == 2 * PAGE
    assert {(row["from"], row["to"]): row["bytes"] for row in links_of(trace)} == {
        ("chiplet1", "chiplet0"): 2 * PAGE,
        ("chiplet0", "chiplet1"): 0,
    }


def test_loads_on_one_bus_follow_each_other_and_on_two_they_do_not() -> None:
    trace = run(load(1, 1), machine(), [on(0, 2)])
    assert trace.start.tolist() == [0, PAGE // RATE] and trace.cause[1] == Cause.BANDWIDTH
    trace = run(load(1, 1), machine(), [on(0, 1), on(1, 1, first=1, name="y")])
    assert trace.start.tolist() == [0, 1] and trace.cause[1] == Cause.ISSUE


def test_a_load_begins_when_one_of_its_buses_is_free_and_waits_for_the_other() -> None:
    trace = run(load(1, 2), machine(), [on(0, 2), on(1, 1, first=2, name="y")])
    assert trace.start.tolist() == [0, 1]
    assert trace.phase[1] == 2 * PAGE // RATE  # its page on the first bus comes after the other's
    assert trace.waits[1, Wait.MEMORY_BUS] == 2 * PAGE // RATE - (1 + PAGE // RATE)
    assert trace.waits[1, Wait.INTERCONNECT] == WAY
    stalls = next(row for row in stalls_of(trace) if row["unit"] == "dma1")
    assert stalls["inefficient_transfers"] == 0  # whole pages are whole requests
    assert stalls["memory_peak"] == trace.waits[1, Wait.MEMORY_BUS]


def test_writes_cross_a_link_of_their_own() -> None:
    trace = run(elementwise(4), machine(), [on(1, 64)], apart=32 * PAGE)
    crossed = {(row["from"], row["to"]): row["bytes"] for row in links_of(trace)}
    counted = trace.counters
    assert crossed == {
        ("chiplet1", "chiplet0"): counted["dram_read_bytes"],
        ("chiplet0", "chiplet1"): counted["dram_write_bytes"],
    }


@pytest.mark.test_all
@pytest.mark.parametrize("figures", [{}, {"interconnect": "crossbar"}])
@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_links_without_end_and_latency_move_the_same_bytes(memory: str, figures: dict[str, str]) -> None:
    free = {"chiplet_link_latency_cycles": 0, "chiplet_link_bytes_per_cycle": 1 << 20, **figures}
    one = load_machine("edge-8x8", memory=memory, dram_channels=4, **figures)
    two = one.with_(chiplets=2, **free)
    plain, parted = (run(elementwise(6), each) for each in (one, two))
    names = ("dram_read_bytes", "dram_write_bytes", "dram_request_bytes")
    assert [plain.counters[name] for name in names] == [parted.counters[name] for name in names]
    assert parted.counters["dram_remote_bytes"] > plain.counters["dram_remote_bytes"] == 0


def test_who_asks_most_has_the_page() -> None:
    """Each core of two reads and writes rows of its own, a page each."""
    program = spread(2, tiles=4, elements=PAGE // 4)
    local, turns = (run(program, machine(2, 2, dram_placement=each)) for each in ("local", "interleaved"))
    assert local.counters["dram_remote_bytes"] == 0
    assert turns.counters["dram_remote_bytes"] == turns.counters["dram_request_bytes"] / 2
    slow = {"chiplet_link_bytes_per_cycle": 4}
    ends = [run(program, machine(2, 2, dram_placement=each, **slow)).makespan for each in ("local", "interleaved")]
    assert ends[0] == local.makespan < ends[1] / 1.5


def test_pages_that_all_ask_for_alike_are_everyones_in_turn() -> None:
    made = Cores()
    made.argument("x", (4 * PAGE // 4,))
    for core in range(2):
        made.core = core
        made.buffer(f"t{core}", 4 * PAGE // 4)
        made.load(made.dram("x", (4 * PAGE // 4,)), made.pad(f"t{core}", (4 * PAGE // 4,)))
    trace = run(made.build(), machine(2, 2, dram_placement="local"))
    assert trace.counters["dram_remote_bytes"] == 4 * PAGE


def test_a_page_stays_where_it_was_placed_until_another_tensor_begins() -> None:
    """The first launch is core 1's; what comes at its address in the third is placed anew."""
    made = Cores()
    made.argument("x", (PAGE // 4,))
    made.core = 1
    made.buffer("t", PAGE // 4)
    made.load(made.dram("x", (PAGE // 4,)), made.pad("t", (PAGE // 4,)))
    others, own = made.build(), load(1)
    launches = [Launched("k", each, (0,)) for each in (others, own, own)]
    near = machine(2, 2, dram_placement="local")
    lives = [Placed("x", 0, PAGE, 0, 1), Placed("y", 0, PAGE, 2, 2)]

    def remote(placed: Sequence[Placed], launches: Sequence[Launched | HostCall] = launches) -> list[int]:
        trace = simulate(launches, near, placed=placed)
        trace.invariants()
        return [int(count) for count in trace.totals[:, REMOTE]]

    assert remote([]) == [0, PAGE, PAGE]
    assert remote(lives) == [0, PAGE, 0]
    assert remote([lives[0], replace(lives[1], where=1)]) == [0, PAGE, PAGE]
    hosted = [launches[0], HostCall("h", 8, 8, 8), launches[2]]
    assert remote([replace(lives[0], last=0), replace(lives[1], first=1)], hosted) == [0, 0, 0]


def test_a_page_of_two_tensors_is_the_planned_ones_or_the_firsts() -> None:
    half = PAGE // 2
    first, second = Placed("a", 0, half, -1, 1, None), Placed("b", half, half, -1, 1, None)

    def remote(*placed: Placed) -> int:
        return run(load(1), machine(), placed).counters["dram_remote_bytes"]

    assert remote(first, second) == 0
    assert remote(first, replace(second, where=1)) == remote(replace(second, where=1), first) == PAGE
    assert remote(replace(first, where=0), replace(second, where=1)) == 0
    assert remote(first, replace(second, first=0, where=1)) == PAGE


def test_what_ends_with_the_first_byte_of_a_request_asks_for_it() -> None:
    made = Made()
    made.argument("x", (64,))
    made.buffer("t", 1)
    made.load(made.dram("x", (1,)), made.pad("t", (1,)))
    trace = simulate([Launched("k", made.build(), (61,))], machine(), placed=[on(1, 1)])
    assert trace.counters["dram_remote_bytes"] == trace.counters["dram_request_bytes"] == 2 * 64


@pytest.mark.test_all
def test_with_banks_a_page_lies_in_its_chiplets_channels() -> None:
    for chiplet in range(2):
        trace = run(load(4), banked(), [on(chiplet, 4)])
        moved = trace.channel_bytes.sum(1)
        assert moved.sum() == 4 * PAGE and (moved > 0).tolist() == [chiplet == 0] * 4 + [chiplet == 1] * 4
        assert trace.counters["dram_remote_bytes"] == chiplet * 4 * PAGE


@pytest.mark.test_all
def test_with_banks_what_is_elsewhere_comes_later_by_its_link() -> None:
    near, far = (run(load(1), banked(), [on(chiplet, 1)]) for chiplet in range(2))
    assert WAY <= far.makespan - near.makespan <= WAY + 256 // WIDTH + 2  # and a packet's bytes
    narrow = banked(chiplet_link_bytes_per_cycle=1)
    near, far = (run(load(1), narrow, [on(chiplet, 1)]) for chiplet in range(2))
    assert near.makespan < PAGE < far.makespan < PAGE + 3 * LATENCY
    assert far.waits[0, Wait.INTERCONNECT] > 0.8 * PAGE


@pytest.mark.test_all
def test_pages_in_one_memory_fill_its_rows_like_a_tensor_in_one_piece() -> None:
    """Every other page is as many rows as half of the pages, not as all."""
    figures = {"dram_hash": "none", "dram_address": "RoBaRaBgCoCh"}
    whole = run(load(16), load_machine("edge-8x8", memory="banked", **figures))
    parted = run(load(32), banked(dram_channels=2, dram_bytes_per_second=2 * 25_600_000_000, **figures))
    assert channels_of(parted)[0]["activates"] == channels_of(whole)[0]["activates"]


def test_cores_and_channels_are_divided_in_order() -> None:
    assert [chiplet_of_core(machine(2, 4), core) for core in range(4)] == [0, 0, 1, 1]
    assert [chiplet_of_core(machine(4, 2), core) for core in range(2)] == [0, 1]
    ring = machine(4, chiplet_links=RING)
    assert [route(ring, 0, end) for end in range(4)] == [(0,), (0, 1), (0, 1, 2), (0, 3)]
    assert route(ring, 2, 0) == (2, 1, 0)
    assert [between_cycles(each) for each in (machine(1), machine(4), ring)] == [0, WAY, 2 * WAY]


def test_cores_on_other_chiplets_are_farther_to_meet() -> None:
    one, two = (run(spread(2), machine(each, 2, dram_placement="local", page_bytes=64)) for each in (1, 2))
    lengths = [int((trace.end - trace.start)[-1]) for trace in (one, two)]
    assert lengths[1] - lengths[0] == WAY


def test_a_crossbar_on_each_chiplet_has_ports_of_its_own() -> None:
    crossed = machine(2, 2, interconnect="crossbar", interconnect_ports=3, dma_queues=2)
    trace = run(spread(2, tiles=4, elements=PAGE // 4), crossed)
    places = {str(row[end]) for row in links_of(trace) for end in ("from", "to")}
    ports = {f"chiplet{chiplet}.port{port}" for chiplet in range(2) for port in range(2)}
    assert places == ports | {"chiplet0.crossbar", "chiplet1.crossbar", "channel0", "channel1"}
    between = [row for row in links_of(trace) if str(row["from"]) in ("chiplet0.crossbar", "chiplet1.crossbar")]
    between = [row for row in between if str(row["to"]).endswith("crossbar")]
    assert sum(int(row["bytes"]) for row in between) == trace.counters["dram_remote_bytes"] > 0
    assert all(row["cycles"] == int(row["bytes"]) // WIDTH for row in between)


def test_a_trace_comes_back_with_its_links() -> None:
    trace = run(load(4), machine())
    loaded = Trace.load(io.BytesIO(trace.to_bytes()))
    assert loaded.digest() == trace.digest() and links_of(loaded) == links_of(trace) != []
    assert loaded.counters["dram_remote_bytes"] == 2 * PAGE


@pytest.mark.parametrize("change", ["links", "remote", "places"])
def test_the_invariants_see_bytes_that_went_elsewhere(change: str) -> None:
    trace = run(load(4), machine(), [on(1, 2)])
    totals = trace.totals.copy()
    totals[0, REMOTE] -= PAGE
    broken = {
        "links": replace(trace, link_bytes=trace.link_bytes + PAGE),
        "remote": replace(trace, totals=totals),
        "places": replace(trace, asked={"placed": (on(0, 2),)}),
    }[change]
    told = {"links": "those that cross it are", "remote": "dram_remote_bytes", "places": "dram_remote_bytes"}[change]
    with pytest.raises(InvariantViolation, match=told):
        broken.invariants()


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"dram_channels": 1}, "with chiplets = 2: dram_channels = 1: expected as many on each chiplet"),
        ({"cores": 3}, "cores = 3: expected as many on each chiplet, or one on each of the first"),
        ({"interconnect": "mesh"}, "interconnect = 'mesh': expected 'simple' or 'crossbar'"),
        ({"page_bytes": 96}, "page_bytes = 96: expected a power of two"),
        ({"page_bytes": 32}, "page_bytes = 32: expected no less than the dram_request_bytes = 64"),
        ({"chiplet_links": "0-2"}, "chiplet_links = '0-2': '0-2': there is no chiplet 2 of chiplets = 2, counted"),
        ({"chiplet_links": "0-1 1;0"}, "'1;0' is no link; expected two chiplets as '0-1'"),
        ({"chiplet_links": "1-1"}, "'1-1' is no link"),
        ({"chiplets": 4, "dram_channels": 4, "chiplet_links": "0-1 2-3"}, "no way leads from chiplet 0 to chiplet 2"),
        ({"dram_placement": "near"}, "expected one of interleaved, local"),
        ({"chiplet_link_bytes_per_cycle": 0}, "expected more than zero"),
        (
            {"interconnect": "crossbar", "chiplet_link_bytes_per_cycle": 2**40 - 1},
            "expected a least common multiple of at most 1,099,511,627,776",
        ),
    ],
)
def test_chiplets_that_make_no_sense_are_refused(figures: dict[str, int | str], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        machine(**figures)  # type: ignore[arg-type]


def test_a_plan_for_what_is_not_there_is_refused() -> None:
    with pytest.raises(NoSuchPlace, match="'x' is to be on chiplet 2: machine 'edge-8x8' has chiplets 0 to 1"):
        run(load(1), machine(), [on(2, 1)])
    with pytest.raises(NoSuchPlace, match="has one chiplet, 0"):
        run(load(1), machine(1), [on(1, 1)])
    with pytest.raises(NoSuchPlace, match="'x' is to be placed 'locally'; did you mean 'local'"):
        run(load(1), machine(), [on("locally", 1)])
    with pytest.raises(LaunchError, match="take a page_bytes larger than 64"):
        simulate([Launched("k", load(1), (1 << 40,))], machine(page_bytes=64))


def test_nothing_repeats_where_links_count() -> None:
    launches = [Launched("k", load(2), (0,))] * 3
    trace, each = (simulate(launches, machine(), repeats=repeats) for repeats in (True, False))
    assert trace.digest() == each.digest() and trace.counters["dram_remote_bytes"] == 3 * PAGE


PLAIN = """
from tests.simulator.optional.test_chiplets import KINDS, digest
print(*(digest(*each) for each in KINDS))
"""
KINDS = [(memory, kind) for memory in ("simple", "banked") for kind in ("simple", "crossbar")]


def digest(memory: str, kind: str) -> str:
    figures = {"interconnect_link_bytes_per_cycle": 24, "chiplet_link_bytes_per_cycle": 10, "dram_placement": "local"}
    two = (machine if memory == "simple" else banked)(2, cores=2, interconnect=kind, page_bytes=256, **figures)
    launches = [Launched("d", spread(2), (0, 1 << 16)), Launched("c", direct_copy(5, 9), (0, 1 << 16))]
    return simulate(launches, two, placed=[Placed("x", 0, 4096, 0, 0, "interleaved")]).digest()


@pytest.mark.test_all
def test_plain_python_gives_the_same() -> None:
    assert python("-c", PLAIN, NUMBA_DISABLE_JIT="1").split() == [digest(*each) for each in KINDS]


def test_a_machine_in_one_piece_has_no_pages() -> None:
    trace = run(load(2), machine(1, chiplet_links=""), [on(0, 2)])
    assert links_of(trace) == [] and len(trace.waits) == 0 and not np.any(trace.totals[:, REMOTE])


def test_links_whose_widths_have_no_small_common_multiple_are_refused():
    wide = {"interconnect": "crossbar", "interconnect_link_bytes_per_cycle": 2**20 + 7}
    load_machine("tpu-v3", cores=2, chiplets=2, **wide, chiplet_link_bytes_per_cycle=2**20 - 9)  # just below 2 ** 40
    with pytest.raises(MachineError, match="least common multiple of at most 1,099,511,627,776"):
        load_machine("tpu-v3", cores=2, chiplets=2, **wide, chiplet_link_bytes_per_cycle=2**20 + 9)


def test_each_wait_has_a_column_of_its_own():
    assert [int(wait) for wait in Wait] == list(range(len(Wait.__members__)))
