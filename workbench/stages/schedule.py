"""Scheduling: from linalg on tensors to loops over scratchpad tiles, and the tile program read off them.

The steps are in `_prepare` and `_lower`: bring the ops into shape, name their dims, choose a mapping, write it as a
transform script, let MLIR tile, fuse and bufferize, move every tile through the scratchpad, read the program off.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import TypedDict

from simulator.errors import DoesNotFit
from simulator.machine import Machine
from simulator.program import MAX_RANK
from workbench.errors import MappingError
from workbench.ir import (
    KernelGraph,
    KernelModule,
    Launch,
    Launches,
    Mapping,
    ScheduledKernel,
    ScheduledProgram,
)
from workbench.mlir import heuristic
from workbench.mlir.context import parse, print_module
from workbench.mlir.extract import extract
from workbench.mlir.passes import PassTrace, mapping_options
from workbench.mlir.payload import Payload, analyse
from workbench.mlir.tiling import check_order, splits_reduction, transform_script
from workbench.mlir.tosa import TO_LINALG, holds_tosa
from workbench.mlir.verify import verify_scheduled
from workbench.progress import counted


class UserMapping(TypedDict, total=False):
    """What a user may say of one kernel; what is left out stays as the heuristic has it."""

    tile: dict[str, int]
    order: list[str]
    buffers: int
    cores: dict[str, int]


def schedule(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    machine: Machine,
    mapping: Dict[str, UserMapping] | None = None,
) -> ScheduledProgram:
    """Every kernel in the scheduled form for `machine`, and the order of the launches."""
    wanted = dict(mapping or {})
    _check_kernels(wanted, [kernel.name for kernel in lowered.kernels])
    kernels = tuple(
        schedule_kernel(module, machine, wanted.get(module.kernel, wanted.get("*"))) for module in counted(rendered)
    )
    return ScheduledProgram(kernels, _launches(lowered))


def schedule_kernel(rendered: KernelModule, machine: Machine, wanted: UserMapping | None) -> ScheduledKernel:
    """One kernel in the scheduled form. A mapping of the heuristic's that turns out too large is made smaller."""
    payload, mapping = _plan(rendered, machine, wanted)
    while True:
        scheduled = _lower(rendered, machine, mapping, splits_reduction(payload, mapping))
        program = scheduled.program
        if program.scratchpad_bytes <= machine.scratchpad_bytes:
            return scheduled
        smaller = None if wanted else heuristic.shrink(mapping, payload)
        if smaller is None:
            buffers = sorted(((each.name, each.bytes) for each in program.buffers), key=lambda pair: -pair[1])
            raise DoesNotFit(rendered.kernel, program.scratchpad_bytes, machine.scratchpad_bytes, buffers)
        mapping = smaller


def _plan(rendered: KernelModule, machine: Machine, wanted: UserMapping | None) -> tuple[Payload, Mapping]:
    """The kernel's named dims, and the mapping: the user's over the heuristic's."""
    trace = _prepare(rendered, split=False)
    with trace.module.context:
        payload = analyse(trace.module)
    buffers = _checked_buffers(rendered.kernel, wanted)
    if not heuristic.rows_fit(payload, machine, buffers):
        trace = _prepare(rendered, split=True)
        with trace.module.context:
            payload = analyse(trace.module)
    mapping = heuristic.choose(payload, machine, buffers)
    if wanted is not None:
        mapping = _with_users(rendered.kernel, payload, mapping, wanted)
    check_order(rendered.kernel, payload, mapping)
    return payload, mapping


def _prepare(rendered: KernelModule, *, split: bool) -> PassTrace:
    """Brings the ops into the shape that tiling wants: no unit dims, elementwise neighbours fused, every op named."""
    trace = PassTrace(parse(rendered.located))
    if holds_tosa(trace.module):
        trace.run("tosa to linalg", TO_LINALG)
    trace.run("open thin products", "npu-generalize-thin")
    trace.run("drop unit dims", "func.func(linalg-fold-unit-extent-dims),canonicalize,cse")
    trace.run("fuse elementwise", "func.func(linalg-fuse-elementwise-ops),canonicalize,cse")
    trace.run("name the ops", "npu-tag")
    if split:
        trace.run("recompute per pass", "npu-recompute")
        trace.run("fuse recomputed", "func.func(linalg-fuse-elementwise-ops),canonicalize,cse")
        trace.run("name the ops", "npu-tag")
    return trace


