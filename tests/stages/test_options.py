"""Options are the fields of `Options`: what takes them, keeps them or reads them says the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields

import pytest
import torch

import workbench as wb
from workbench.commands import cli
from workbench.ir.archive import AS_JSON, Asked
from workbench.journey import KEEP, Journey
from workbench.stages.options import OPTIONS, CompileOptions, Options
from workbench.stages.pipeline import Stages

LATER = {"schedule", "passes"}
"""Options of `with_` alone: they follow from what was scheduled."""
AT_CAPTURE = {"capture", "on_missing", "prefer"}
"""Options of `wb.trace` alone: another one is another trace."""


def _named(verb: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return {name: each for name, each in inspect.signature(verb).parameters.items() if name in OPTIONS}


def test_signatures_have_all_options_with_their_defaults():
    trace, changed = _named(wb.trace), _named(Journey.with_)
    assert trace.keys() == OPTIONS.keys() - LATER and changed.keys() == OPTIONS.keys() - AT_CAPTURE
    usual = {each.name: each.default for each in fields(Options)}
    assert {name: each.default for name, each in trace.items()} == {
        name: "tpu-v3" if usual[name] is MISSING else usual[name] for name in trace
    }
    assert all(each.default is KEEP for each in changed.values())
    assert CompileOptions.__annotations__.keys() == OPTIONS.keys() - LATER - {"capture"}


def test_types_are_the_same_wherever_an_option_is_given():
    trace, changed = _named(wb.trace), _named(Journey.with_)
    given = {name: each.__forward_arg__ for name, each in CompileOptions.__annotations__.items()}
    for name, each in trace.items():
        assert given.get(name, each.annotation) == each.annotation, name
        if name in changed:
            kinds = changed[name].annotation.replace(" | _Keep", "")
            assert kinds == each.annotation, name


def test_each_is_read_first_by_a_stage_and_kept_as_it_says():
    stages = {stage.artefact: stage for stage in Stages.table}
    assert all(name in stages[option.read_by].reads for name, option in OPTIONS.items())
    kept = {name: option.kept for name, option in OPTIONS.items() if option.kept != "no"}
    assert {each.name for each in fields(Asked)} == kept.keys()
    assert {*AS_JSON} == {name for name, how in kept.items() if how == "json"}


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
    assert "resident='all' is no list of names" in capsys.readouterr().err


def test_what_a_journey_keeps_is_its_own():
    off = {"off": ["product epilogue"]}
    j = wb.trace(lambda x, w: torch.relu(x @ w), torch.randn(8, 8), torch.randn(8, 8), machine="edge-8x8", fusion=off)
    off["off"].clear()
    assert len(j.lowered.kernels) == 2 and j.options == {"fusion": {"off": ["product epilogue"]}}
