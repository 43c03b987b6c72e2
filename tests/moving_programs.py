"""Programs that move data or make known contents: the same as eager on the machines asked for, without the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from simulator.machine.machine_file import load_machine
from simulator.tileprogram.verifier import verify
from tests.flow import Flow, capture
from tests.replaying import replayed
from tests.simulated_records import simulate
from workbench.lowering.lower import lower
from workbench.rendering.render import render
from workbench.rendering.write_templates import written
from workbench.running.native_store import default_native_store
from workbench.running.run_program import KernelCache, NativeProgram
from workbench.scheduling.schedule import schedule

MACHINES = ("edge-8x8", "tpu-v3")

CACHE = KernelCache(default_native_store())
"""One for all cases: the same small copy comes again and again."""


def tensor(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, tuple(shape), generator=generator).to(dtype)


def assert_same(
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    *,
    replay: bool = True,
    machines: Sequence[str] = MACHINES,
    tolerance: float = 0.0,
) -> list[Flow]:
    """The same values with the same strides as eager on every machine; on the first also in the trace's order."""
    with torch.no_grad():
        expected = pytree.tree_leaves(function(*inputs))
    captured = capture(function, inputs)
    lowered = lower(captured.graph, on_missing="error")
    imported = render(lowered)
    flows: list[Flow] = []
    for machine in machines:
        target = load_machine(machine)
        rendered = written(lowered, imported, target)
        made = Flow(function, captured, lowered, rendered, target, schedule(lowered, rendered, target))
        for kernel in made.scheduled.kernels:
            verify(kernel.program)
        trace = simulate(made.lowered, made.scheduled, target)
        trace.invariants()
        values = captured.values(inputs, None)
        got = pytree.tree_leaves(
            captured.rebuild(NativeProgram.from_scheduled(lowered, made.scheduled, CACHE).run(values))
        )
        _compare(got, expected, tolerance)
        if replay and machine == machines[0]:
            _compare(replayed(made, trace, values), expected, max(tolerance, 1e-6))
        flows.append(made)
    return flows


def _compare(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float) -> None:
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
        strides = [s for n, s in zip(theirs.shape, theirs.stride(), strict=True) if n > 1]
        assert [s for n, s in zip(mine.shape, mine.stride(), strict=True) if n > 1] == strides
