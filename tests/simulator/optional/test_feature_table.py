"""Optional hardware hangs on its hooks alone: no other file knows it, and a simulator without it is whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.machine.optional.shape_table import SHAPES
from simulator.optional.feature_table import FEATURES
from tests.fresh_process import python

ROOT = Path(__file__).resolve().parents[3]
TABLES = {"simulator/optional": "feature_table.py", "simulator/machine/optional": "shape_table.py"}
"""The folders of optional hardware, and the table in each."""
NAMES = {
    "chiplets": r"[Cc]hiplet|\bplaced:|\Wplaced['\"]|\Wplaced=|NoSuchPlace|page_bytes|dram_placement|POLICIES",
    "common_memory": r"[Cc]ommon.?[Mm]emory|\bcommon_(read|write)|\bresidents\b|\bResident\b",
    "uneven_cores": r"[Uu]neven|core_figures|own_figures|core_kinds|(?<!dram_)clock_ratio",
    "zero_tiles": r"[Zz]ero.?[Tt]ile|skips_zero",
}
"""Name of a feature's folder -> pattern of the lines that speak of the feature."""

MENTIONS = {
    ("simulator/__init__.py", "chiplets"): (4, "`Placed` and `NoSuchPlace` are names that people import"),
    ("simulator/__init__.py", "common_memory"): (5, "so are `Resident` and `CommonMemoryFull`"),
    ("simulator/engine/engine.py", "chiplets"): (6, "`placed` is an argument of `simulate`"),
    ("simulator/engine/engine.py", "common_memory"): (6, "so is `residents`"),
    ("simulator/errors.py", "chiplets"): (2, "errors are below all else, and are caught by name"),
    ("simulator/errors.py", "common_memory"): (5, "likewise"),
    ("simulator/machine/machine_record.py", "chiplets"): (1, "a machine is one record of typed parts"),
    ("simulator/machine/machine_record.py", "common_memory"): (1, "likewise"),
    ("simulator/machine/parts.py", "chiplets"): (19, "the parts: their order is that of figures in files and keys"),
    ("simulator/machine/parts.py", "common_memory"): (6, "likewise"),
    ("simulator/machine/parts.py", "uneven_cores"): (2, "likewise: a figure of every core"),
    ("simulator/machine/parts.py", "zero_tiles"): (1, "likewise"),
    ("simulator/records/spans.py", "common_memory"): (4, "names in trace files, whose format stays"),
}
"""File and name -> how many lines speak of it, and why. A line more is a failure, and so is one less."""


def mentions(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """(file, folder of the hardware) for each line outside the folders that speaks of it."""
    for path in sorted((root / "simulator").rglob("*.py")):
        where = path.relative_to(root).as_posix()
        if where.startswith(tuple(f"{folder}/" for folder in TABLES)):
            continue
        for line in path.read_text().splitlines():
            yield from ((where, name) for name, words in NAMES.items() if re.search(words, line))


def test_no_other_file_speaks_of_optional_hardware():
    found = list(mentions())
    assert {each: found.count(each) for each in found} == {each: lines for each, (lines, _) in MENTIONS.items()}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    if machine.chiplet.count > 1:", "chiplets"),
        ("from simulator.optional.common_memory.residents import held_bytes", "common_memory"),
        ("    if machine.core.own_figures:", "uneven_cores"),
        ("    if machine.core.skips_zero_tiles:", "zero_tiles"),
    ],
)
def test_a_line_that_speaks_of_it_is_found(line: str, name: str, tmp_path: Path):
    (tmp_path / "simulator").mkdir()
    (tmp_path / "simulator" / "engine.py").write_text(f"now = 0\n{line}\n")
    assert list(mentions(tmp_path)) == [("simulator/engine.py", name)]


def test_machines_and_simulations_have_one_order_of_features():
    assert tuple(each.shape for each in FEATURES if each.shape is not None) == SHAPES
    assert {each.name.replace(" ", "_") for each in FEATURES} == set(NAMES)


def seen(root: Path) -> dict[str, object]:
    """Runs `run_without` in a copy of the simulator; returns its output."""
    path = os.pathsep.join([str(root), str(ROOT)])
    module = "tests.simulator.optional.run_without"
    return json.loads(python("-m", module, cwd=root, NUMBA_DISABLE_JIT="1", PYTHONPATH=path))


@pytest.fixture(scope="module")
def whole() -> dict[str, object]:
    return seen(ROOT)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", NAMES)
def test_without_one_the_others_and_all_else_stay(name: str, whole: dict[str, object], tmp_path: Path):
    """Its folders are gone, and its rows in the two tables: all else that a simulator does is what it was."""
    shutil.copytree(ROOT / "simulator", tmp_path / "simulator", ignore=shutil.ignore_patterns("__pycache__"))
    for folder, rows in TABLES.items():
        shutil.rmtree(tmp_path / folder / name, ignore_errors=True)
        (tmp_path / folder / f"{name}_shape.py").unlink(missing_ok=True)
        table = tmp_path / folder / rows
        kept = [line for line in table.read_text().splitlines() if name not in line.lower()]
        table.write_text("\n".join(kept) + "\n")
    found = seen(tmp_path)
    assert str(found.pop("file")).startswith(str(tmp_path))
    assert found.pop("features") == [each.name for each in FEATURES if each.name.replace(" ", "_") != name]
    gone = found.pop(name)
    assert found == {each: told for each, told in whole.items() if each not in (name, "file", "features")}
    assert gone != whole[name]
