"""The origins of everything: one index over a journey's records, from the timeline back to the line of Python.

A span runs an instruction of a launch; an instruction comes from an op on a line of the scheduled MLIR and carries
kernel-local origin ids; the launch says which nodes these ids stand for; a node stands on a line of Python. Kernels
that several launches share have one text and one program, but each launch has spans and origins of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator import Trace
from simulator.tileprogram.program import Space
from workbench.explaining.views.kernel_lists.kernel_tables import line_origins, line_regions, rendered_line_origins
from workbench.explaining.views.scratchpads.tiles import Tiling, tiling
from workbench.ir import KernelGraph, KernelModule, Launch, Node, ScheduledKernel, ScheduledProgram
from workbench.ir.rewrites import taken_out

Rows = npt.NDArray[np.int64]


class MlirLine(NamedTuple):
    """A 1-based line of a kernel's scheduled MLIR."""

    kernel: str
    line: int


class RenderedLine(NamedTuple):
    """A 1-based line of a kernel's rendered MLIR."""

    kernel: str
    line: int


class InstructionAt(NamedTuple):
    """An instruction of a kernel's tile program, by its number."""

    kernel: str
    instr: int


class BufferAt(NamedTuple):
    """A scratchpad buffer of a kernel's tile program, by its number: row `buffer` of `kernel.buffers`."""

    kernel: str
    buffer: int


class TileAt(NamedTuple):
    """A tile of a kernel: the box in row `tile` of `j.scheduled.tiles(kernel).table`, whoever touches it."""

    kernel: str
    tile: int


class SpanAt(NamedTuple):
    """A span of the timeline: instruction `instr` of launch `launch`."""

    launch: int
    instr: int


