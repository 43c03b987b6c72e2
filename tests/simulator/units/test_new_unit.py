"""A hardware unit of a new kind is one file: a script adds it to the table, and all else reads its description."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from scripts import write_units
from tests.fresh_process import python

ROOT = Path(__file__).resolve().parents[3]
ENGINE = Path(__file__).with_name("transpose_engine.py")
TILES, ELEMENTS = 4, 64 * 256


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drawn")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, drawn: Path) -> dict[str, Any]:
    """A run in a copy of the simulator that has the engine: of its other files none is changed."""
    copy = tmp_path_factory.mktemp("copy")
    for package in ("simulator", "workbench", "templates"):  # which belong together: workbench takes no other simulator
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ENGINE, copy / "simulator" / "units")
    written = [write_units.main(["--root", str(copy), *check]) for check in (["--check"], [], ["--check"])]
    assert written == [1, 0, 0]
    path = os.pathsep.join([str(copy), str(ROOT)])
    module = "tests.simulator.units.run_transposes"
    return json.loads(python("-m", module, drawn, cwd=copy, NUMBA_DISABLE_JIT="1", PYTHONPATH=path))


def test_each_tile_is_turned_by_one_of_two_engines(run: dict[str, Any]):
    rows = [row for row in run["rows"] if row[0] == "TRANSPOSE"]
    each, lanes = run["figures"]["each"], run["figures"]["lanes"]
    vectors = 64 * -(-256 // lanes)
    assert [end - start for _, _, start, end in rows] == [vectors * each + vectors] * TILES
    assert {unit for _, unit, _, _ in rows} == {"turn0", "turn1"}


def test_it_waits_for_its_tiles_and_others_for_it(run: dict[str, Any]):
    of_kind = {kind: [row for row in run["rows"] if row[0] == kind] for kind in ("LOAD", "TRANSPOSE", "STORE")}
    for load, turn, store in zip(*of_kind.values(), strict=True):
        assert load[3] <= turn[2]
        assert turn[3] <= store[2]


def test_its_stalls_have_a_name_and_add_up(run: dict[str, Any]):
    stalls = {row["unit"]: row for row in run["stalls"]}
    assert {"turn0", "turn1"} <= set(stalls)
    assert sum(row["turning"] for row in stalls.values()) == TILES * 64 * -(-256 // run["figures"]["lanes"])
    assert all(row["total"] == run["cycles"] for row in stalls.values())
    assert all(row["turning"] == 0 for unit, row in stalls.items() if not unit.startswith("turn"))
    for unit in ("turn0", "turn1"):
        held = sum(end - start for _, on, start, end in run["rows"] if on == unit)
        assert stalls[unit]["busy"] + stalls[unit]["turning"] == held


def test_its_energy_is_counted_in_the_figure_it_names(run: dict[str, Any]):
    spent = {(unit, kind): (count, each) for unit, kind, count, each in run["energy"]}
    assert spent["transpose", "turned"][0] == TILES * ELEMENTS
    assert spent["transpose", "turned"][1] > 0
    assert spent["scratchpad", "byte"][0] == TILES * ELEMENTS * 4 * 4  # each tile comes in, is read, written, goes out


def test_it_is_on_the_critical_path_and_in_the_statistics(run: dict[str, Any]):
    path = dict(map(tuple, run["path"]))
    assert sum(path.values()) == run["cycles"]
    assert path["transpose rows"] > 0
    assert path["transpose columns"] > 0
    assert 0 < run["stats"]["transpose_busy_share"] < 1
    assert min(run["slack"]) == 0


def test_it_has_lanes_on_the_timeline(run: dict[str, Any], drawn: Path):
    lines = run["text"].splitlines()
    assert any(line.startswith("turn0") for line in lines)
    assert "transpose" in lines[-2]
    assert (drawn / "timeline.png").stat().st_size > 5_000


def test_what_it_computes_on_lies_in_the_scratchpad(run: dict[str, Any]):
    assert "TRANSPOSE" in run["on_dram"]
    assert "computes on DRAM" in run["on_dram"]


def test_it_has_a_place_at_banked_memory_and_in_a_network(run: dict[str, Any]):
    queues, scalar, engines, cores = 8, 1, 2, 2
    assert run["beside_banks"] == [cores * (queues + scalar + engines)] * 2
