"""The tensors in DRAM as tables and text: the orders of their axes, their bytes, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ground.basics.table import Table
from workbench.ir import AxisOrder, KernelGraph, ScheduledProgram
from workbench.ir.dram_blocks import AS_IN_PYTORCH, axes_of
from workbench.scheduling.planning.dram_plan import storage_bytes


def layouts_table(lowered: KernelGraph) -> Table:
    """One row a tensor in DRAM with the order of its axes, outermost first."""
    paths = _paths(lowered)
    rows = tuple(
        (order.value, paths.get(order.value, ""), order.given.shape, order.axes, axes_of(order.given), order.why)
        for order in _orders(lowered)
    )
    return Table(("tensor", "path", "shape", "order", "given_order", "why"), rows)


def storages_table(lowered: KernelGraph, scheduled: ScheduledProgram) -> Table:
    """One row a tensor in DRAM: its axes, its bytes without and with padding, its place and its lifetime."""
    paths = _paths(lowered)
    rows = tuple(
        (
            *(each.value, paths.get(each.value, ""), lowered.types[each.value].shape, lowered.types[each.value].dtype),
            *(axes_of(lowered.types[each.value]), storage_bytes(lowered.types[each.value]), each.bytes),
            *(each.address, each.first, each.last),
        )
        for each in scheduled.launches.storages
    )
    columns = ("tensor", "path", "shape", "dtype", "order", "bytes", "padded_bytes", "address", "first", "last")
    return Table(columns, rows)


def layouts_text(lowered: KernelGraph) -> str:
    """The tensors that are laid out anew, and those that could not be."""
    paths = _paths(lowered)
    lines = [f"layout of tensors in DRAM: {laid_anew(lowered)}"]
    for order in lowered.layouts:
        if order.axes != axes_of(order.given) or order.kept:
            axes = AS_IN_PYTORCH if order.kept else f"axes {order.axes}"
            lines.append(f"  {paths.get(order.value, order.value)}: {order.given}, {axes}: {order.why}")
    return "\n".join(lines)


def laid_anew(lowered: KernelGraph) -> str:
    """How many tensors have another order than PyTorch's."""
    changed = sum(order.axes != axes_of(order.given) for order in lowered.layouts)
    return f"{changed} of {len(lowered.layouts)} have their axes in another order than in PyTorch"


def _orders(lowered: KernelGraph) -> Iterator[AxisOrder]:
    """An entry each storage that kernels use."""
    yield from lowered.layouts
    if not lowered.layouts:
        for value in lowered.storages:
            yield AxisOrder(value, axes_of(lowered.types[value]), lowered.types[value], AS_IN_PYTORCH)


def _paths(lowered: KernelGraph) -> dict[str, str]:
    """How the user would write the tensors that are given from outside."""
    return {given.value: given.path for given in lowered.captured.inputs}
