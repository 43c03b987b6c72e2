"""Checks that kernels, launches and the trace of a journey belong together: they may come from any file.

`graph_checks` checks each record by itself, and the simulator checks programs and traces. This module checks what the
records say of one another: every index and every name must exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np

from simulator.errors import ProgramError
from simulator.records.spans import HOST_STEPS
from simulator.tileprogram.program import Opcode, TileProgram
from simulator.tileprogram.verifier import LARGEST, verify_tables
from simulator.trace.trace import Trace
from workbench.ir.codec import RecordFormatError
from workbench.ir.graph_checks import MOST, absent, numbers_mistakes, work_mistakes
from workbench.ir.kernel_identity import nameless, without_origins
from workbench.ir.kernels import HOST, KernelGraph, KernelModule, Launches, ScheduledKernel, ScheduledProgram

_ORIGIN = re.compile(r'"aten:(\d+)"')


def check_together(
    lowered: KernelGraph, rendered: tuple[KernelModule, ...], scheduled: ScheduledProgram, trace: Trace
) -> None:
    """Raises `RecordFormatError` for the first mistakes between these records."""
    for mistakes in (
        _rendered_mistakes(lowered, rendered),
        _kernel_mistakes(lowered, scheduled),
        _template_mistakes(rendered, scheduled),
        _launch_mistakes(lowered, scheduled),
        _plan_mistakes(lowered, scheduled),
        _trace_mistakes(scheduled, trace),
    ):
        if found := [*islice(mistakes, MOST)]:
            raise RecordFormatError("; ".join(found))


def _rendered_mistakes(lowered: KernelGraph, rendered: tuple[KernelModule, ...]) -> Iterator[str]:
    kernels = {kernel.name: kernel for kernel in lowered.kernels if kernel.kind != HOST}
    names = [module.kernel for module in rendered]
    if sorted(names) != sorted(kernels):
        yield (
            f"the rendered kernels are {', '.join(names[:4])}, but the graph's kernels are {', '.join([*kernels][:4])}"
        )
        return
    for module in rendered:
        where, kernel = f"kernel {module.kernel!r}", kernels[module.kernel]
        if len(module.arguments) != len(kernel.inputs) + len(kernel.outputs):
            yield f"{where} is rendered with {len(module.arguments)} arguments"
        yield from _origins_of(where, module.located, len(module.origins))
        behind = sorted({*module.origins, *(gone.node for gone in module.absorbed)})
        yield from absent(behind, kernel.nodes, f"{where} comes from ", ", which is not its node")


def _template_mistakes(rendered: tuple[KernelModule, ...], scheduled: ScheduledProgram) -> Iterator[str]:
    """Yields a mistake if a scheduled text is not the template's, or if it differs with and without origins: one text
    is read into a program, the other runs."""
    runs = {launch.name: launch.kernel for launch in scheduled.launches.launches}
    kernels = {kernel.kernel: kernel for kernel in scheduled.kernels}
    for module in rendered:
        where, written = f"kernel {module.kernel!r}", module.written
        if module.handwritten != (written is not None):
            yield (
                f"{where}: a template's kernel, and no other, must say for which machine and mapping its text was "
                "written"
            )
        kernel = kernels.get(runs.get(module.kernel, ""))
        if written is None or kernel is None:
            continue
        if not 0 <= written.origin < len(module.origins):
            yield f"{where} was written for origin {written.origin}, but has only {len(module.origins)}"
        if without_origins(module.located) != module.mlir:
            yield f"{where} has different texts with and without origins"
        texts = (nameless(module.mlir, module.kernel), nameless(kernel.mlir, kernel.kernel))
        if texts[0] != texts[1]:
            yield f"{where} is scheduled with another text than its template has written"
        if written.dims != kernel.dims or (written.mapping.tile, written.mapping.buffers) != (
            kernel.mapping.tile,
            kernel.mapping.buffers,
        ):
            yield f"{where} is scheduled with other dims or tiles than its template has written"


def _origins_of(where: str, located: str, count: int) -> Iterator[str]:
    """Yields a mistake for each location with an unknown origin."""
    for number in _ORIGIN.findall(located):
        if len(number) > len(str(count)) or int(number) >= count:
            yield f"{where} has a location of origin {number[:20]}, but only {count} origins"


def _kernel_mistakes(lowered: KernelGraph, scheduled: ScheduledProgram) -> Iterator[str]:
    names = [kernel.kernel for kernel in scheduled.kernels]
    steps = [step.kernel for step in scheduled.hosts]
    known = {kernel.name for kernel in lowered.kernels}
    if len({*names, *steps}) < len(names) + len(steps) or not {*names, *steps} <= known:
        yield f"the scheduled kernels are {', '.join([*names, *steps][:4])}; expected kernels of the graph, once each"
    for step in scheduled.hosts:
        if not 0 <= min(step.bytes_in, step.bytes_out, step.flops) <= max(step.bytes_in, step.bytes_out) <= LARGEST:
            yield f"{step.kernel!r} moves {step.bytes_in} and {step.bytes_out} bytes, for {step.flops} operations"
        for work in step.work:
            yield from work_mistakes(work)
    for kernel in scheduled.kernels:
        yield from _program_mistakes(kernel, kernel.program)


def _program_mistakes(kernel: ScheduledKernel, program: TileProgram) -> Iterator[str]:
    where = f"kernel {kernel.kernel!r}"
    try:
        verify_tables(program)
    except ProgramError as error:
        yield f"{where}: {error}"
        return
    if program.kernel != kernel.kernel:
        yield f"{where} has the program of {program.kernel!r}"
    if len(program.arguments) != len(kernel.arguments):
        yield f"{where} has {len(kernel.arguments)} arguments, but its program {len(program.arguments)}"
    if np.any(program.opcode == Opcode.HOST):
        yield f"{where} has a step on the host among its instructions"
    lines = len(kernel.mlir.splitlines())
    yield from (f"{where} has no line {op.line}: it has {lines}" for op in program.ops if not 1 <= op.line <= lines)
    count = len(program.origin_names)
    yield from _origins_of(where, kernel.located, count)
    yield from (f"{where} has folded origin {gone.origin}" for gone in kernel.folded if not 0 <= gone.origin < count)
    dims, mapping = kernel.dims.keys(), kernel.mapping
    strange = {*mapping.tile, *mapping.order, *mapping.cores} - dims
    if strange or len({*mapping.order}) < len(mapping.order):
        yield f"{where} has the dims {[*dims]}, and is mapped by {[*mapping.tile, *mapping.order, *mapping.cores]}"
    sizes = [*kernel.dims.values(), *kernel.mapping.tile.values(), *kernel.mapping.cores.values()]
    if min(sizes, default=1) < 0 or not 0 <= kernel.mapping.buffers <= LARGEST:
        yield f"{where} has dims {kernel.dims}, tiles {kernel.mapping.tile} and {kernel.mapping.buffers} buffers"


def _launch_mistakes(lowered: KernelGraph, scheduled: ScheduledProgram) -> Iterator[str]:
    graph = {kernel.name: kernel for kernel in lowered.kernels}
    captured = {node.name for node in lowered.captured.nodes}
    programs = {kernel.kernel: kernel for kernel in scheduled.kernels}
    steps = {step.kernel for step in scheduled.hosts}
    for number, launch in enumerate(scheduled.launches.launches):
        where, own = f"launch {number}", graph.get(launch.name)
        if own is None or launch.kernel not in programs.keys() | steps:
            yield f"{where} runs {launch.kernel!r} for {launch.name!r}, which does not exist"
            continue
        if launch.kernel in programs:
            program = programs[launch.kernel].program
            if len(launch.arguments) != len(program.arguments) or len(launch.origins) != len(program.origin_names):
                yield f"{where} has {len(launch.arguments)} arguments and {len(launch.origins)} origins"
            if len(own.nodes) != len(program.origin_names):
                yield f"{where} is of {len(own.nodes)} nodes, its program of {len(program.origin_names)}"
        elif len(launch.origins) != 1:
            yield f"{where} is a step on the host of {len(launch.origins)} origins"
        if len(launch.addresses) != len(launch.arguments) or not min(launch.addresses, default=0) >= 0:
            yield f"{where} has {len(launch.arguments)} arguments at {launch.addresses[:4]}"
        if max(launch.addresses, default=0) > LARGEST:
            yield f"{where} has an argument beyond byte {LARGEST:,}"
        yield from absent(launch.arguments, lowered.types, f"{where} has ", ", which has no type")
        yield from absent(launch.origins, captured, f"{where} has the origin ", ", which was not captured")
        yield from (f"{where} waits for launch {other}" for other in launch.after if not 0 <= other < number)


def _plan_mistakes(lowered: KernelGraph, scheduled: ScheduledProgram) -> Iterator[str]:
    launches: Launches = scheduled.launches
    count = len(launches.launches)
    for storage in launches.storages:
        where = f"the storage of {storage.value!r}"
        if storage.value not in lowered.types:
            yield f"{where} belongs to no value"
        if not (storage.address >= 0 and storage.bytes >= 0 and storage.end <= min(launches.dram_bytes, LARGEST)):
            yield f"{where} is from byte {storage.address} to {storage.end} of {launches.dram_bytes}"
        if not -1 <= storage.first <= storage.last <= count:
            yield f"{where} lives from launch {storage.first} to {storage.last} of {count}"
    named = {name for launch in launches.launches for name in launch.arguments}
    yield from numbers_mistakes(launches.numbers, named)
    stored = {storage.value for storage in launches.storages}
    for each in scheduled.residence:
        if not (0 <= each.bytes <= LARGEST and -1 <= each.first <= each.last <= count and each.value in stored):
            yield f"{each.value!r} stays with {each.bytes} bytes from launch {each.first} to {each.last} of {count}"
    yield from absent([each.value for each in scheduled.placement], stored, "", " has a place, but no storage")


def _trace_mistakes(scheduled: ScheduledProgram, trace: Trace) -> Iterator[str]:
    launches = scheduled.launches.launches
    programs = {kernel.kernel: kernel.program for kernel in scheduled.kernels}
    if tuple(trace.kernels) != tuple(launch.kernel for launch in launches):
        yield f"{len(trace.kernels)} launches were simulated, but the program has {len(launches)}, or other ones"
        return
    counts = np.bincount(trace.launch, minlength=len(launches))
    edges = np.concatenate([[0], np.cumsum(counts)])
    for number, launch in enumerate(launches):
        program, rows = programs.get(launch.kernel), slice(int(edges[number]), int(edges[number + 1]))
        length = HOST_STEPS if program is None else len(program)
        if counts[number] != length:
            yield f"launch {number} has {counts[number]} spans, for {length} instructions"
            continue
        kinds = np.full(length, int(Opcode.HOST)) if program is None else program.opcode
        cores = np.zeros(length, np.int32) if program is None else program.core
        if np.any(trace.kind[rows] != kinds) or np.any(trace.core[rows] != cores):
            yield f"the spans of launch {number} are not those of its instructions"
        first, last = int(trace.origin_start[rows.start]), int(trace.origin_start[rows.stop])
        if int(trace.origin[first:last].max(initial=-1)) >= len(launch.origins):
            yield f"a span of launch {number} has an origin that the launch does not have"
