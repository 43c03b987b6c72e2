"""Rendered and scheduled kernels as tables and text."""

from __future__ import annotations

import numpy as np

from simulator.program import Access, Opcode, Space, TileProgram
from workbench.ir import KernelModule, Mapping, ScheduledKernel, ScheduledProgram
from workbench.views.table import Table


def rendered_table(modules: tuple[KernelModule, ...]) -> Table:
    """One row a kernel as MLIR."""
    rows = tuple(
        (
            module.kernel,
            tuple(str(kind) for kind in module.arguments),
            module.mlir.count("\n") + 1,
            module.origins,
            tuple(f"{gone.node}: {gone.reason}" for gone in module.absorbed),
        )
        for module in modules
    )
    return Table(("kernel", "arguments", "lines", "nodes", "absorbed"), rows)


def rendered_text(modules: tuple[KernelModule, ...]) -> str:
    return "\n\n".join(f"// kernel {module.kernel}\n{module.mlir.strip()}" for module in modules)


def scheduled_table(program: ScheduledProgram) -> Table:
    """One row a kernel: how it is tiled, what it moves, and how much of the scratchpad it takes."""
    rows = tuple(
        (
            kernel.kernel,
            tuple(f"{dim}={extent}" for dim, extent in kernel.dims.items()),
            tuple(f"{dim}={size}" for dim, size in kernel.mapping.tile.items()),
            kernel.mapping.order,
            kernel.mapping.buffers,
            len(kernel.program),
            dram_bytes(kernel.program, Access.READ),
            dram_bytes(kernel.program, Access.WRITE),
            kernel.program.scratchpad_bytes,
            kernel.mapping.reason,
        )
        for kernel in program.kernels
    )
    return Table(
        (
            "kernel",
            "dims",
            "tile",
            "order",
            "buffers",
            "instructions",
            "bytes_read",
            "bytes_written",
            "scratchpad_bytes",
            "reason",
        ),
        rows,
    )


def buffers_table(program: TileProgram) -> Table:
    """One row a scratchpad buffer."""
    rows = tuple(
        (buffer.name, buffer.offset, buffer.slots, buffer.slot_bytes, buffer.bytes) for buffer in program.buffers
    )
    return Table(("buffer", "offset", "slots", "slot_bytes", "bytes"), rows)


def passes_table(kernel: ScheduledKernel) -> Table:
    """One row a step from the rendered to the scheduled module."""
    rows = tuple(
        (step.name, round(step.seconds * 1e3, 3), step.ops_before, step.ops_after, step.pipeline)
        for step in kernel.passes
    )
    return Table(("pass", "milliseconds", "ops_before", "ops_after", "pipeline"), rows)


def scheduled_text(program: ScheduledProgram) -> str:
    return "\n\n".join(scheduled_kernel_text(kernel) for kernel in program.kernels)


def scheduled_kernel_text(kernel: ScheduledKernel) -> str:
    """The mapping and what follows from it, then the scheduled module."""
    program = kernel.program
    lines = [
        f"// kernel {kernel.kernel}: {mapping_text(kernel.mapping)}",
        f"//   {instruction_counts(program)}",
        f"//   DRAM {dram_bytes(program, Access.READ):,} bytes read, {dram_bytes(program, Access.WRITE):,} written; "
        f"scratchpad {program.scratchpad_bytes:,} bytes in {len(program.buffers)} buffers",
    ]
    return "\n".join([*lines, kernel.mlir.strip()])


def mapping_text(mapping: Mapping) -> str:
    tile = " x ".join(f"{dim} {size}" for dim, size in mapping.tile.items()) or "the whole"
    order = f", loops {' '.join(mapping.order)}" if mapping.order else ""
    return f"tile {tile}{order}, {mapping.buffers} buffers ({mapping.reason})"


def instruction_counts(program: TileProgram) -> str:
    """`12 LOAD, 4 VECTOR, 4 STORE`, in the order of the opcodes."""
    counts = np.bincount(program.opcode, minlength=len(Opcode))
    return ", ".join(f"{counts[code]} {code.name}" for code in Opcode if counts[code]) or "no instructions"


def dram_bytes(program: TileProgram, access: Access) -> int:
    """Bytes that the program's instructions read from, or write to, DRAM."""
    touched = (program.space == Space.DRAM) & ((program.access & access) != 0)
    sizes = program.shape.prod(axis=1) * program.element_bytes
    return int(sizes[touched].sum())
