"""Rendered and scheduled kernels as tables and text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np

from simulator.tileprogram.program import Access, Opcode, Operand, Space, TileProgram
from simulator.units.gather import elements
from workbench.explaining.views.kernel_lists.memory_tables import placement_text, residence_text
from workbench.ground.basics.table import Cell, Table
from workbench.ir import HostStep, Kernel, KernelModule, Mapping, ScheduledKernel, ScheduledProgram
from workbench.ir.kernels import USER_SCRIPT

SCHEDULED_COLUMNS = (
    "kernel", "launches", "dims", "tile", "order", "buffers", "instructions", "bytes_read", "bytes_written",
    "scratchpad_bytes", "reason", "cores",
)  # fmt: skip
Selected: TypeAlias = Callable[[str], tuple[int, ...]]
"""The selected lines of a kernel's text, by the kernel's name."""


def rendered_table(modules: tuple[KernelModule, ...], hosts: tuple[Kernel, ...] = ()) -> Table:
    """One row a kernel as MLIR, then one for each step on the host."""

    def row(module: KernelModule) -> tuple[Cell, ...]:
        arguments = tuple(str(kind) for kind in module.arguments)
        absorbed = tuple(f"{gone.node}: {gone.reason}" for gone in module.absorbed)
        return module.kernel, arguments, module.mlir.count("\n") + 1, module.origins, absorbed

    hosted = ((step.name, (), 0, step.nodes, ("no MLIR: PyTorch computes it on the host",)) for step in hosts)
    return Table(("kernel", "arguments", "lines", "nodes", "absorbed"), (*map(row, modules), *hosted))


def rendered_text(
    modules: tuple[KernelModule, ...], hosts: tuple[Kernel, ...] = (), selected: Selected | None = None
) -> str:
    parts = [f"// kernel {module.kernel}\n{marked(module.mlir.strip(), module.kernel, selected)}" for module in modules]
    parts += [f"// {step.name}: no MLIR, PyTorch computes {', '.join(step.nodes)} on the host" for step in hosts]
    return "\n\n".join(parts)


def marked(text: str, kernel: str, selected: Selected | None) -> str:
    """The text, with a `>` before every selected line when there is a selection."""
    if selected is None:
        return text
    lines = set(selected(kernel))
    return "\n".join(
        f"{'> ' if number in lines else '  '}{line}" for number, line in enumerate(text.splitlines(), start=1)
    )


def scheduled_table(program: ScheduledProgram) -> Table:
    """One row a kernel: its launches, its mapping, and the bytes that it moves and holds in the scratchpad."""
    launches = Counter(launch.kernel for launch in program.launches.launches)

    def row(kernel: ScheduledKernel) -> tuple[Cell, ...]:
        mapping, run = kernel.mapping, kernel.program
        dims = tuple(f"{dim}={extent}" for dim, extent in kernel.dims.items())
        tile = tuple(f"{dim}={size}" for dim, size in mapping.tile.items())
        tiling = kernel.kernel, launches[kernel.kernel], dims, tile, mapping.order, mapping.buffers
        moved = dram_bytes(run, Access.READ), dram_bytes(run, Access.WRITE)
        return *tiling, len(run), *moved, run.scratchpad_bytes, mapping.reason, mapping.spread

    hosted = (
        (step.kernel, launches[step.kernel], (), (), (), 0, 0, 0, 0, 0, host_text(step), "") for step in program.hosts
    )
    return Table(SCHEDULED_COLUMNS, (*map(row, program.kernels), *hosted))


def buffers_table(program: TileProgram) -> Table:
    """One row a scratchpad buffer, and its core if there are several."""
    rows: list[tuple[Cell, ...]] = [
        (buffer.name, buffer.offset, buffer.slots, buffer.slot_bytes, buffer.bytes) for buffer in program.buffers
    ]
    columns = ("buffer", "offset", "slots", "slot_bytes", "bytes")
    if program.core.any():
        rows = [(*row, buffer.core) for row, buffer in zip(rows, program.buffers, strict=True)]
        columns = (*columns, "core")
    return Table(columns, tuple(rows))


def instructions_table(program: TileProgram) -> Table:
    """One row an instruction: what it does, on which pieces of memory, and which instructions it waits for."""
    rows: list[tuple[Cell, ...]] = []
    for number in range(len(program)):
        found = program.instruction(number)
        op = program.ops[found.op]
        waits = tuple(source for source, _ in found.dependences)
        origins = tuple(program.origin_names[origin] for origin in found.origins)
        touched = [tuple(_piece(program, each) for each in found.operands if each.access & way) for way in _WAYS]
        rows.append((number, found.opcode.name, found.core, op.name, op.line, *touched, waits, origins))
    return Table(("instr", "kind", "core", "op", "line", "reads", "writes", "waits_for", "origins"), tuple(rows))


_WAYS = (Access.READ, Access.WRITE)


def _piece(program: TileProgram, operand: Operand) -> str:
    """`32x512 of x at 16,384`, in elements; of a buffer with its slot: `32x512 of alloc[1] at 0`."""
    shape = "x".join(map(str, operand.shape)) or "1"
    if operand.space == Space.DRAM:
        name = program.arguments[operand.target].name
    else:
        name = f"{program.buffers[operand.target].name}[{operand.slot}]"
    return f"{shape} of {name} at {operand.offset:,}"


def scheduled_text(program: ScheduledProgram, selected: Selected | None = None) -> str:
    parts = [*filter(None, [residence_text(program), placement_text(program)])]
    parts += [scheduled_kernel_text(kernel, selected) for kernel in program.kernels]
    return "\n\n".join([*parts, *(f"// {step.kernel}: {host_text(step)}" for step in program.hosts)])


def host_text(step: HostStep) -> str:
    """A step on the host in words: its ops, and its cost."""
    return (
        f"host: {step.what}; {step.bytes_in:,} bytes over the host link, {step.bytes_out:,} back, "
        f"{step.flops:,} operations"
    )


def scheduled_kernel_text(kernel: ScheduledKernel, selected: Selected | None = None) -> str:
    """The mapping, the division among cores if there are several, the counts of instructions and bytes, then the
    scheduled module."""
    program = kernel.program
    lines = [
        f"// kernel {kernel.kernel}: {mapping_text(kernel.mapping)}",
        *([f"//   cores: {kernel.mapping.spread}"] if kernel.mapping.spread else []),
        f"//   {instruction_counts(program)}",
        f"//   DRAM {dram_bytes(program, Access.READ):,} bytes read, {dram_bytes(program, Access.WRITE):,} written; "
        f"scratchpad {program.scratchpad_bytes:,} bytes in {len(program.buffers)} buffers",
    ]
    return "\n".join([*lines, marked(kernel.mlir.strip(), kernel.kernel, selected)])


def mapping_text(mapping: Mapping) -> str:
    if mapping.reason == USER_SCRIPT:
        return f"tiled by {USER_SCRIPT}, {mapping.buffers} buffers"
    tile = " x ".join(f"{dim} {size}" for dim, size in mapping.tile.items()) or "the whole"
    order = f", loops {' '.join(mapping.order)}" if mapping.order else ""
    cores = "".join(f", {dim} over {count} cores" for dim, count in mapping.cores.items())
    return f"tile {tile}{order}{cores}, {mapping.buffers} buffers ({mapping.reason})"


def instruction_counts(program: TileProgram) -> str:
    """`12 LOAD, 4 VECTOR, 4 STORE`, in the order of the opcodes."""
    counts = np.bincount(program.opcode, minlength=len(Opcode))
    return ", ".join(f"{counts[code]} {code.name}" for code in Opcode if counts[code]) or "no instructions"


def dram_bytes(program: TileProgram, access: Access) -> int:
    """Bytes that the program's instructions read from, or write to, DRAM."""
    touched = (program.space == Space.DRAM) & ((program.access & access) != 0)
    sizes = elements(program) * program.element_bytes
    return int(sizes[touched].sum())


