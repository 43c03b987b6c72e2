"""The stages run one after the other without a journey, for tests of the stages themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import workbench.journey  # noqa: F401 - which hands the shipped operators to the registry
from simulator.machine.machine import Machine
from simulator.machine.machine_file import load_machine
from simulator.tileprogram.program import Opcode, Space, TileProgram
from workbench.capturing.live_call import CapturedProgram
from workbench.ir import KernelGraph, KernelModule, ScheduledProgram
from workbench.lowering.lower import lower
from workbench.lowering.product_room import room_of
from workbench.operators.aten.registry import DEFAULT
from workbench.operators.host.host_steps import functions
from workbench.rendering.render import render
from workbench.rendering.write_templates import written
from workbench.running.native_store import default_native_store
from workbench.running.run_program import KernelCache, NativeProgram
from workbench.scheduling.schedule import schedule


@dataclass
class Flow:
    """A program captured, lowered, rendered and scheduled."""

    function: Callable[..., Any]
    captured: CapturedProgram
    lowered: KernelGraph
    rendered: tuple[KernelModule, ...]
    machine: Machine
    scheduled: ScheduledProgram

    def run(self, *inputs: torch.Tensor, kwargs: dict[str, torch.Tensor] | None = None) -> Any:
        """Runs the scheduled MLIR natively."""
        hosts = functions(self.lowered, DEFAULT.now())
        native = NativeProgram.from_scheduled(self.lowered, self.scheduled, KernelCache(default_native_store()), hosts)
        values = self.captured.values(inputs, kwargs)
        return self.captured.rebuild(native.run(values))

    def assert_matches_eager(self, *inputs: torch.Tensor, kwargs: dict[str, torch.Tensor] | None = None) -> None:
        with torch.no_grad():
            expected = self.function(*inputs, **(kwargs or {}))
        ours, theirs = pytree.tree_leaves(self.run(*inputs, kwargs=kwargs)), pytree.tree_leaves(expected)
        for mine, reference in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)


def capture(*args: Any, **kwargs: Any) -> CapturedProgram:
    """Captures as the stage does. The first call imports Dynamo: 1.5 s that collecting tests need not wait for."""
    from workbench.capturing.capture import capture

    return capture(*args, **kwargs)


def flow(
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    kwargs: dict[str, torch.Tensor] | None = None,
    *,
    machine: str | Machine = "tpu-v3",
    mapping: dict[str, Any] | None = None,
    mode: str = "dynamo",
) -> Flow:
    captured = capture(function, inputs, kwargs, mode=mode)
    target = load_machine(machine) if isinstance(machine, str) else machine
    lowered = lower(captured.graph, room=room_of(target))
    rendered = written(lowered, render(lowered), target, mapping)
    return Flow(function, captured, lowered, rendered, target, schedule(lowered, rendered, target, mapping))


def moved(program: TileProgram) -> dict[str, int]:
    """Bytes that a program loads from and stores to each of its arguments: {"arg0": read, "arg1!": written}."""
    total: dict[str, int] = {}
    for index in range(len(program)):
        instruction = program.instruction(index)
        if instruction.opcode not in (Opcode.LOAD, Opcode.STORE):
            continue
        for operand in instruction.operands:
            if operand.space == Space.DRAM:
                name = program.arguments[operand.target].name + ("!" if instruction.opcode == Opcode.STORE else "")
                total[name] = total.get(name, 0) + math.prod(operand.shape) * operand.element_bytes
    return total


def count(program: TileProgram, opcode: Opcode) -> int:
    return int((program.opcode == opcode).sum())
