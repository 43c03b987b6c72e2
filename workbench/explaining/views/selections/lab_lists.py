"""The stages of a journey as long lists, which are read page by page, and the rows of a selection in each list.

A list has the argument of `Journey.select` for every row, and the numbers of the rows for a selection: so a page can
show any number of rows, and selecting is the same everywhere.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator import Trace
from simulator.tileprogram.program import Opcode, TileProgram
from workbench.explaining.views.selections.origins import InstructionAt, MlirLine, RenderedLine
from workbench.explaining.views.selections.selection import Selection
from workbench.ground.basics.highlight import mlir_line
from workbench.ir import AtenGraph, KernelGraph, KernelModule, Launch, ScheduledProgram

Marked: TypeAlias = npt.NDArray[np.uint32]
"""Numbers of rows, in order."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row: its cells as HTML (`Markup`) or text, the thing that it selects, and if it is a title."""

    cells: tuple[str, ...]
    thing: object = None
    """The argument of `Journey.select`; None for a row that cannot be selected."""
    head: bool = False
    depth: int = 0


class Listing:
    """A list of known length."""

    title: str
    columns: tuple[str, ...]

    def __len__(self) -> int:
        raise NotImplementedError

    def row(self, number: int) -> ListRow:
        raise NotImplementedError

    def rows_of(self, selection: Selection) -> Marked:
        """The numbers of the rows that a selection has."""
        raise NotImplementedError

    def entries(self) -> int:
        """Rows that a selection may have: all but titles."""
        return len(self)

    def uncut(self) -> Mapping[str, int]:
        """Columns that must not be cut, and the letters of the longest cell of each."""
        return {}

    def outline(self) -> tuple[tuple[int, str], ...]:
        """The first rows of parts of the list, and the parts' titles."""
        return ()

    def widest(self) -> int:
        """Letters of the longest line; 0 for a list whose lines are cut."""
        return 0

    def page(self, first: int, count: int) -> list[ListRow]:
        """Rows from `first` on, as many as there are."""
        return [self.row(number) for number in range(max(first, 0), min(first + count, len(self)))]


class ShortList(Listing):
    """A list whose rows are made at once."""

    def __init__(
        self,
        title: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[str, ListRow]],
        keys: Callable[[Selection], Iterable[str]],
    ) -> None:
        """`rows` are pairs of a key and a row; `keys` returns the keys of a selection's rows."""
        self.title, self.columns, self._keys = title, columns, keys
        self._rows = [row for _, row in rows]
        self._at = {key: number for number, (key, _) in enumerate(rows) if key}

    def __len__(self) -> int:
        return len(self._rows)

    def entries(self) -> int:
        return len(self._at)

    def row(self, number: int) -> ListRow:
        return self._rows[number]

    def rows_of(self, selection: Selection) -> Marked:
        return _sorted(self._at[key] for key in self._keys(selection) if key in self._at)

    def outline(self) -> tuple[tuple[int, str], ...]:
        return tuple((number, row.cells[0]) for number, row in enumerate(self._rows) if row.head)


def source_list(graph: AtenGraph, sources: Mapping[str, str]) -> ShortList:
    """The user's lines of Python that calls come from, file by file."""
    origins = {node.origin.place: node.origin for node in graph.nodes if node.origin.file}
    placed = sorted((str(origin.file), int(origin.line or 0), place) for place, origin in origins.items())
    rows = list[tuple[str, ListRow]]()
    for number, (file, line, place) in enumerate(placed):
        if number == 0 or placed[number - 1][0] != file:
            rows.append(("", ListRow((os.path.basename(file), ""), head=True)))
        rows.append((place, ListRow((str(line), sources.get(place, "").rstrip()), place)))
    return ShortList("Python", ("line", "code"), rows, lambda selection: selection.source_lines)


def call_list(graph: AtenGraph) -> ShortList:
    """The captured ATen calls, in order."""
    rows = list[tuple[str, ListRow]]()
    for node in graph.nodes:
        result = str(graph.types[node.results[0]]) if node.results else ""
        rows.append((node.name, ListRow((node.name, node.op, result, node.origin.module), node)))
    columns = ("call", "op", "result", "module")
    return ShortList("ATen calls", columns, rows, lambda selection: selection.nodes)


def kernel_list(lowered: KernelGraph) -> ShortList:
    """Kernels, each with the nodes that it computes below it, and the views, which no kernel computes."""
    nodes = {item.node.name: item for item in lowered.nodes}
    rows = list[tuple[str, ListRow]]()

    def kernel_key(kernel: str) -> str:
        return f"kernel {kernel}"  # since a node may be called as a kernel is

    def node_row(name: str) -> tuple[str, ListRow]:
        item = nodes[name]
        why = item.rule or (f"by {item.route}" if item.kernel else "")
        return name, ListRow((name, item.node.op, why), item, depth=1)

    for kernel in lowered.kernels:
        row = ListRow((kernel.name, kernel.kind, ""), kernel, head=True)
        rows += [(kernel_key(kernel.name), row), *map(node_row, kernel.nodes)]
    views = [item.node.name for item in lowered.nodes if not item.kernel]
    if views:
        head = ListRow(("views: no kernel, no bytes", "", ""), head=True)
        rows += [("", head), *map(node_row, views)]
    columns = ("kernel", "op", "why here")
    return ShortList("Kernels", columns, rows, lambda chosen: [*map(kernel_key, chosen.kernels), *chosen.lowered])