def _lower(rendered: KernelModule, machine: Machine, mapping: Mapping, split: bool) -> ScheduledKernel:
    trace = _prepare(rendered, split=split)
    with trace.module.context:
        payload = analyse(trace.module)
    trace.run("attach the schedule", f"npu-attach-schedule{{{mapping_options(mapping)}}}")
    trace.run("tile and fuse", "transform-interpreter")
    trace.run("detach the schedule", "npu-detach-schedule")
    trace.run("reuse outputs", "eliminate-empty-tensors")
    trace.run(
        "bufferize",
        "one-shot-bufferize{bufferize-function-boundaries=true "
        "function-boundary-type-conversion=identity-layout-map},canonicalize,cse,canonicalize",
    )
    trace.run("hoist invariants", "func.func(loop-invariant-code-motion)")
    trace.run("promote to scratchpad", f"npu-promote{{buffers={mapping.buffers}}}")
    trace.run("clean up", "canonicalize,cse")
    text = print_module(trace.module)
    verify_scheduled(text, rendered.kernel)
    program = extract(trace.module, text, rendered.kernel, rendered.origins, machine)
    return ScheduledKernel(
        rendered.kernel,
        text,
        print_module(trace.module, locations=True),
        transform_script(payload, mapping),
        mapping,
        payload.dims,
        tuple(trace.snapshots),
        program,
        rendered.arguments,
    )


def _check_kernels(wanted: dict[str, UserMapping], names: list[str]) -> None:
    for name in wanted:
        if name != "*" and name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise MappingError(name, f"there is no such kernel{hint} Kernels: {', '.join(names)}, or '*' for all")


def _checked_buffers(kernel: str, wanted: UserMapping | None) -> int:
    buffers = (wanted or {}).get("buffers", 2)
    if isinstance(buffers, bool) or not isinstance(buffers, int) or buffers < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MappingError(kernel, f"buffers = {buffers!r}: expected a whole number of slots, 1 or more")
    return buffers


def _with_users(kernel: str, payload: Payload, chosen: Mapping, wanted: UserMapping) -> Mapping:
    """The heuristic's mapping with the user's tile and order in its place, checked."""
    unknown = sorted(set(wanted) - {"tile", "order", "buffers", "cores"})
    if unknown:
        raise MappingError(kernel, f"unknown key {unknown[0]!r}: expected tile, order, buffers or cores")
    tile = dict(wanted.get("tile", {}))
    for dim, size in tile.items():
        if dim not in payload.dims:
            raise MappingError(kernel, f"tile names {dim!r}, but its dims are {_extents(payload)}")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MappingError(kernel, f"tile of {dim} = {size!r}: expected a whole number, 1 or more")
        tile[dim] = min(size, payload.dims[dim])
    wide = [dim for dim, size in (chosen.tile | tile).items() if size > 1]
    if len(wide) > MAX_RANK:
        raise MappingError(kernel, f"a tile has at most {MAX_RANK} dims above 1, this one has {', '.join(wide)}")
    order = tuple(wanted.get("order", chosen.order))
    if sorted(order) != sorted(payload.dims):
        raise MappingError(kernel, f"order {list(order)!r} must name each of its dims once: {_extents(payload)}")
    cores = dict(wanted.get("cores", {}))
    if any(count != 1 for count in cores.values()):
        raise MappingError(kernel, "cores: splitting a kernel over several cores is not supported yet; leave it out")
    return replace(chosen, tile=chosen.tile | tile, order=order, cores=cores, reason="user")


def _extents(payload: Payload) -> str:
    return ", ".join(f"{dim} ({extent})" for dim, extent in payload.dims.items())


_ALIGNMENT = 4096
"""Tensors start at DRAM pages, as an allocator would place them."""


@dataclass
class _Planner:
    """Places every tensor's storage in DRAM, one after the other."""

    addresses: dict[str, int]
    used: int = 0

    def place(self, value: str, size: int) -> int:
        if value not in self.addresses:
            self.addresses[value] = self.used
            self.used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return self.addresses[value]


def _launches(lowered: KernelGraph) -> Launches:
    base = {view.value: view.base for view in lowered.views}
    planner = _Planner({})
    maker: dict[str, int] = {}
    launches: list[Launch] = []
    for number, kernel in enumerate(lowered.kernels):
        arguments = (*kernel.inputs, *kernel.outputs)
        bases = [base.get(value, value) for value in arguments]
        addresses = tuple(planner.place(each, _storage_bytes(lowered, each)) for each in bases)
        after = sorted({maker[each] for each in bases if each in maker})
        origins = tuple(lowered.node(name).parent for name in kernel.nodes)
        launches.append(Launch(kernel.name, arguments, addresses, tuple(after), origins))
        maker.update({base.get(value, value): number for value in kernel.outputs})
    return Launches(tuple(launches), planner.used)


def _storage_bytes(lowered: KernelGraph, value: str) -> int:
    kind = lowered.types[value]
    if kind.numel == 0:
        return 0
    last = kind.offset + sum((extent - 1) * stride for extent, stride in zip(kind.shape, kind.strides, strict=True))
    return (last + 1) * ELEMENT_BYTES[kind.dtype]


ELEMENT_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
