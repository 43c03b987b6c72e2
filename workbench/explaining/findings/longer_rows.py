"""Tensors with longer rows: another axis innermost, by `layout=`."""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import Space, TileProgram
from simulator.units import dma
from workbench.explaining.findings.finding_record import Remedy
from workbench.explaining.findings.run_facts import ComputedFacts, Facts
from workbench.ground.errors import BadOption
from workbench.ir import TensorType
from workbench.ir.dram_blocks import axes_of
from workbench.lowering.layout_options import Layout
from workbench.lowering.layouts import as_in_pytorch, laid_out


def stretches(program: TileProgram, machine: Machine) -> int:
    """Number of stretches of neighbouring bytes that a program's copies move, each of which takes at least one cycle of
    a queue."""
    anywhere = (0,) * len(program.arguments)
    copies = dma.transfers(program, anywhere, machine, dma.in_rows(program))
    return int((copies.bytes / np.maximum(copies.stretch, 1)).sum())


def another_axis_innermost(
    facts: Facts, kernel: ComputedFacts, copies: Iterable[int], left: Container[str]
) -> Remedy | None:
    """The remedy that puts another axis innermost in the tensors that some copies of a kernel move, except those in
    `left`: the longest of their other axes, along which a step or a window may skip nothing.

    None where tensors lie in blocks, which have no such rows; where no other axis has two places; and where views or
    the host need the present order of all these tensors.
    """
    if facts.machine.dram_block:
        return None
    kept = {order.value: order.axes for order in facts.lowered.layouts if order.axes != axes_of(order.given)}
    wanted = dict(kept)
    for value in _moved(facts, kernel, copies):
        turned = _turned(facts.lowered.types[value])
        if turned is not None and value not in left and _allowed(facts, {**wanted, value: turned}):
            wanted[value] = turned
    if wanted == kept:
        return None
    named = {facts.named(value): axes for value, axes in wanted.items()}
    return Remedy(f"j.with_(layout={named})", options={"layout": named})


def _moved(facts: Facts, kernel: ComputedFacts, copies: Iterable[int]) -> list[str]:
    """The tensors in DRAM that some copies of all launches of a kernel move."""
    program = kernel.scheduled.program
    owner = program.owners()
    mine = (program.space == Space.DRAM) & np.isin(owner, [*copies])
    arguments = [int(number) for number in np.unique(program.target[mine])]
    moved = (launch.arguments[number] for launch in kernel.launches for number in arguments)
    return list(dict.fromkeys(facts.base_of(value) for value in moved))


def _turned(kind: TensorType) -> tuple[int, ...] | None:
    """The order of axes with the longest of the outer axes moved innermost; None if that axis has a single place."""
    axes = axes_of(kind)
    longest = max(reversed(axes[:-1]), key=lambda axis: kind.shape[axis], default=None)
    if longest is None or kind.shape[longest] == 1:
        return None
    return (*(axis for axis in axes if axis != longest), longest)


def _allowed(facts: Facts, named: dict[str, tuple[int, ...]]) -> bool:
    try:
        laid_out(as_in_pytorch(facts.lowered), Layout(named=tuple(named.items())))
    except BadOption:
        return False
    return True