_LOCATION_NAME = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_ORIGIN = re.compile(r'"aten:(\d+)"')
_MOST_ORIGINS: Final = 5_000_000
"""The most origins of all aliases together; an alias also has those of the aliases that it names."""
_MOST_OPEN: Final = 200
"""The most regions inside each other; MLIR's parser accepts no more."""
_ALIAS = re.compile(r"#loc\d*\b")


def line_origins(located: str, nodes: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """1-based line of the module's text without locations -> the nodes that the op on it comes from.

    `located` is the same text with locations: the same lines, each op's location at its end, and names for
    locations on lines of their own. An op with a region stands on its opening line and has its body's origins too.
    """
    text = [line for line in located.splitlines() if not _LOCATION_NAME.match(line)]
    ids = _named_origins(located)
    found: dict[int, frozenset[int]] = {}
    open_lines: list[tuple[int, set[int]]] = []
    """The lines of open regions, and the origins of each so far."""
    for number, line in enumerate(text, start=1):
        bare = line.strip()
        before, trailing, location = bare.partition(" loc(") if bare.endswith(")") else (bare, "", "")
        mine = _origins_named(location[:-1], ids) if trailing else frozenset[int]()
        if bare.startswith("}") and open_lines:
            first, inside = open_lines.pop()
            if open_lines:
                open_lines[-1][1].update(inside, mine)
            if text[first - 1].strip().startswith(("module", "func.func")):
                continue
            found[first] = mine | inside
        elif mine:
            found[number] = mine
            if open_lines:
                open_lines[-1][1].update(mine)
        if before.endswith("{") and len(open_lines) < _MOST_OPEN:
            open_lines.append((number, set(mine)))
    return {
        number: tuple(nodes[index] for index in sorted(origins)) for number, origins in sorted(found.items()) if origins
    }


def rendered_line_origins(module: KernelModule) -> dict[int, tuple[str, ...]]:
    """1-based line of a rendered kernel -> nodes. All lines of a template's body come from the template's node."""
    if not module.handwritten or len(module.origins) != 1:
        return line_origins(module.located, module.origins)
    lines = enumerate((line.strip() for line in module.mlir.splitlines()), start=1)
    quiet = ("#", "//", "}", "module", "func.func", "return", "^")
    return {number: module.origins for number, line in lines if line and not line.startswith(quiet)}


def scheduled_line_origins(kernel: ScheduledKernel) -> dict[int, tuple[str, ...]]:
    """1-based line of a scheduled kernel -> nodes: by its locations, and by the instructions read off it."""
    program = kernel.program
    found = line_origins(kernel.located, program.origin_names)
    starts: list[int] = program.origin_start.tolist()
    ids: list[int] = program.origin.tolist()
    ops: list[int] = program.op.tolist()
    seen: dict[int, set[int]] = {}
    for number, op in enumerate(ops):
        seen.setdefault(program.ops[op].line, set()).update(ids[starts[number] : starts[number + 1]])
    named = {line: tuple(program.origin_names[origin] for origin in sorted(each)) for line, each in seen.items()}
    return {line: found.get(line) or named[line] for line in sorted(found.keys() | named.keys())}


def line_regions(text: str) -> list[tuple[int, int]]:
    """(first, last) 1-based line of every op that spans several lines, outer ones first."""
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("}") and opened:
            found.append((opened.pop(), number))
        if bare.endswith("{"):
            opened.append(number)
    return sorted(found, key=lambda region: (region[0], -region[1]))


def _named_origins(located: str) -> dict[str, frozenset[int]]:
    """Location alias -> origin ids. Aliases may name aliases that are defined on later lines."""
    matches = (_LOCATION_NAME.match(line) for line in located.splitlines())
    bodies: dict[str, str] = {match.group(1): match.group(2) for match in matches if match}
    ids: dict[str, frozenset[int]] = {}
    room = _MOST_ORIGINS
    for name in bodies:
        waiting = {name: _inner(bodies, name)}
        while waiting:  # no recursion: a text from a file may name aliases in any depth, or in a circle
            last = next(reversed(waiting))
            later = next((other for other in waiting[last] if other not in ids and other not in waiting), None)
            if later is not None:
                waiting[later] = _inner(bodies, later)
                continue
            del waiting[last]
            ids[last] = frozenset(map(int, _ORIGIN.findall(bodies.get(last, ""))))
            if room > 0:
                ids[last] = ids[last].union(*(ids.get(other, frozenset[int]()) for other in _inner(bodies, last)))
                room -= len(ids[last])
    return ids


def _inner(bodies: dict[str, str], name: str) -> Iterator[str]:
    """The aliases that an alias names, each once."""
    return iter(dict.fromkeys(_ALIAS.findall(bodies.get(name, ""))))


def _origins_named(location: str, ids: dict[str, frozenset[int]]) -> frozenset[int]:
    named = (ids.get(alias, frozenset[int]()) for alias in _ALIAS.findall(location))
    return frozenset(map(int, _ORIGIN.findall(location))).union(*named)
