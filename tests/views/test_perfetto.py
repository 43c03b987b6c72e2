"""The Perfetto export read back by the rules of the Trace Event format: arrows meet slices, counters add up."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from simulator.records.spans import Via
from tests.programs import PROGRAMS

UNITS = 1


@pytest.fixture(scope="module", params=["mlp", "softmax_ragged"])
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return PROGRAMS[request.param].traced(machine=wb.machine("tpu-v3", memory="banked"))


@pytest.fixture(scope="module")
def events(journey: wb.Journey, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("perfetto") / "trace.json"
    journey.to_perfetto(path)
    packed = path.with_suffix(".json.gz")
    journey.to_perfetto(packed)
    assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
    assert packed.stat().st_size < path.stat().st_size / 4
    return json.loads(path.read_bytes())["traceEvents"]


def slices(events: list[dict[str, Any]]) -> dict[int, list[tuple[float, float]]]:
    """Begin and end of every slice of a unit's track, by its number."""
    found: dict[int, list[tuple[float, float]]] = {}
    for each in events:
        if each["ph"] == "X" and each["pid"] == UNITS:
            found.setdefault(each["tid"], []).append((each["ts"], each["ts"] + each["dur"]))
    return found


def test_every_arrow_leaves_a_slice_and_ends_at_the_begin_of_another(journey: wb.Journey, events: list[dict[str, Any]]):
    tracks = slices(events)
    begins = {number: {begin for begin, _ in track} for number, track in tracks.items()}
    out = {each["id"]: each for each in events if each["ph"] == "s"}
    into = {each["id"]: each for each in events if each["ph"] == "f"}
    programs = [launched.program for launched in journey.simulated.trace.launches]
    assert len(out) == len(into) == sum(len(program.dependence) for program in programs) > 0
    assert out.keys() == into.keys()
    for number, start in out.items():
        end = into[number]
        assert (start["cat"], start["name"]) == (end["cat"], end["name"]) and end["bp"] == "e"
        assert any(begin <= start["ts"] < over for begin, over in tracks[start["tid"]])
        assert end["ts"] in begins[end["tid"]]
        assert start["ts"] <= end["ts"]


def integral(events: list[dict[str, Any]], name: str) -> Any:
    """Amount times microseconds over a counter's track, which ends at nothing; each of its times is rounded to a
    nanosecond, so it is right within half of one at every change."""
    found = [(each["ts"], *each["args"].values()) for each in events if each["ph"] == "C" and each["name"] == name]
    times, values = (np.array(column, np.float64) for column in zip(*found, strict=True))
    assert (np.diff(times) > 0).all() and (values >= 0).all() and values[-1] == 0
    rounding = 0.5e-3 * abs(np.diff(values, prepend=0)).sum()
    return pytest.approx(float((values[:-1] * np.diff(times)).sum()), abs=rounding)


def test_counters_integrate_to_what_the_trace_says(journey: wb.Journey, events: list[dict[str, Any]]):
    trace = journey.simulated.trace
    micro = trace.machine.microseconds(1)
    moved = trace.via == Via.DRAM
    assert trace.bytes[moved].sum() == trace.counters["dram_read_bytes"] + trace.counters["dram_write_bytes"]
    flying = (trace.bytes[moved] * (trace.done[moved] - trace.start[moved])).sum() * micro
    assert flying == integral(events, "DRAM bytes in flight")
    if "MATMUL" in set(journey.simulated.events.kind):
        stalls = journey.simulated.stalls.set_index("unit")
        busy = stalls.busy[stalls.index.str.contains("mxu")].sum() * micro
        assert busy == integral(events, "arrays busy")
    held = journey.simulated.scratchpad.table
    assert ((held.end - held.start) * held.bytes).sum() * micro == integral(events, "scratchpad in use")
