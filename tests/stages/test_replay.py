"""The shared programs replayed in the order of their traces: the timeline computes what the function does."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.flow import flow
from tests.programs import PROGRAMS
from tests.replaying import in_trace_order, replayed
from workbench.stages.simulate import simulate


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_replay_in_trace_order_computes_the_function(name: str, machine: str) -> None:
    program = PROGRAMS[name]
    function, inputs, kwargs = program.build(), program.inputs(), program.kwargs()
    made = flow(function, inputs, kwargs, machine=machine)
    inputs, kwargs = program.inputs(7), program.kwargs(7)
    trace = simulate(made.scheduled, made.machine)
    values = [*made.captured.flatten(inputs, kwargs), *made.captured.live()]
    outputs = replayed(made.lowered, made.scheduled, values, in_trace_order(trace))
    with torch.no_grad():
        expected = pytree.tree_leaves(function(*inputs, **kwargs))
    ours = pytree.tree_leaves(made.captured.rebuild(outputs))
    for mine, reference in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)
