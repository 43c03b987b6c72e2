"""Crossbars and meshes: links that are held by what they carry."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from simulator import Machine, Trace, load_machine
from simulator.analysis.stalls import links_of
from simulator.errors import InvariantViolation, MachineError
from simulator.machine.topology import READ, WRITE, topology
from simulator.records.spans import Wait
from simulator.tileprogram.program import I64
from simulator.units.unit_table import asking
from tests.fresh_process import python
from tests.simulator.build import Made, direct_copy, elementwise, matmul_chain
from tests.simulator.engine.test_engine import loads
from tests.simulator.memory.test_banked import run

BANKED = pytest.mark.test_all  # the engine of banks with links is compiled for half a minute
KINDS = [(memory, kind) for memory in ("simple", "banked") for kind in ("crossbar", "mesh")]
CASES = [pytest.param(*each, marks=BANKED if each[0] == "banked" else ()) for each in KINDS]


def machine(name: str = "tpu-v3", **figures: int | float | str) -> Machine:
    return load_machine(name, **{"launch_overhead_cycles": 0, **figures})


def waited(trace: Trace) -> I64:
    return trace.waits[:, Wait.INTERCONNECT]


@pytest.mark.parametrize("kind", ["crossbar", "mesh"])
def test_a_transfer_over_a_narrow_link_takes_its_bytes(kind: str) -> None:
    """The simple memory needs 32 cycles for 16 KB, a queue's own link of 8 bytes 2048."""
    plain = machine(dram_stream_share=1.0)
    narrow = plain.with_(interconnect=kind, interconnect_link_bytes_per_cycle=8, mesh_hop_cycles=0)
    trace = run(loads(1, elements=4096), narrow)
    assert trace.makespan == 16384 // 8 + plain.dram_latency_cycles
    assert waited(trace).tolist() == [16384 // 8 - 16384 // 512]


@pytest.mark.parametrize(("memory", "kind"), CASES)
def test_links_as_wide_as_can_be_cost_nothing(memory: str, kind: str) -> None:
    plain = machine(memory=memory)
    wide = plain.with_(interconnect=kind, interconnect_link_bytes_per_cycle=1 << 20, mesh_hop_cycles=0)
    ends = [run(elementwise(tiles=3), each).end for each in (plain, wide)]
    assert abs(ends[1] - ends[0]).max() <= (0 if memory == "simple" else 2)  # a request less than a cycle later


@pytest.mark.parametrize("memory", ["simple", pytest.param("banked", marks=BANKED)])
def test_who_shares_a_link_has_a_part_of_it(memory: str) -> None:
    """Two queues at one port take twice as long as at two."""
    figures = {"memory": memory, "interconnect": "crossbar", "interconnect_link_bytes_per_cycle": 8}
    one, two = (run(loads(2, elements=16384), machine(**figures, interconnect_ports=ports)) for ports in (1, 2))
    assert 1.9 < one.makespan / two.makespan < 2.1
    together = [row for row in links_of(one) if row["to"] == "port0"]
    assert len(together) == 1 and together[0]["bytes"] == 2 * 65536 and float(together[0]["share"]) > 0.9


@pytest.mark.test_all
def test_packets_of_queues_take_turns_at_a_link() -> None:
    """A short transfer that begins while a long one has the link need not wait for its end."""
    figures = {"memory": "banked", "interconnect": "crossbar", "interconnect_ports": 1}
    made = Made()
    made.argument("x", (1 << 16,))
    for name, elements in (("long", 32768), ("short", 64)):
        made.buffer(name, elements)
        made.load(made.dram("x", (elements,)), made.pad(name, (elements,)))
    trace = run(made.build(), machine(**figures))
    assert trace.end[1] < trace.end[0] / 4
    whole = run(made.build(), machine(**figures, interconnect_packet_bytes=1 << 20))
    assert whole.end[1] > 0.9 * whole.end[0]


def test_a_byte_goes_along_the_row_and_then_along_the_column() -> None:
    mesh = machine(interconnect="mesh", mesh_queues="0,1", mesh_channels="2,3")
    made = topology(mesh, asking(mesh))
    names = {number: name for name, number in made.links.items()}
    there, back = ([names[link] for link in made.ways[way][0][5]] for way in (WRITE, READ))
    routers = ["router0,1", "router1,1", "router2,1", "router2,2", "router2,3"]
    assert there == list(zip(["dma0", *routers], [*routers, "channel5"], strict=True))
    routers = ["router2,3", "router1,3", "router0,3", "router0,2", "router0,1"]
    assert back == list(zip(["channel5", *routers], [*routers, "dma0"], strict=True))
    assert made.hops[0][5] == 4


@pytest.mark.parametrize("memory", ["simple", pytest.param("banked", marks=BANKED)])
def test_every_hop_takes_its_cycles(memory: str) -> None:
    def last(queues: str) -> int:
        figures = {"interconnect": "mesh", "mesh_hop_cycles": 7, "mesh_queues": queues, "mesh_channels": "0,0"}
        return run(loads(1, elements=16), machine(memory=memory, **figures)).makespan

    assert last("3,2") - last("0,0") == 5 * 7


def test_reads_and_writes_go_over_links_of_their_own() -> None:
    trace = run(matmul_chain(32, 32, 32, 16), machine(interconnect="crossbar"))
    rows, counted = links_of(trace), trace.counters
    written, read = (
        sum(int(row["bytes"]) for row in rows if str(row[end]).startswith("channel")) for end in ("to", "from")
    )
    assert (read, written) == (counted["dram_read_bytes"], counted["dram_write_bytes"]) and read == 4 * written


@pytest.mark.parametrize(("memory", "kind"), CASES)
def test_links_carry_all_bytes_and_are_kept_in_a_file(memory: str, kind: str) -> None:
    for program in (elementwise(), direct_copy(4, 32)):
        trace = run(program, machine("edge-8x8", memory=memory, interconnect=kind))
        loaded = Trace.load(io.BytesIO(trace.to_bytes()))
        assert links_of(loaded) == links_of(trace) != [] and loaded.digest() == trace.digest()
        more = trace.link_bytes.copy()
        more[0] += 64
        with pytest.raises(InvariantViolation, match="entered the interconnect"):
            replace(trace, link_bytes=more).invariants()


def test_the_shipped_interconnect_is_simple_and_has_no_links() -> None:
    assert machine().network.kind == "simple" and links_of(run(elementwise(), machine())) == []


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"interconnect": "ring"}, "expected one of simple, crossbar, mesh"),
        ({"interconnect": "mesh", "mesh_queues": "0,0 0;1"}, "mesh_queues = '0,0 0;1': '0;1' is no place; expected"),
        ({"mesh_queues": "a,b"}, "mesh_queues = 'a,b': 'a,b' is no place; expected routers"),
        ({"interconnect": "mesh", "mesh_channels": "4,0"}, "no router 4,0 in a mesh of mesh_columns = 4"),
        ({"interconnect_link_bytes_per_cycle": 0}, "expected more than zero"),
        ({"interconnet": "mesh"}, "did you mean 'interconnect'"),
    ],
)
def test_interconnects_that_make_no_sense_are_refused(figures: dict[str, int | str], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        load_machine("tpu-v3", **figures)


PLAIN = """
from simulator.memory import dram
from tests.simulator.memory.test_network import KINDS, digest
print(*(digest(*each) for each in KINDS))
dram._least = lambda channels, most: 0  # time in the shortest stretches
print(*(digest(*each) for each in KINDS))
"""


def digest(memory: str, kind: str) -> str:
    figures = {"interconnect_link_bytes_per_cycle": 24, "interconnect_packet_bytes": 100, "cores": 2}
    return run(elementwise(tiles=3), machine("edge-8x8", memory=memory, interconnect=kind, **figures)).digest()


@BANKED
def test_plain_python_and_any_stretches_of_time_give_the_same() -> None:
    assert python("-c", PLAIN, NUMBA_DISABLE_JIT="1").split() == 2 * [digest(*each) for each in KINDS]
