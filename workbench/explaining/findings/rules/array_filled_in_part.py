"""Rows and columns of an array that stay empty. A weight-stationary array takes the same cycles for a tile with few
rows (a small depth: the terms of each sum) or few columns as for a full one, since each row that streams through it
takes a cycle.

A convolution has a product for each place of its window, whose depth is its input channels: an image of three channels
fills three of 128 rows. If the rows of a window of height h become channels (or its columns, where channels are
innermost), the depth is h times larger and the products h times fewer; the copies for this are short in comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from simulator.analysis.binding import ARRAYS
from simulator.tileprogram.program import Opcode
from workbench.explaining.findings import Facts, Finding, KernelFacts, Remedy, finding, percent
from workbench.explaining.findings.run_facts import bytes_of, channels_innermost, numbers_of
from workbench.explaining.findings.source_changes import FOLDED_WINDOW, call_of
from workbench.ir import Node

FULL = 0.75
_TURNS = 2
"""Tiles of a copy in flight at a time: one slot is filled while the other is emptied."""


@finding("array filled in part")
def array_filled_in_part(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine.array.dataflow != "weight_stationary":
        return
    for kernel in facts.computed:
        program = kernel.scheduled.program
        extent = program.extent[program.opcode == Opcode.MATMUL]
        stream = kernel.part("matmul stream")
        if not len(extent) or not stream:
            continue
        columns, depth = extent[:, 2], extent[:, 3]
        high = -(-depth // machine.array.rows) * machine.array.rows
        wide = -(-columns // machine.array.columns) * machine.array.columns
        work = extent.prod(1)
        filled = float(work.sum() / np.sum(extent[:, 0] * extent[:, 1] * high * wide))
        if filled >= FULL:
            continue
        yield Finding(
            kernel.name,
            round(stream * (1 - filled)),
            f"products fill {percent(filled, 1)} of the arrays: depth {_part(depth, machine.array.rows)} rows, "
            f"{_part(columns, machine.array.columns)} columns in the median product",
            kernel.showing("matmul stream"),
            remedy=_folded(facts, kernel),
            about=ARRAYS,
        )


def _part(extents: npt.NDArray[np.int64], there_are: int) -> str:
    """The part of the array that the median product fills; a larger product takes several passes."""
    median = int(np.median(extents))
    passes = -(-median // there_are)
    return f"{median} of {there_are}" if passes == 1 else f"{median} of {passes} times {there_are}"


def _folded(facts: Facts, kernel: KernelFacts) -> Remedy | None:
    """The remedy for a module's convolution over few channels: a side of its window becomes channels.

    The image is then padded and laid out anew for each row or column of the window. None if these copies would take
    longer than the arrays save. The saving is not predicted; `tried()` measures it.
    """
    given = facts.lowered.captured.paths
    convolutions = [
        node
        for node in facts.lowered.captured.nodes
        if node.name in kernel.nodes and node.op.startswith(("aten.conv2d", "aten.convolution"))
    ]
    if len(convolutions) != 1 or kernel.scheduled is None or not {"kh", "kw", "ic"} <= set(kernel.scheduled.dims):
        return None
    (node,) = convolutions
    path, dims, rows = node.origin.module, kernel.scheduled.dims, facts.machine.array.rows
    if not _is_plain(facts, node, path, given):
        return None
    columns = channels_innermost(facts.lowered.types[node.operands[0]])
    side, channels = dims["kw" if columns else "kh"], dims["ic"]
    fewer = side * -(-channels // rows) / -(-channels * side // rows)  # times as many passes of the arrays
    saved = round(kernel.part("matmul stream") * (1 - 1 / fewer)) - _copies(facts, node, side, columns)
    if side == 1 or saved <= 0:
        return None
    side_of = "columns" if columns else "rows"
    call = call_of(f"{FOLDED_WINDOW}:{path}", f"{_written(path)}, the {side_of} of its window as channels")
    return Remedy(call, change=f"{FOLDED_WINDOW}:{path}")


def _written(path: str) -> str:
    """The line of the model's code that replaces the module at `path`."""
    place = "model"
    for name in path.split(".") if path else ():
        place += f"[{name}]" if name.isdecimal() else f".{name}"
    return f"{place} = wb.folded_window({place})"


def _is_plain(facts: Facts, node: Node, path: str, given: Mapping[str, str]) -> bool:
    """True if a module is only this convolution, run once: one group, zero padding, no dilation."""
    if len(node.operands) < 2 or node.op != "aten.conv2d.default":
        return False
    if len(facts.lowered.types[node.operands[0]].shape) != 4:  # the fold needs a batch
        return False
    image, weight = node.operands[:2]
    padded = any(
        image in other.results and other.origin.module == path
        for other in facts.lowered.captured.nodes
        if "pad" in other.op
    )
    whole = [other for other in facts.lowered.captured.nodes if other.origin.module == path] == [node]
    one_group = facts.lowered.types[image].shape[1] == facts.lowered.types[weight].shape[1]
    own = given.get(weight) == (f"{path}.weight" if path else "weight")
    return own and whole and one_group and not padded and numbers_of(node, 5, 1) == (1, 1)


def _copies(facts: Facts, node: Node, side: int, columns: bool) -> int:
    """Cycles of the launches that pad the image, and lay it out for each row or column of the window.

    Both launches read and write. In the second, each row of the image, or all channels of a window's row, is a run of
    its own, which takes at least one cycle of its queue; one tile is filled while another is stored. In each launch the
    latency of the first load and of the last store is not hidden.
    """
    kind, machine = facts.lowered.types[node.operands[0]], facts.machine
    images, channels, _, wide = kind.shape
    out = facts.lowered.types[node.results[0]].shape
    padded, size = bytes_of(kind), bytes_of(kind) // max(kind.numel, 1)
    runs = images * kind.shape[2] * out[3] if columns else images * channels * side * out[2]
    run = size * (channels * side if columns else wide)
    moved = (2 * padded + padded + runs * run) / float(machine.bus_bytes_per_cycle)
    queued = runs * -(-run // machine.dma.bytes_per_cycle) / _TURNS
    return round(max(moved, queued)) + 4 * (machine.core.launch_overhead_cycles + 2 * machine.dram_latency_cycles)
