from __future__ import annotations

import dataclasses
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import MachineError
from simulator.machine.dram_file import load_memory
from simulator.machine.figure_places import figure_names
from simulator.machine.machine import Machine
from simulator.machine.machine_file import load_machine, machine_names, parse_machine
from tests.fresh_process import python


def test_the_shipped_machines_have_the_published_figures() -> None:
    assert machine_names() == ("edge-8x8", "tpu-v2", "tpu-v3", "tpu-v4", "tpu-v4-chip")
    clock = {name: load_machine(name).clock_mhz for name in machine_names()}
    assert clock == {"edge-8x8": 800, "tpu-v2": 700, "tpu-v3": 940, "tpu-v4": 1050, "tpu-v4-chip": 1050}
    arrays = {name: load_machine(name).array.count for name in machine_names()}
    assert arrays == {"edge-8x8": 1, "tpu-v2": 1, "tpu-v3": 2, "tpu-v4": 4, "tpu-v4-chip": 4}
    pads = {name: load_machine(name).scratchpad_bytes for name in machine_names()}
    assert pads == {name: 256 * 1024 if name == "edge-8x8" else 16 << 20 for name in machine_names()}
    assert load_machine("tpu-v3").dram_bytes_per_cycle == 512
    assert load_machine("edge-8x8").dram_bytes_per_cycle == 32
    assert load_machine("tpu-v4").common_memory.bytes == 128 << 20
    chip = load_machine("tpu-v4-chip")
    assert (chip.core.count, chip.common_memory.bytes, chip.dram_block) == (2, 128 << 20, (8, 128))


@pytest.mark.parametrize("name", machine_names())
def test_every_figure_has_a_source_or_is_marked_fitted_or_assumed(name: str) -> None:
    machine = load_machine(name)
    told = [*machine.assumed, *dict(machine.fitted), *dict(machine.sources)]
    assert sorted(told) == sorted({*figure_names()} - {"name"})


def test_a_figure_without_source_is_refused() -> None:
    with pytest.raises(MachineError, match="clock_mhz does not say where it comes from"):
        parse_machine("mine", "version = 1\nclock_mhz = 100")