class _Parts(Listing):
    """A list of parts, one a kernel: its title, then its rows."""

    def __init__(self, parts: Mapping[str, int]) -> None:
        """`parts` are the kernels' numbers of rows."""
        self._names = tuple(parts)
        self._starts = [0, *accumulate(count + 1 for count in parts.values())]
        self._first = {name: start + 1 for name, start in zip(self._names, self._starts, strict=False)}

    def __len__(self) -> int:
        return self._starts[-1]

    def entries(self) -> int:
        return len(self) - len(self._names)

    def outline(self) -> tuple[tuple[int, str], ...]:
        return tuple(zip(self._starts, self._names, strict=False))

    def row(self, number: int) -> ListRow:
        part = bisect_right(self._starts, number) - 1
        kernel, place = self._names[part], number - self._starts[part] - 1
        title = ListRow((kernel, *("" for _ in self.columns[1:])), kernel, head=True)
        return title if place < 0 else self._row(kernel, place)

    def _row(self, kernel: str, place: int) -> ListRow:
        raise NotImplementedError

    def _marked(self, places: Sequence[tuple[str, int]], *, least: int = 0) -> Marked:
        """The rows of (kernel, number) pairs, where a kernel's first number is `least`."""
        return _sorted(self._first[kernel] + number - least for kernel, number in places)


class MlirList(_Parts):
    """The MLIR of all kernels."""

    columns = ("line", "MLIR")

    def __init__(
        self,
        title: str,
        texts: Mapping[str, str],
        line: Callable[[str, int], tuple[str, int]] = MlirLine,
        selected: Callable[[Selection], Sequence[tuple[str, int]]] = lambda selection: selection.mlir_lines,
    ) -> None:
        """`line` makes the argument of `Journey.select` for a line; `selected` are the lines of a selection."""
        self.title, self._line, self._selected = title, line, selected
        self._lines = {kernel: text.rstrip("\n").split("\n") for kernel, text in texts.items()}
        super().__init__({kernel: len(lines) for kernel, lines in self._lines.items()})

    def widest(self) -> int:
        return max((len(line) for lines in self._lines.values() for line in lines), default=0)

    def rows_of(self, selection: Selection) -> Marked:
        return self._marked(self._selected(selection), least=1)

    def _row(self, kernel: str, place: int) -> ListRow:
        return ListRow((str(place + 1), mlir_line(self._lines[kernel][place])), self._line(kernel, place + 1))


def rendered_list(rendered: Sequence[KernelModule]) -> MlirList:
    """Kernels on whole tensors."""
    texts = {module.kernel: module.mlir for module in rendered}
    return MlirList("MLIR on tensors", texts, RenderedLine, lambda selection: selection.rendered_lines)


def scheduled_list(scheduled: ScheduledProgram) -> MlirList:
    """Kernels as loops over tiles."""
    return MlirList("MLIR on tiles", {each.kernel: each.mlir for each in scheduled.kernels})


class InstructionList(_Parts):
    """The tile programs."""

    title, columns = "Instructions", ("no.", "kind", "op", "line", "buffers")

    def __init__(self, scheduled: ScheduledProgram) -> None:
        self._programs: dict[str, TileProgram] = {each.kernel: each.program for each in scheduled.kernels}
        super().__init__({kernel: len(program) for kernel, program in self._programs.items()})

    def rows_of(self, selection: Selection) -> Marked:
        return self._marked(selection.instructions)

    def _row(self, kernel: str, place: int) -> ListRow:
        program = self._programs[kernel]
        op = program.ops[int(program.op[place])]
        touched = ", ".join(program.buffers[number].name for number in program.buffers_of(place))
        cells = (f"#{place}", Opcode(program.opcode[place]).name, op.name, str(op.line), touched)
        return ListRow(cells, InstructionAt(kernel, place))


class SpanList(Listing):
    """The spans of the timeline: row `i` is row `i` of `j.simulated.events`."""

    title, columns = "Spans", ("span", "unit", "kind", "start", "cycles", "kernel")

    def __init__(self, trace: Trace, launches: Sequence[Launch]) -> None:
        self._trace, self._launches = trace, launches

    def __len__(self) -> int:
        return len(self._trace)

    def uncut(self) -> Mapping[str, int]:
        return {"unit": max(map(len, self._trace.unit_names), default=0)}

    def row(self, number: int) -> ListRow:
        trace = self._trace
        start, end = int(trace.start[number]), int(trace.end[number])
        unit, kind = trace.unit_names[int(trace.unit[number])], Opcode(trace.kind[number]).name
        kernel = self._launches[int(trace.launch[number])].name
        cells = (f"{number:,}", unit, kind, f"{start:,}", f"{end - start:,}", kernel)
        return ListRow(cells, number)

    def rows_of(self, selection: Selection) -> Marked:
        return _sorted(selection.spans)

    def outline(self) -> tuple[tuple[int, str], ...]:
        parts = zip(self._launches, self._trace.rows_by_launch, strict=True)
        return tuple((rows.start, launch.name) for launch, rows in parts if rows.stop > rows.start)


def _sorted(rows: Iterable[int]) -> Marked:
    return np.unique(np.fromiter(rows, np.uint32))
