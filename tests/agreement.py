"""Checks for tests of single operators: the same numbers as PyTorch, nothing on the host, a trace that could happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import workbench as wb
from simulator.tileprogram.verifier import verify
from simulator.trace.trace import Trace
from tests.flow import Flow, flow
from tests.replaying import replayed
from tests.simulated_records import simulate

MACHINES = ("tpu-v3", "edge-8x8")


def agrees(function: Callable[..., Any], *inputs: Any, machine: str = "edge-8x8", **options: Any) -> Any:
    """The journey of a call whose check is fine and of which no node is on the host."""
    journey = wb.trace(function, *inputs, machine=machine, **options)
    hosted = [item.node.op for item in journey.lowered.record.nodes if item.route == "host"]
    assert not hosted, f"on the host: {hosted}"
    found = journey.check()
    assert found.ok, found.outputs
    return journey


def replays(function: Callable[..., Any], *inputs: torch.Tensor, machine: str = "edge-8x8") -> None:
    """The events of the trace, in their order, compute what PyTorch does; and they keep the simulator's rules."""
    in_trace_order(flow(function, inputs, machine=machine), inputs, 1e-5)


def agrees_on_fresh(
    function: Callable[..., Any],
    traced: Sequence[torch.Tensor],
    fresh: Sequence[torch.Tensor],
    routes: set[str],
    machine: str,
) -> Flow:
    """The program: its nodes take these routes, and on fresh inputs its numbers are PyTorch's."""
    made = flow(function, traced, machine=machine)
    assert {node.route for node in made.lowered.nodes} <= routes
    made.assert_matches_eager(*fresh)
    return made


def in_trace_order(made: Flow, inputs: Sequence[torch.Tensor], tolerance: float) -> Trace:
    """The same of a program that is made already, on these inputs; the trace."""
    for kernel in made.scheduled.kernels:
        verify(kernel.program)
    trace = simulate(made.lowered, made.scheduled, made.machine)
    trace.invariants()
    with torch.no_grad():
        expected = pytree.tree_leaves(made.function(*inputs))
    values = made.captured.values(inputs)
    for ours, theirs in zip(replayed(made, trace, values), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
    return trace


def together(functions: Sequence[Callable[..., torch.Tensor]]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """All of them as one function with a result each: one trace instead of many."""
    return lambda *inputs: tuple(function(*inputs) for function in functions)
