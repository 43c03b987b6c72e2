"""Options are the fields of `Options`: what takes them, keeps them or reads them says the same."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path

import pytest
import torch

import workbench as wb
from scripts import write_options
from tests.fresh_process import python
from workbench.commands import cli
from workbench.ground.errors import BadOption
from workbench.ir import archive
from workbench.journey import Journey
from workbench.stages.options import OPTIONS, options_of_file
from workbench.stages.pipeline import Stages

FIELD = """
    nickname: str | None = option("simulated", "what the timeline is called", kept=(str,), flag="NAME")
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


def test_signatures_and_the_page_are_those_of_the_fields():
    for path, text in write_options.texts(write_options.ROOT):
        assert path.read_text(encoding="utf-8") == text, f"{path} differs; run scripts/write_options.py"
    for verb, takes in ((wb.trace, "trace"), (wb.tune, "trace"), (Journey.with_, "with_")):
        named = {name for name in inspect.signature(verb).parameters if name in OPTIONS}
        assert named == {name for name, option in OPTIONS.items() if takes in option.verbs}


def test_each_is_read_first_by_a_stage():
    stages = {stage.artefact: stage for stage in Stages.table}
    assert all(name in stages[option.read_by].reads for name, option in OPTIONS.items())


def test_a_file_has_the_options_that_differ_and_no_others(tmp_path):
    j = wb.trace(torch.relu, torch.randn(8, 8), machine="edge-8x8", fusion="none", simulate_seconds=60)
    j.save(tmp_path / "it.journey")
    assert archive.load(tmp_path / "it.journey").options == {"fusion": "none"}
    with pytest.raises(BadOption, match="no file has an option 'simulate_seconds'"):
        options_of_file({"simulate_seconds": 60})
    with pytest.raises(BadOption, match="capture must be 'dynamo' or 'export', got 'fx'"):
        options_of_file({"capture": "fx"})
    with pytest.raises(BadOption, match="no file has an option 'colour'"):
        options_of_file({"colour": "red"})
    for name, option in OPTIONS.items():
        if option.kept:
            with pytest.raises(BadOption, match=f"{name}=1.5 is none"):
                options_of_file({name: 1.5})


def test_the_command_line_has_their_flags(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["trace", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    for name, option in OPTIONS.items():
        assert (f"--{name.replace('_', '-')} " in told) == bool(option.flag), name
        assert not option.flag or option.doc in told


def test_flags_are_options_of_the_trace(tmp_path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "model.py"
    file.write_text("import torch\nmodel = lambda x: torch.relu(x + 1) * x\ninputs = (torch.randn(8, 8),)\n")
    flags = ["--fusion", "none", "--on-missing", "error", "--simulate-seconds", "60", "--machine", "edge-8x8"]
    saved = tmp_path / "it.journey"
    assert cli.main(["trace", str(file), "--save", str(saved), *flags]) == cli.OK
    capsys.readouterr()
    loaded = wb.load(saved)
    assert loaded.options == {"fusion": "none", "on_missing": "error"} and loaded.machine.name == "edge-8x8"
    assert len(loaded.lowered.kernels) == 3
    assert cli.main(["trace", str(file), "--resident", "all"]) == cli.USER_ERROR
    assert "resident must be names of tensors" in capsys.readouterr().err


def test_what_a_journey_keeps_is_its_own():
    off = {"off": ["product epilogue"]}
    j = wb.trace(lambda x, w: torch.relu(x @ w), torch.randn(8, 8), torch.randn(8, 8), machine="edge-8x8", fusion=off)
    off["off"].clear()
    assert len(j.lowered.kernels) == 2 and j.options == {"fusion": {"off": ["product epilogue"]}}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with the new option, and with what the script writes."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("workbench", "simulator", "templates", "scripts"):
        shutil.copytree(write_options.ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
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
    return python(*command, cwd=folder, PYTHONPATH=str(folder), COLUMNS="200")


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
