"""The whole path on every program of the corpus: numbers, invariants on every machine, replay in trace order."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from simulator.machine.machine_file import load_machine, machine_names
from simulator.tileprogram.verifier import verify
from tests.flow import Flow, capture
from tests.programs import PROGRAMS
from tests.replaying import replayed
from tests.simulated_records import simulate
from workbench.lowering.lower import lower
from workbench.rendering.render import render
from workbench.scheduling.kernel_store import default_store
from workbench.scheduling.schedule import schedule

FRESH = 7
"""Seed of inputs that were not there when the program was traced."""


@functools.cache
def _front(name: str, mode: str) -> tuple[Any, ...]:
    program = PROGRAMS[name]
    function = program.build()
    captured = capture(function, program.inputs(), program.kwargs(), mode=mode)
    lowered = lower(captured.graph)
    return function, captured, lowered, render(lowered)


def made(name: str, machine: str, mode: str = "dynamo") -> Flow:
    function, captured, lowered, rendered = _front(name, mode)
    target = load_machine(machine)
    return Flow(
        function, captured, lowered, rendered, target, schedule(lowered, rendered, target, store=default_store())
    )


@pytest.mark.test_all(but=4)
@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["dynamo", "export"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_on_fresh_inputs_without_a_node_on_the_host(name: str, mode: str):
    for machine in ("tpu-v3", "edge-8x8"):
        flow = made(name, machine, mode)
        assert {node.route for node in flow.lowered.nodes} <= {"automatic", "view"}
        flow.assert_matches_eager(*PROGRAMS[name].inputs(FRESH), kwargs=PROGRAMS[name].kwargs(FRESH))


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_invariants_on_every_machine(name: str):
    for machine in machine_names():
        flow = made(name, machine)
        for kernel in flow.scheduled.kernels:
            verify(kernel.program)
        simulate(flow.lowered, flow.scheduled, flow.machine).invariants()


@pytest.mark.sweep
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_order_of_the_trace_computes_the_results(name: str, machine: str):
    flow = made(name, machine)
    program = PROGRAMS[name]
    inputs, kwargs = program.inputs(FRESH), program.kwargs(FRESH)
    with torch.no_grad():
        expected = pytree.tree_leaves(flow.function(*inputs, **kwargs))
    values = flow.captured.values(inputs, kwargs)
    trace = simulate(flow.lowered, flow.scheduled, flow.machine)
    for ours, theirs in zip(replayed(flow, trace, values), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_hidden_activation_moves_through_dram_only_with_a_reason():
    fusions = made("ffn_residual", "tpu-v3").lowered.fusions
    refused = [item for item in fusions if not item.fused]
    assert any("linear" in item.consumer or "mm" in item.consumer for item in refused)
    assert all(item.reason for item in refused)
