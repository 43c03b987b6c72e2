"""Every program against its golden file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden.golden_files import FOLDER, NAMES, differences, golden, read, write
from workbench.scheduling import heuristic

_HOW = "If that is meant: pytest tests/golden --rewrite-golden"


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", NAMES)
def test_cycles_bytes_and_tiles_are_those_of_the_golden_file(name: str, request: pytest.FixtureRequest):
    made = golden(name)
    if request.config.getoption("--rewrite-golden"):
        write(name, made)
    told = [line.removeprefix("runs ") for line in differences(read(name), made)]
    assert not told, "\n".join([f"{name} is not what its golden file says:", *told, _HOW])


def test_every_golden_file_is_of_a_program():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


@pytest.mark.test_all
def test_a_worse_heuristic_fails_by_name(nothing_kept: None, monkeypatch: pytest.MonkeyPatch):
    """With a slot a buffer no transfer is hidden: the file says which program, machine and kernel, and how much."""
    monkeypatch.setattr(heuristic, "SLOTS", 1)
    monkeypatch.setattr(heuristic, "WEIGHED", (1,))
    told = list(differences(read("matmul_512"), golden("matmul_512")))
    assert any(line.startswith("runs tpu-v3 cycles: ") and "(+" in line for line in told)
    assert any(line.startswith("runs edge-8x8 kernels k0_matmul tile: ") for line in told)


def test_what_differs_is_told_in_words():
    before: dict[str, Any] = {"runs": {"tpu-v3": {"cycles": 1000, "kernels": {"k0": {"order": ["m", "n"]}}}}}
    now: dict[str, Any] = {"runs": {"tpu-v3": {"cycles": 1200, "kernels": {"k1": {"order": ["m", "n"]}}}}}
    assert list(differences(before, now)) == [
        "runs tpu-v3 cycles: 1,000 -> 1,200 (+20.0%)",
        "runs tpu-v3 kernels k0: {'order': ['m', 'n']} -> nothing",
        "runs tpu-v3 kernels k1: nothing -> {'order': ['m', 'n']}",
    ]
