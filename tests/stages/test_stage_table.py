"""The table of stages: what a changed option makes anew, and what is shared."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.stages.journey_request import Request
from workbench.stages.options import OPTIONS
from workbench.stages.pipeline import Stages

ALL = Stages.table
STAGES = tuple(stage for stage in ALL if not stage.beside)


def test_each_stage_is_made_from_those_before_it_and_each_option_is_read_first_by_one():
    seen = set[str]()
    for stage in ALL:
        assert set(stage.inputs) <= seen, stage.artefact
        seen.add(stage.artefact)
    assert [stage.artefact for stage in STAGES][-1] == "simulated" and len(ALL) == len(STAGES) + 3
    read = [option for stage in ALL for option in stage.reads]
    of_registrations = "rewrites"  # which patterns and graph passes there are, of which `fusion` turns some off
    of_the_machine = "room"  # the little that grouping knows of it: another machine may have the same
    assert sorted(read) == sorted((of_registrations, of_the_machine, *OPTIONS))
    assert {*read} - {of_the_machine} <= {each.name for each in fields(Request)}


CHANGED = {
    "fusion": ({"fusion": "none"}, "rewritten"),
    "layout": ({"layout": {"0.weight": (1, 0)}}, "grouped"),
    "mapping": ({"mapping": {"*": {"buffers": 1}}}, "imported"),
    "machine": ({"machine": "tpu-v4"}, "imported"),
    "machine without blocks": ({"machine": "edge-8x8"}, "grouped"),
    "resident": ({"resident": ["0.weight"]}, "tiled"),
    "placement": ({"placement": {"0.weight": 0}}, "tiled"),
    "simulate_seconds": ({"simulate_seconds": 100}, "scheduled"),
}
"""Options, and the last artefact that is left of the journey."""


@pytest.mark.parametrize("options, last", CHANGED.values(), ids=CHANGED)
def test_what_an_option_does_not_touch_is_shared(options: dict[str, object], last: str):
    machine = wb.machine("tpu-v4", chiplets=2, cores=2)
    j = wb.trace(nn.Sequential(nn.Linear(64, 64), nn.ReLU()), torch.randn(8, 64), machine=machine)
    changed = j.with_(**options)  # type: ignore[arg-type]
    shared = [
        stage.artefact
        for stage in STAGES
        if getattr(changed._stages, stage.artefact) is getattr(j._stages, stage.artefact)
    ]
    names = [stage.artefact for stage in STAGES]
    assert shared == names[: names.index(last) + 1]
    assert changed._stages.kernels is j._stages.kernels and changed._stages.sources is j._stages.sources
    assert changed._stages.origins is not j._stages.origins
    assert changed.with_(**options) is changed  # type: ignore[arg-type]


@pytest.mark.parametrize("machine, last", [("edge-8x8", "rewritten"), ("tpu-v4", "imported")])
def test_a_machine_with_another_room_groups_anew_what_depends_on_it(machine: str, last: str):
    """`edge-8x8` holds no whole rows of this product, `tpu-v4` has the room of `tpu-v3`."""
    j = wb.trace(lambda x, w: torch.softmax(x @ w, -1), torch.randn(64, 256), torch.randn(256, 512))
    _ = j.rendered
    changed = j.with_(machine=machine)
    names = [stage.artefact for stage in STAGES]
    shared = [name for name in names if getattr(changed._stages, name) is getattr(j._stages, name)]
    assert shared[: names.index(last) + 1] == names[: names.index(last) + 1] and "tiled" not in shared
    assert ("grouped" in shared) == (len(changed.lowered.kernels) == len(j.lowered.kernels))


def test_products_of_one_operand_are_grouped_anew_for_another_machine():
    """Their gain from one kernel depends on the speeds of the machine's arrays and memory."""
    j = wb.trace(lambda x, a, b: (x @ a, x @ b), *(torch.randn(64, 64) for _ in range(3)))
    _ = j.rendered
    assert j.with_(machine="tpu-v4")._stages.grouped is not j._stages.grouped


@pytest.mark.parametrize("options", [{"mapping": {"*": {"buffers": 1}}}, {"machine": "tpu-v4"}], ids=str)
def test_what_is_rendered_is_made_anew_for_templates_alone(options: dict[str, object]):
    for function, shared in ((torch.softmax, True), (torch.cumsum, False)):
        j = wb.trace(function, torch.randn(8, 8), 1)
        _ = j.rendered
        stages = j.with_(**options)._stages  # type: ignore[arg-type]
        assert (stages.rendered is j._stages.rendered) == shared and stages.imported is j._stages.imported
        assert stages.tiled is not j._stages.tiled
        fused = j.with_(fusion="none")._stages
        assert fused.rendered is not j._stages.rendered and fused.imported is not j._stages.imported


def test_seconds_are_those_of_each_stage_without_those_before_it():
    j = wb.trace(torch.softmax, torch.randn(8, 8), 1)
    began = time.perf_counter()
    _ = j.scheduled
    took = time.perf_counter() - began
    assert sum(j.seconds[name] for name in ("render", "schedule", "plan")) <= took
