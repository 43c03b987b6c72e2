"""Rows and columns of an array that stay empty. A weight-stationary array takes as many cycles for a tile of few rows
(the depth of the product) or few columns as for a full one, since each row that streams through it takes a cycle.

A convolution has a product for each place of its window, whose depth is its input channels: of an image of three
channels, three of 128 rows. With the rows of the window laid beside each other as channels the depth is so many times
larger and the products so many times fewer; the copies that this takes are short beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.program import Opcode
from workbench.findings.changes import FOLDED_ROWS
from workbench.findings.facts import Facts, KernelFacts, bytes_of
from workbench.findings.record import Finding, Remedy
from workbench.findings.registry import finding
from workbench.findings.words import percent
from workbench.ir import Node

FULL = 0.75


@finding("array filled in part")
def array_filled_in_part(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine.dataflow != "weight_stationary":
        return
    for kernel in facts.computed:
        assert kernel.scheduled is not None
        program = kernel.scheduled.program
        extent = program.extent[program.opcode == Opcode.MATMUL]
        stream = kernel.part("matmul stream")
        if not len(extent) or not stream:
            continue
        columns, depth = extent[:, 2], extent[:, 3]
        high = -(-depth // machine.systolic_rows) * machine.systolic_rows
        wide = -(-columns // machine.systolic_columns) * machine.systolic_columns
        work = extent.prod(1)
        filled = float(work.sum() / np.sum(extent[:, 0] * extent[:, 1] * high * wide))
        if filled >= FULL:
            continue
        remedy, predicted = _folded(facts, kernel)
        yield Finding(
            kernel.name,
            round(stream * (1 - filled)),
            f"products fill {percent(filled, 1)} of the arrays: depth {int(np.median(depth))} of "
            f"{machine.systolic_rows} rows, {int(np.median(columns))} of {machine.systolic_columns} columns in the "
            "middle product",
            kernel.showing("matmul stream"),
            remedy=remedy,
            predicted=predicted,
        )


def _folded(facts: Facts, kernel: KernelFacts) -> tuple[Remedy | None, int | None]:
    """For a convolution of few channels: its window's rows as channels, and what that saves."""
    convolutions = [
        node
        for node in facts.lowered.captured.nodes
        if node.name in kernel.nodes and node.op.startswith(("aten.conv2d", "aten.convolution"))
    ]
    if len(convolutions) != 1 or kernel.scheduled is None or not {"kh", "kw", "ic"} <= set(kernel.scheduled.dims):
        return None, None
    (node,) = convolutions
    dims, rows = kernel.scheduled.dims, facts.machine.systolic_rows
    high, channels = dims["kh"], dims["ic"]
    fewer = high * -(-channels // rows) / -(-channels * high // rows)  # times as many passes of the arrays
    copies = _copies(facts, node, high)
    saved = round(kernel.part("matmul stream") * (1 - 1 / fewer)) - copies
    path = node.origin.module
    laid = facts.lowered.types[node.operands[0]].strides[-1] == 1  # else the copies are of single channels, and long
    if high == 1 or saved <= 0 or not laid:
        return None, None
    where = f"model.{path}" if path else "the convolution"
    call = f"{where} = workbench.findings.changes.folded_rows({where}): rows of the window as channels"
    return Remedy(call, change=f"{FOLDED_ROWS}:{path}"), saved


def _copies(facts: Facts, node: Node, high: int) -> int:
    """Cycles of the launches that pad the image, and lay its rows out for each row of the window: read and written."""
    kind = facts.lowered.types[node.operands[0]]
    out = facts.lowered.types[node.results[0]]
    padded = bytes_of(kind)
    laid = padded // max(kind.shape[-2], 1) * out.shape[-2] * high
    moved = (2 * padded + padded + laid) / float(facts.machine.bus_bytes_per_cycle)
    return round(moved) + 4 * facts.machine.launch_overhead_cycles