def test_overrides_make_another_machine_and_say_so() -> None:
    narrow = load_machine("tpu-v3", vector_lanes=64, dma_queues=2)
    assert (narrow.vector.lanes, narrow.dma.queues, narrow.scratchpad_bytes) == (64, 2, 8 << 20)
    assert dict(narrow.sources)["dma_queues"] == "override"
    assert "dma_queues" not in narrow.assumed
    assert load_machine("tpu-v3").vector.lanes == 128
    assert narrow.overrides == {"vector_lanes": 64, "dma_queues": 2}
    assert repr(narrow) == "Machine('tpu-v3 (vector_lanes=64, dma_queues=2)')"
    assert load_machine("tpu-v3", name="mine", vector_lanes=64).label == "mine (vector_lanes=64)"
    many = narrow.with_(issue_window=8, queue_depth=4)
    assert (many.label, load_machine("tpu-v3").label) == ("tpu-v3 (+4 figures)", "tpu-v3")
    assert load_machine("tpu-v3", mesh_queues="0,0 0,1 " * 9).label == "tpu-v3 (+1 figure)"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"vector_lanes": 0}, "vector_lanes = 0: expected more than zero"),
        ({"vector_lane": 64}, "no figure 'vector_lane'; did you mean 'vector_lanes'"),
        ({"systolic_rows": 12.5}, "systolic_rows = 12.5: expected a whole number"),
        ({"systolic_rows": True}, "expected a whole number"),
        ({"dram_bytes_per_second": -1}, "expected more than zero"),
        ({"clock_mhz": float("nan")}, "expected more than zero"),
        ({"clock_mhz": 1e-9}, "clock_mhz = 1e-09: expected at least 0.001"),
        ({"matmul_precision": "fp8"}, "matmul_precision = 'fp8': expected one of bf16"),
        ({"memory": "baned"}, r"memory = 'baned'; did you mean 'banked'\? Expected one of simple, banked"),
        ({"dram_placement": "locl"}, r"did you mean 'local'\? Expected one of "),
        ({"scratchpad_bytes": 1}, r"no figure 'scratchpad_bytes'; did you mean 'scratchpad_bytes_per_lane'\?"),
        ({"mesh_queues": ""}, "mesh_queues = '': expected routers as 'column,row', with spaces between them"),
        ({"cores": []}, "cores = \\[\\]: the list is empty; expected a number, or a table for each core"),
        ({"dram_timing": "HBM3_6400Mbps"}, "HBM3, not dram_standard = 'HBM2'; it goes with dram_standard = 'HBM3'$"),
        (
            {"dram_timing": "DDR4_3200AA", "memory": "banked"},
            "dram_request_bytes = 32; it goes with dram_standard = 'DDR4' and dram_request_bytes = 64$",
        ),
        ({"vector_bits_per_lane": 12}, "not whole bytes"),
        ({"dram_bytes_per_second": 1}, "less than a byte in 10,000 cycles"),
        ({"launch_overhead_cycles": 2**70}, "expected at most 1,099,511,627,776"),
        ({"name": ""}, "name = '': expected a text"),
        # noticed with simple memory too
        ({"dram_timing": "HBM2_2000"}, "no memory 'HBM2_2000'; did you mean 'HBM2_2000Mbps'"),
        ({"dram_timing": "nowhere.toml"}, "the memory file cannot be read: there is no file 'nowhere.toml' in /"),
        ({"dram_standard": "DDR4"}, "is HBM2, not dram_standard = 'DDR4'"),
        ({"dram_channels": 3}, "dram_channels = 3: expected a power of two"),
        ({"dram_address": "RoBa"}, "expected each of Ch, Ra, "),
        *(({"dram_stream_share": share}, "dram_stream_share") for share in (0, -0.5, 1.01, float("nan"))),
        *(
            ({"dram_tile": text}, "expected rows x columns as '8x128'")
            for text in ("8", "8*128", "0x128", "8x", "-1x8")
        ),
        ({"dram_tile": 8}, "expected rows x columns as '8x128'"),
        ({"dram_refresh_rate": 0}, "dram_refresh_rate"),
        ({"dram_refresh_rate": 17}, "dram_refresh_rate"),
        ({"dram_refresh_rate": 1.5}, "dram_refresh_rate"),
        ({"dram_refresh_rate": 16}, "HBM2_2000Mbps would be refreshed all the time"),
        # cores and routers
        ({"cores": [{}, {"clock_ratio": 1e300}]}, "expected a number, more than zero and at most 1,000,000"),
        ({"cores": [{}, {"vector_lanes": 10**400}]}, "vector_lanes = 1000.*expected a whole number"),
        ({"cores": [{}, {"vector_lanes": "4; 0: vector_lanes=1"}]}, "vector_lanes = '4; 0.*expected a number"),
        ({"cores": [{}, {}], "core_figures": "1: clock_ratio=0.5"}, "say the same; expected one of both"),
        ({"cores": 2, "core_figures": "1: vector_lanes=4; 1: vector_lanes=8"}, "vector_lanes is given twice"),
        (
            {"cores": 2, "core_figures": "1: vector_lanes=\uff16\uff14"},
            "vector_lanes = \uff16\uff14: expected a",
        ),
        ({"cores": 2, "core_figures": "1: clock_ratio=\uff10.5"}, "clock_ratio = \uff10.5: expected a number"),
        ({"cores": 2, "core_figures": "\uff11: vector_lanes=4"}, "there is no core '\uff11'"),
        ({"cores": 2, "core_figures": "\u00b2: vector_lanes=4"}, "there is no core '\u00b2'"),
        ({"cores": 2, "core_figures": "9" * 5000 + ": vector_lanes=4"}, "there is no core '9"),
        ({"mesh_queues": "a,b"}, "mesh_queues = 'a,b': 'a,b' is no place"),
        ({"chiplet_links": "a-b"}, "chiplet_links = 'a-b': 'a-b' is no link; expected two chiplets as '0-1'"),
        ({"chiplets": 2, "cores": 2, "chiplet_links": "\uff10-\uff11"}, "'\uff10-\uff11' is no link"),
        ({"page_bytes": 3}, "page_bytes = 3: expected a power of two"),
        ({"interconnect": "mesh", "mesh_queues": "  "}, "it names no router"),
        ({"interconnect": "mesh", "mesh_queues": "9" * 5000 + ",0"}, "is no place"),
    ],
)
def test_impossible_figures_are_refused(override: dict[str, Any], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        load_machine("tpu-v3", **override)


def test_an_unknown_machine_suggests_a_known_one() -> None:
    with pytest.raises(MachineError, match=r"no machine 'tpu3'; did you mean 'tpu-v3'\?"):
        load_machine("tpu3")
    with pytest.raises(MachineError, match=r"no machine 'TPU-V3'; did you mean 'tpu-v3'\?"):
        load_machine("TPU-V3")


def test_slots_are_padded_to_whole_vectors_over_all_lanes() -> None:
    machine = load_machine("tpu-v3")
    assert machine.vector_bytes == 128 * 32
    assert [machine.pad_to_lanes(size) for size in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]
    assert (machine.vector_elements(4), machine.vector_elements(2), machine.lane_elements(64)) == (1024, 2048, 1)


def test_a_machine_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_machine("tpu-v3").vector_lanes = 3  # type: ignore[misc]


def test_importing_the_simulator_loads_no_numba() -> None:
    code = "import sys, simulator; simulator.load_machine('tpu-v3'); simulator.Trace; print('numba' in sys.modules)"
    assert python("-c", code).strip() == "False"


BASED = """
version = 1
base = "edge-8x8"
[vector]
lanes = 16
sources = { lanes = "data sheet" }
[dma]
queues = 1
assumed = ["queues"]
"""


def test_a_file_is_a_machine_wherever_a_name_is(tmp_path: Path):
    path = tmp_path / "pocket.toml"
    path.write_text(BASED)
    pocket, base = load_machine(path), load_machine("edge-8x8")
    assert pocket == load_machine(str(path)) and pocket.name == "pocket"
    changed = {name for name, value in pocket.figures().items() if value != base.figures()[name]}
    assert changed == {"name", "vector_lanes", "dma_queues"}
    assert dict(pocket.sources)["vector_lanes"] == "data sheet" and "dma_queues" in pocket.assumed
    assert dict(pocket.sources)["clock_mhz"] == dict(base.sources)["clock_mhz"]
    assert load_machine(path, dma_queues=4).dma.queues == 4


def test_a_device_or_a_pipe_is_no_machine_file_and_no_memory_file(tmp_path: Path):
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    for read in (load_machine, load_memory):
        with pytest.raises(MachineError, match=r"pipe\.toml' cannot be read: it is a pipe"):
            read(str(pipe))
    with pytest.raises(MachineError, match="cannot be read: it is a device"):
        load_machine(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", BASED.replace("edge-8x8", "edge-8x9"), "no shipped machine; did you mean 'edge-8x8'"),
        (
            "a.toml",
            BASED.replace('["queues"]', '["queues", "channels"]'),
            r"\[dma\]: `assumed` names 'channels', which is not set there. A figure from elsewhere keeps the source",
        ),
        ("a.toml", BASED.replace('"data sheet"', '" "'), "sources: lanes = ' ': expected"),
        ("a.toml", BASED.replace('["queues"]', "3"), "assumed = 3: expected a list of names"),
        ("a.toml", "clock_mhz =", "not TOML"),
        ("tpu-v3.toml", BASED, "called like the shipped machine 'tpu-v3'"),
        ("a.toml", None, "cannot be read"),
    ],
)
def test_mistakes_in_a_file_are_named(name: str, text: str | None, words: str, tmp_path: Path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(MachineError, match=words):
        load_machine(tmp_path / name)


def test_few_figures_are_fitted_and_say_by_what() -> None:
    for name in machine_names():
        fitted = [text for _, text in load_machine(name).fitted]
        assert len(fitted) <= 6 and all("benchmarks/data/tpu_v3_cycles.csv" in text for text in fitted)
    assert {"dram_latency_ns", "weight_switch_cycles"} <= set(dict(load_machine("tpu-v3").fitted))


def test_a_part_given_by_itself_is_told_how_its_figures_are_given():
    machine = load_machine("tpu-v3")
    with pytest.raises(MachineError, match=r"no figure 'vector': it is a part\. .* vector_lanes, .*replace\(mach"):
        machine.with_(vector={"lanes": 64})  # pyright: ignore[reportArgumentType]
    wider = dataclasses.replace(machine, vector=dataclasses.replace(machine.vector, lanes=64))
    assert wider.figures() == machine.with_(vector_lanes=64).figures()
    with pytest.raises(MachineError, match=r"no figure 'vector_lane'; did you mean 'vector_lanes'\?"):
        machine.with_(vector_lane=64)


def test_runs_that_begin_at_one_place_open_one_row():
    assert load_machine("tpu-v3", memory="banked").dram_slowdown(64, 0) == 1.0


def test_a_part_that_is_none_is_refused():
    with pytest.raises(MachineError, match=r"array = None: expected a SystolicArray"):
        dataclasses.replace(load_machine("tpu-v3"), array=None)


def test_what_a_property_lacks_is_told_as_that():
    class Broken(Machine):
        @property
        def shown(self) -> int:
            return self.nothing_of_the_kind

    machine = load_machine("tpu-v3")
    broken = Broken(**{field.name: getattr(machine, field.name) for field in dataclasses.fields(machine)})
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = broken.shown


def test_streams_reach_a_part_of_the_peak() -> None:
    tpu = load_machine("tpu-v3")
    assert tpu.bus_bytes_per_cycle == 512 * Fraction("0.84")
    for share in (0.5, 1, 1.0):
        machine = tpu.with_(dram_stream_share=share)
        assert machine.bus_bytes_per_cycle == 512 * Fraction(str(share))
        assert machine.dram_bytes_per_cycle == 512, "its peak stays"
    few_ports = tpu.with_(interconnect_ports=1)
    assert few_ports.bus_bytes_per_cycle == few_ports.dram.request_bytes, "ports are not streams"


def test_a_controller_holds_as_many_requests_as_the_machine_says() -> None:
    assert load_machine("tpu-v3", memory="banked").banked_memory().queue_entries == 128
    assert load_machine("tpu-v3", memory="banked", dram_queue_entries=0).banked_memory().queue_entries == 32
    assert load_machine("tpu-v3", memory="banked", dram_queue_entries=96).banked_memory().queue_entries == 96


def test_banks_are_refreshed_as_often_as_the_machine_says() -> None:
    plain, hot = (load_machine("tpu-v3", memory="banked", dram_refresh_rate=rate).banked_memory() for rate in (1, 2))
    assert hot.refresh_interval == plain.refresh_interval // 2 and hot.refresh == plain.refresh


def test_the_way_to_the_banks_is_the_latency_less_what_they_take_themselves() -> None:
    edge = load_machine("edge-8x8")
    memory = edge.named_memory
    by_banks = (memory.activate_to_read + memory.read_latency + memory.burst) * memory.clock_ps / 1000  # in ns
    assert 0 < by_banks < 100
    for latency in (100, 275, 1000):
        machine = edge.with_(dram_latency_ns=latency)
        in_cycles = (latency - by_banks) * 0.8  # of 800 MHz
        assert machine.way_to_banks_cycles - machine.network.latency_cycles == pytest.approx(in_cycles, abs=1)
        assert machine.dram_latency_cycles == machine.network.latency_cycles + math.ceil(latency * 0.8)
    soon = edge.with_(dram_latency_ns=by_banks / 2)
    assert soon.way_to_banks_cycles == soon.network.latency_cycles, "no less than the way through the interconnect"


def test_a_machine_has_blocks_or_none() -> None:
    assert load_machine("edge-8x8").dram_block is None
    for chip in ("tpu-v2", "tpu-v3", "tpu-v4", "tpu-v4-chip"):
        assert load_machine(chip).dram_block == (8, 128)
    assert load_machine("tpu-v3", dram_tile="16x64").dram_block == (16, 64)
    assert load_machine("tpu-v4-chip", dram_tile="").dram_block is None


def test_a_whole_number_may_be_written_as_a_float():
    machine = load_machine("tpu-v3").with_(dram_bytes_per_second=480e9)
    assert machine.figures()["dram_bytes_per_second"] == 480_000_000_000
    assert isinstance(machine.figures()["dram_bytes_per_second"], int)
    with pytest.raises(MachineError, match="expected a whole number"):
        machine.with_(dram_bytes_per_second=480e9 + 0.5)
