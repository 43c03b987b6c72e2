"""The places of tensors as tables and text: in DRAM, on chiplets, and in the common memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator import Trace
from workbench.ground.basics.table import Cell, Table
from workbench.ir import AxisOrder, KernelGraph, Residence, ScheduledProgram, Storage
from workbench.ir.dram_blocks import AS_IN_PYTORCH, axes_of
from workbench.scheduling.planning.dram_plan import storage_bytes

RESIDENCE_COLUMNS = (
    "tensor", "path", "bytes", "resident", "first", "last", "from_kernel", "to_kernel", "in_dram", "saved_read_bytes",
    "saved_write_bytes", "would_save_read_bytes", "would_save_write_bytes", "why",
)  # fmt: skip


def layouts_table(lowered: KernelGraph) -> Table:
    """One row a tensor in DRAM with the order of its axes, outermost first."""
    paths = lowered.captured.paths
    rows = tuple(
        (order.value, paths.get(order.value, ""), order.given.shape, order.axes, axes_of(order.given), order.why)
        for order in _orders(lowered)
    )
    return Table(("tensor", "path", "shape", "order", "given_order", "why"), rows)


def storages_table(lowered: KernelGraph, scheduled: ScheduledProgram) -> Table:
    """One row a tensor in DRAM: its axes, its bytes without and with padding, its place and its lifetime."""
    paths = lowered.captured.paths

    def row(each: Storage) -> tuple[Cell, ...]:
        kind, place = lowered.types[each.value], (each.bytes, each.address, each.first, each.last)
        path = paths.get(each.value, "")
        return each.value, path, kind.shape, kind.dtype, axes_of(kind), storage_bytes(kind), *place

    columns = ("tensor", "path", "shape", "dtype", "order", "bytes", "padded_bytes", "address", "first", "last")
    return Table(columns, tuple(map(row, scheduled.launches.storages)))


def layouts_text(lowered: KernelGraph) -> str:
    """The tensors with another order of axes than in PyTorch, and those that had to keep PyTorch's order."""
    paths = lowered.captured.paths
    lines = [f"layout of tensors in DRAM: {laid_anew(lowered)}"]
    for order in lowered.layouts:
        if order.axes != axes_of(order.given) or order.kept:
            axes = AS_IN_PYTORCH if order.kept else f"axes {order.axes}"
            lines.append(f"  {paths.get(order.value, order.value)}: {order.given}, {axes}: {order.why}")
    return "\n".join(lines)


def laid_anew(lowered: KernelGraph) -> str:
    """The number of tensors with another order of axes than PyTorch's, in words."""
    changed = sum(order.axes != axes_of(order.given) for order in lowered.layouts)
    return f"{changed} of {len(lowered.layouts)} have their axes in another order than in PyTorch"


def _orders(lowered: KernelGraph) -> Iterator[AxisOrder]:
    """An entry each storage that kernels use."""
    yield from lowered.layouts
    if not lowered.layouts:
        for value in lowered.storages:
            yield AxisOrder(value, axes_of(lowered.types[value]), lowered.types[value], AS_IN_PYTORCH)


def placement_table(trace: Trace, paths: dict[str, str]) -> Table:
    """One row a tensor in DRAM: its placement, the number of its pages on each chiplet, and the bytes requested by the
    same chiplet and by others. A machine without chiplets has no rows."""
    pages = tuple(f"pages_on_{chiplet}" for chiplet in range(trace.machine.chiplet.count))
    columns = ("tensor", "path", "bytes", "placed", *pages, "local_bytes", "remote_bytes")
    if trace.machine.chiplet.count == 1:
        has = "j.with_(machine=j.machine.with_(chiplets=2, dram_channels=2))"
        return Table(columns, (), f"{trace.machine.label} has no chiplets; a machine with chiplets: {has}")
    from simulator.optional.chiplets.placement import placement_of  # only here: it loads the compiler

    rows = tuple(
        (
            *(each.name, paths.get(each.name, ""), each.bytes),
            trace.machine.chiplet.placement if each.where is None else str(each.where),
            *(*each.pages, each.local, each.remote),
        )
        for each in placement_of(trace)
    )
    return Table(columns, rows)


def placement_text(program: ScheduledProgram) -> str:
    """The user's placement; empty if there is none."""
    if not program.placement:
        return ""
    places = (
        f"{each.path or each.value} {each.policy if each.chiplet is None else f'on chiplet {each.chiplet}'}"
        for each in program.placement
    )
    return f"// placement: {', '.join(places)}; all other tensors by the machine's policy"


def crossed_text(trace: Trace) -> str:
    """The share of DRAM bytes that went from one chiplet to another; empty without chiplets."""
    if trace.machine.chiplet.count == 1:
        return ""
    requested, remote = trace.counters["dram_request_bytes"], trace.counters["dram_remote_bytes"]
    share = remote / max(1, requested)
    return (
        f"{trace.machine.chiplet.count} chiplets: {remote:,} of {requested:,} bytes ({share:.0%}) were on another "
        "chiplet than the requesting one"
    )


def residence_table(program: ScheduledProgram) -> Table:
    """One row a tensor that a kernel takes from another or from outside: whether it stays in the common memory, from
    launch to launch, and why, or why not.

    `in_dram` is False if the tensor lies only in the common memory. `saved_*` are the bytes that the plan spares, 0 for
    a tensor that is not resident; `would_save_*` are the bytes that residence spares or would spare.
    """
    names = [launch.name for launch in program.launches.launches]

    def named(launch: int) -> str:
        return names[launch] if 0 <= launch < len(names) else ""

    rows = tuple(
        (
            *(each.value, each.path, each.bytes, each.resident, each.first, each.last),
            *(named(each.first), named(each.last), not (each.resident and each.alone)),
            *((each.saved_read, each.saved_written) if each.resident else (0, 0)),
            *(each.saved_read, each.saved_written, each.reason),
        )
        for each in program.residence
    )
    why = "there is no plan of the common memory; j.with_(resident='auto') makes one, on a machine with"
    return Table(RESIDENCE_COLUMNS, rows, f"{why} a common memory, such as tpu-v4")


def residence_text(program: ScheduledProgram) -> str:
    """The resident tensors; empty without a plan."""
    if not program.residence:
        return ""
    kept = [each for each in program.residence if each.resident]
    head = (
        f"// common memory: {len(kept)} of {len(program.residence)} tensors stay, at most "
        f"{_most(program, kept):,} bytes at once; this saves {sum(each.saved for each in kept):,} bytes of DRAM"
    )
    lines = [
        f"//   {each.path or each.value}: {each.bytes:,} bytes, launches {each.first} to {each.last}, "
        f"{'not in DRAM at all' if each.alone else f'{each.saved:,} bytes spared'} ({each.reason})"
        for each in kept
    ]
    return "\n".join([head, *lines])


def _most(program: ScheduledProgram, kept: list[Residence]) -> int:
    held = np.zeros(len(program.launches.launches), np.int64)
    for each in kept:
        held[each.first : each.last + 1] += each.bytes
    return int(held.max(initial=0))