@dataclass(frozen=True, eq=False)
class OriginIndex:
    """A journey's records and the links between them, each computed at its first use."""

    lowered: KernelGraph
    rendered: tuple[KernelModule, ...]
    scheduled: ScheduledProgram
    trace: Trace
    sources: Mapping[str, str]
    """`file:line` -> the user's line of Python."""

    @cached_property
    def rendered_texts(self) -> dict[str, list[str]]:
        """Kernel -> the lines of its MLIR on whole tensors."""
        return {module.kernel: module.mlir.splitlines() for module in self.rendered}

    @cached_property
    def scheduled_texts(self) -> dict[str, list[str]]:
        """Kernel -> the lines of its MLIR on tiles."""
        return {name: kernel.mlir.splitlines() for name, kernel in self.programs.items()}

    @property
    def launches(self) -> tuple[Launch, ...]:
        return self.scheduled.launches.launches

    @cached_property
    def captured(self) -> dict[str, Node]:
        return {node.name: node for node in self.lowered.captured.nodes}

    @cached_property
    def children(self) -> dict[str, tuple[str, ...]]:
        """Captured node -> the lowered nodes made of it, in order."""
        found: dict[str, list[str]] = {name: [] for name in self.captured}
        for item in self.lowered.nodes:
            for name in self.lowered.together(item.parent):
                found.setdefault(name, []).append(item.node.name)
        return {name: tuple(names) for name, names in found.items()}

    def lowered_of(self, captured: Iterable[str]) -> tuple[str, ...]:
        """The lowered nodes made of captured nodes; a captured node without any stands for itself."""
        return tuple(child for name in captured for child in self.children[name] or (name,))

    @cached_property
    def parent(self) -> dict[str, str]:
        """Lowered node -> the captured node it was made of."""
        return {item.node.name: item.parent for item in self.lowered.nodes}

    def captured_of(self, name: str) -> tuple[str, ...]:
        """The captured nodes behind a lowered node; a name that is no lowered node stands for itself."""
        return self.lowered.together(self.parent.get(name, name))

    @cached_property
    def kernel_nodes(self) -> dict[str, tuple[str, ...]]:
        """Kernel of the graph -> its lowered nodes: the kernel-local origin id is the place in this tuple."""
        return {kernel.name: kernel.nodes for kernel in self.lowered.kernels}

    @cached_property
    def programs(self) -> dict[str, ScheduledKernel]:
        return {kernel.kernel: kernel for kernel in self.scheduled.kernels}

    @cached_property
    def launch_rows(self) -> tuple[range, ...]:
        """Of each launch, the rows of its spans: instruction `i` is the row `i` places after the first."""
        return tuple(range(rows.start, rows.stop) for rows in self.trace.rows_by_launch)

    def named(self, launch: int) -> str:
        """Name of the graph's kernel that a launch runs."""
        return self.launches[launch].name

    def lowered_of_launch(self, launch: int) -> tuple[str, ...]:
        """The lowered nodes behind the kernel-local origin ids of a launch."""
        return self.kernel_nodes[self.named(launch)]

    # From nodes to spans, and back

    def rows_of_nodes(self, lowered: Iterable[str]) -> Rows:
        """Spans that work for one of these lowered nodes."""
        wanted, found = set(lowered), list[Rows]()
        for launch, rows in enumerate(self.launch_rows):
            ids = [number for number, name in enumerate(self.lowered_of_launch(launch)) if name in wanted]
            if ids and rows:
                first, last = self.trace.origin_start[rows.start], self.trace.origin_start[rows.stop]
                spans = np.repeat(np.asarray(rows), np.diff(self.trace.origin_start[rows.start : rows.stop + 1]))
                found.append(np.unique(spans[np.isin(self.trace.origin[first:last], ids)]))
        return np.concatenate([np.zeros(0, np.int64), *found])

    def nodes_of_rows(self, rows: Rows) -> frozenset[str]:
        """The lowered nodes that these spans work for."""
        starts, ids = self._origin_ids
        found: dict[int, set[int]] = {}
        for row, launch in zip(rows.tolist(), self.trace.launch[rows].tolist(), strict=True):
            found.setdefault(launch, set()).update(ids[starts[row] : starts[row + 1]])
        named = ((self.lowered_of_launch(launch), numbers) for launch, numbers in found.items())
        return frozenset(names[number] for names, numbers in named for number in numbers)

    @cached_property
    def _origin_ids(self) -> tuple[list[int], list[int]]:
        """The trace's kernel-local origin ids: where each span's begin, and the ids."""
        return self.trace.origin_start.tolist(), self.trace.origin.tolist()

    # From instructions to spans, and back

    def rows_of_instructions(self, kernel: str, indices: Iterable[int], only: str | None = None) -> Rows:
        """The spans of a program's instructions, in all its launches or only in those of the graph's kernel `only`."""
        wanted = np.fromiter(indices, np.int64)
        found = [
            rows.start + wanted
            for launch, rows in enumerate(self.launch_rows)
            if self.launches[launch].kernel == kernel and only in (None, self.named(launch)) and rows
        ]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def instructions_of_rows(self, rows: Rows) -> tuple[InstructionAt, ...]:
        owners: list[int] = self.trace.launch[rows].tolist()
        numbers: list[int] = self.trace.instr[rows].tolist()
        pairs = ((self.launches[launch].kernel, number) for launch, number in zip(owners, numbers, strict=True))
        return tuple(dict.fromkeys(InstructionAt(*pair) for pair in pairs if pair[0] in self.programs))

    # From the scratchpad to instructions, and back

    def instructions_of_buffer(self, kernel: str, buffer: int) -> tuple[int, ...]:
        """The instructions that read or write a buffer."""
        program = self.programs[kernel].program
        touching = (program.space == Space.SCRATCHPAD) & (program.target == buffer)
        return tuple(np.unique(program.owners()[touching]).tolist())

    def buffers_of_instructions(self, instructions: Iterable[InstructionAt]) -> tuple[BufferAt, ...]:
        """The buffers that these instructions read or write, kernel by kernel."""
        numbers: dict[str, list[int]] = {}
        for kernel, number in instructions:
            numbers.setdefault(kernel, []).append(number)
        found = list[BufferAt]()
        for kernel, chosen in numbers.items():
            begin, buffers = self._touched(kernel)
            touched = {buffer for number in chosen for buffer in buffers[begin[number] : begin[number + 1]]}
            found += [BufferAt(kernel, buffer) for buffer in sorted(touched)]
        return tuple(found)

    def _touched(self, kernel: str) -> tuple[list[int], list[int]]:
        """The first place of each instruction's buffers in a list of a program's buffers, and the list."""
        if kernel not in self._touching:
            program = self.programs[kernel].program
            inside = program.space == Space.SCRATCHPAD
            count = np.bincount(program.owners()[inside], minlength=len(program))
            self._touching[kernel] = [0, *np.cumsum(count).tolist()], program.target[inside].tolist()
        return self._touching[kernel]

    @cached_property
    def _touching(self) -> dict[str, tuple[list[int], list[int]]]:
        return {}  # a dict and not a cached function, which could not be pickled with a selection

    def tiling_of(self, kernel: str) -> Tiling:
        """The tiles of a kernel of the graph."""
        if kernel not in self._tilings:
            self._tilings[kernel] = tiling(kernel, scheduled=self.scheduled, lowered=self.lowered)
        return self._tilings[kernel]

    @cached_property
    def _tilings(self) -> dict[str, Tiling]:
        return {}

    # From lines to instructions, and back

    def lines_of_instructions(self, instructions: Iterable[InstructionAt]) -> tuple[MlirLine, ...]:
        """The line of the op that each instruction was read off, each once, in the order of the text."""
        found = set[MlirLine]()
        for kernel, index in instructions:
            if kernel in self.programs:
                program = self.programs[kernel].program
                found.add(MlirLine(kernel, program.ops[int(program.op[index])].line))
        order = {name: place for place, name in enumerate(self.programs)}
        return tuple(sorted(found, key=lambda line: (order[line.kernel], line.line)))

    def instructions_at(self, kernel: str, line: int) -> tuple[int, ...]:
        """Instructions read off the op on this line, off the op that the line belongs to, or off ops inside it."""
        scheduled = self.programs[kernel]
        program = scheduled.program
        lines = np.array([op.line for op in program.ops], np.int64)
        at = lines == line
        if not at.any():
            regions = line_regions(scheduled.mlir)
            around = [(first, last) for first, last in regions if first <= line <= last and (lines == first).any()]
            first, last = around[-1] if around else next((r for r in regions if line in r), (line, line))
            at = (lines == first) if around else (lines >= first) & (lines <= last)
        return tuple(np.flatnonzero(at[program.op]).tolist()) if len(program) else ()

    def nodes_at(self, kernel: str, line: int) -> frozenset[str]:
        """The lowered nodes that a scheduled line comes from, whether or not it became an instruction."""
        ids = self._local_ids(kernel).get(line, ())
        owners = [launch for launch in range(len(self.launches)) if self.launches[launch].kernel == kernel]
        return frozenset(self.lowered_of_launch(launch)[int(number)] for launch in owners for number in ids)

    def _local_ids(self, kernel: str) -> dict[int, tuple[str, ...]]:
        """The kernel-local origin ids of each line of a kernel's scheduled MLIR, as text."""
        if kernel not in self._ids:
            scheduled = self.programs[kernel]
            names = tuple(map(str, range(len(scheduled.program.origin_names))))
            self._ids[kernel] = line_origins(scheduled.located, names)
        return self._ids[kernel]

    @cached_property
    def _ids(self) -> dict[str, dict[int, tuple[str, ...]]]:
        return {}

    @cached_property
    def rendered_lines(self) -> dict[str, dict[int, tuple[str, ...]]]:
        """Kernel -> 1-based line of its rendered MLIR -> lowered nodes."""
        return {module.kernel: rendered_line_origins(module) for module in self.rendered}

    def rendered_lines_of(self, lowered: frozenset[str]) -> tuple[RenderedLine, ...]:
        found = [place for name in lowered for place in self._rendered_places.get(name, ())]
        return tuple(line for _, line in sorted(set(found)))

    @cached_property
    def _rendered_places(self) -> dict[str, list[tuple[int, RenderedLine]]]:
        """Lowered node -> its lines of rendered MLIR, each with its place among all lines."""
        found: dict[str, list[tuple[int, RenderedLine]]] = {}
        lines = ((kernel, line, nodes) for kernel, of in self.rendered_lines.items() for line, nodes in of.items())
        for place, (kernel, line, nodes) in enumerate(lines):
            for name in nodes:
                found.setdefault(name, []).append((place, RenderedLine(kernel, line)))
        return found

    # Nodes without an instruction, and why

    @cached_property
    def absorbed(self) -> dict[str, str]:
        """Captured node that no instruction works for -> the reason."""
        working = self.nodes_of_rows(np.arange(len(self.trace), dtype=np.int64))
        alive = {captured for name in working for captured in self.captured_of(name)}
        return {name: self._fate(name) for name in self.captured if name not in alive}

    def _fate(self, node: str) -> str:
        children = self.children[node]
        if not children and (taken := taken_out(self.lowered.rewrites, self.lowered.captured, node)):
            return f"the {taken.kind} {taken.name!r} took it out of the graph"
        if not children and node in self._used:
            return "lowering lets its readers work on its operand directly: no work and no bytes"
        if not children:
            return "nothing uses its result, so it is not computed"
        fates = [self._fates.get(name, "its MLIR runs inside other ops' instructions") for name in children]
        return "; ".join(dict.fromkeys(fates))

    @cached_property
    def _used(self) -> frozenset[str]:
        """Captured nodes that results or changed inputs depend on."""
        graph = self.lowered.captured
        wanted = {*graph.outputs, *(change.value for change in graph.mutations)}
        used: set[str] = set()
        for node in reversed(graph.nodes):
            if wanted.intersection(node.results):
                used.add(node.name)
                wanted.update(node.operands)
        return frozenset(used)

    @cached_property
    def _fates(self) -> dict[str, str]:
        """Lowered node without an instruction -> the reason, if it is recorded."""
        base = self.lowered.bases
        found: dict[str, str] = {}
        for item in self.lowered.nodes:
            if item.route == "view" and len(item.node.operands) > 1:
                found[item.node.name] = "the kernels that make its parts write them where they belong in the result"
            elif item.route == "view":
                value = item.node.results[0]
                view = f"a view: other strides over {base[value]}, no work and no bytes" if value in base else item.rule
                found[item.node.name] = view
        for module in self.rendered:
            found |= {gone.node: gone.reason for gone in module.absorbed}
        for launch in range(len(self.launches)):
            kernel = self.programs.get(self.launches[launch].kernel)
            names = self.lowered_of_launch(launch)
            for gone in kernel.folded if kernel else ():
                found.setdefault(names[gone.origin], gone.reason)
        return found


def without_folder(place: str) -> str:
    """`file.py:12` without the folder."""
    return os.path.basename(place)
