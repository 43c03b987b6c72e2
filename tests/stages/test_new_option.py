"""A new option in a copy of the tree: one field, the stage that reads it, and everything else follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FIELD = """
    nickname: str | None = field(
        default=None,
        metadata=_known("simulated", "what the timeline is called", kept=(str,), flag="NAME"),
    )
"""
READS = '        print(f"simulating {self.request.nickname}")\n'

PROGRAM = """
import inspect
import sys
import torch
import workbench as wb
from workbench.commands import cli

print(wb.__file__)
for verb in (wb.trace, wb.tune, wb.Journey.with_):
    print(inspect.signature(verb).parameters["nickname"])
x = torch.randn(8, 8)
j = wb.trace(torch.relu, x, nickname="one")
cycles = j.simulated.cycles
k = j.with_(nickname="two")
print(k.scheduled.record is j.scheduled.record, k.simulated.cycles == cycles, k.options)
k.save("it.journey")
print(wb.load("it.journey").options)
torch.compile(lambda x: x + 1, backend="npu", options={"nickname": "three"})(x)
print(wb.last_journeys()[-1].options)
try:
    wb.trace(torch.relu, x, nicknam="four")
except wb.errors.UnknownOption as error:
    print(error)
sys.exit(cli.main(["trace", "--help"]))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with the new option, and with what the script writes."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("workbench", "simulator", "templates", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "docs").mkdir()
    for file, before, new in (
        ("workbench/stages/options.py", "\n    @property\n    def options(self)", FIELD),
        ("workbench/stages/pipeline.py", "        from simulator.compiled import when_compiling\n", READS),
    ):
        text = (folder / file).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (folder / file).write_text(text.replace(before, new + before), encoding="utf-8")
    run(folder, "scripts/write_options.py")
    return folder


def run(folder: Path, *command: str) -> str:
    usual = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=usual, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.test_all
def test_a_new_option_is_seen_wherever_options_are(copy: Path):
    told = run(copy, "-c", PROGRAM)
    assert told.splitlines()[0].startswith(str(copy))
    assert told.count("nickname: 'str | None' = None") == 2 and "nickname: 'str | _Keep | None' = unchanged" in told
    assert "simulating one\nsimulating two\nTrue True {'nickname': 'two'}\n{'nickname': 'two'}" in told
    assert "{'nickname': 'three'}" in told
    assert "has no option 'nicknam'; did you mean 'nickname'?" in told
    assert "--nickname NAME" in told and "what the timeline is called" in told
    assert "| `nickname` | `None` | `wb.trace`, `j.with_`, `torch.compile` |" in (copy / "docs/options.md").read_text()
