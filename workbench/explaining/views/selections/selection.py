"""Selecting anything in a journey, with all that belongs to it."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import SupportsIndex, cast

import numpy as np
from markupsafe import Markup

from workbench.explaining.views.selections.naming import (
    EXACT,
    FORMS,
    SHORT,
    TYPED,
    close_to,
    files_of,
    names_of,
    program_of,
    without_folder,
)
from workbench.explaining.views.selections.origins import (
    BufferAt,
    InstructionAt,
    MlirLine,
    OriginIndex,
    RenderedLine,
    Rows,
    TileAt,
)
from workbench.explaining.views.selections.selection_lines import (
    headed,
    instruction_lines,
    line_text,
    rows_html,
    span_lines,
)
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.shown import Shown
from workbench.ground.errors import AmbiguousSelection, BadOption, UnknownSelection
from workbench.ground.torch_inside.module_names import OPERATORS
from workbench.ir import Absorbed, LoweredNode, Node
from workbench.ir.kernel_names import with_full_kernel

_PLACED = re.compile(r"(.+):([0-9]{1,18})", re.DOTALL)
_NUMBERED = re.compile(r"(.+)#([0-9]{1,18})", re.DOTALL)
_SPAN = re.compile(r"(?:span )?([0-9,]{0,23}[0-9])")
"""`span 5`, `5`, and as lists write it, `1,204`."""


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """One thing seen at every stage at once. Each entry can be selected in turn."""

    what: str
    """The selected thing, in words."""
    nodes: tuple[str, ...]
    """Captured nodes, in order."""
    kernels: tuple[str, ...]
    """Kernels of the lowered graph, in launch order."""
    mlir_lines: tuple[MlirLine, ...]
    """Lines of the scheduled MLIR whose ops became the selected instructions: (kernel, line)."""
    instructions: tuple[InstructionAt, ...]
    """(kernel, index) in the kernel's tile program."""
    spans: tuple[int, ...]
    """Rows of `j.simulated.events`."""
    source_lines: tuple[str, ...]
    """`file:line` in the user's code."""
    rendered_lines: tuple[RenderedLine, ...] = ()
    """Lines of the rendered MLIR: (kernel, line)."""
    lowered: tuple[str, ...] = ()
    """Nodes after decomposition, in order."""
    absorbed: tuple[Absorbed, ...] = ()
    """Selected nodes that no instruction works for, with the reason."""
    buffers: tuple[BufferAt, ...] = ()
    """Scratchpad buffers that the selected instructions read or write: (kernel, number)."""
    index: OriginIndex | None = field(default=None, compare=False)

    @property
    def cycles(self) -> int:
        """Unit cycles that the selected spans take."""
        if self.index is None:
            return 0
        rows, trace = list(self.spans), self.index.trace
        return int((trace.end[rows] - trace.start[rows]).sum())

    @checks_what_it_is_given
    def lines_of(self, kernel: str, stage: str = "scheduled") -> tuple[int, ...]:
        """The selected lines of one kernel's text; `stage` is scheduled or rendered."""
        if stage not in ("scheduled", "rendered"):
            raise BadOption(f"stage={stage!r} has no lines that are selected; expected 'scheduled' or 'rendered'")
        lines = self.mlir_lines if stage == "scheduled" else self.rendered_lines
        return tuple(line for name, line in lines if name == kernel)

    def __repr__(self) -> str:
        return (
            f"Selection({self.what}: {_count(self.nodes, 'node')}, {_count(self.kernels, 'kernel')}, "
            f"{_count(self.mlir_lines, 'line')}, {_count(self.instructions, 'instruction')}, "
            f"{_count(self.spans, 'span')}, {_count(self.source_lines, 'source line')})"
        )

    def text(self) -> str:
        """The thread from Python to the timeline, a part a stage."""
        return "\n".join(f"{head:<12} {line}" for part, lines in self.parts() for head, line in headed(part, lines))

    def parts(self) -> list[tuple[str, list[str]]]:
        """(stage, lines), from the user's code to the timeline: what `text` and the page show."""
        index = self.index
        if index is None:
            return []
        sources = [
            f"{without_folder(place)}  {index.sources.get(place, '').strip()}".rstrip() for place in self.source_lines
        ]
        nodes = [f"{name} = {index.captured[name].op}{_module(index.captured[name])}" for name in self.nodes]
        folded = [f"{gone.node}: {gone.reason}" for gone in self.absorbed]
        rendered = [line_text(line, index.rendered_texts) for line in self.rendered_lines]
        scheduled = [line_text(line, index.scheduled_texts) for line in self.mlir_lines]
        made = [
            ("python", sources),
            ("captured", nodes),
            ("absorbed", folded),
            ("lowered", [f"{kernel}: {', '.join(self._of_kernel(kernel))}" for kernel in self.kernels]),
            ("rendered", rendered),
            ("scheduled", scheduled),
            ("instructions", instruction_lines(index, self.instructions)),
            ("simulated", span_lines(index, self.spans, self.cycles)),
        ]
        return [(stage, lines) for stage, lines in made if lines]

    def _of_kernel(self, kernel: str) -> tuple[str, ...]:
        nodes = self.index.kernel_nodes[kernel] if self.index else ()
        return tuple(name for name in nodes if name in self.lowered)

    def html(self) -> Markup:
        """The same as a table that needs nothing else."""
        rows = joined(map(rows_html, self.table_rows()))
        return markup.fragment(html('<p><b>{}</b></p><table class="thread">{}</table>', self.what, rows))

    def table_rows(self) -> list[tuple[tuple[str, str], ...]]:
        """The rows of that table, stage by stage: titles and lines."""
        return [tuple(headed(part, lines)) for part, lines in self.parts()]


def select(index: OriginIndex, what: object) -> Selection:
    """The selection that `what` names: see `Journey.select` for all that it may be."""
    if isinstance(what, Selection):
        return what
    if isinstance(what, InstructionAt):
        return _of_instruction(index, *what)
    if isinstance(what, MlirLine):
        return _of_line(index, *what)
    if isinstance(what, RenderedLine):
        return _of_rendered_line(index, what)
    if isinstance(what, BufferAt):
        return _of_buffer(index, what)
    if isinstance(what, TileAt):
        return _of_tile(index, what)
    place = _launch_and_instr(what)
    if place is not None:
        return _of_row(index, _row(index, *place))
    row = _whole(what)
    if row is not None and not isinstance(what, bool):
        return _of_row(index, row)
    pair = _kernel_and_line(what)
    if pair is not None:
        return _of_line(index, *pair)
    name = _name_of(what)
    if name is None:
        raise UnknownSelection(f"a {type(what).__name__}", FORMS)
    return _of_name(index, name)


def _kernel_and_line(what: object) -> tuple[str, int] | None:
    parts = cast("tuple[object, ...]", what) if isinstance(what, tuple) else ()
    if len(parts) != 2 or not isinstance(parts[0], str):
        return None
    line = _whole(parts[1])
    return None if line is None else (parts[0], line)


def _whole(what: object) -> int | None:
    """A whole number of any kind; None for anything else, such as an array of several."""
    if not isinstance(what, SupportsIndex) or isinstance(what, type):
        return None
    try:
        return operator.index(what)
    except TypeError:
        return None


def _name_of(what: object) -> str | None:
    """The name in a text, in a record or handle that has one, or in an op of PyTorch's."""
    if isinstance(what, str):
        return what
    if isinstance(what, LoweredNode):
        return what.node.name
    if type(what).__module__ == OPERATORS:
        return str(what)
    name = cast(object, getattr(what, "name", None))
    return name if isinstance(name, str) else None


def _launch_and_instr(what: object) -> tuple[int, int] | None:
    """Launch and instruction of a `SpanAt`, or of a row of the events, which has both among other things."""
    row = cast("Mapping[str, object]", what)
    if isinstance(what, (str, int, LoweredNode, Node)):
        return None
    if hasattr(what, "launch") and hasattr(what, "instr"):
        found = cast(object, getattr(what, "launch")), cast(object, getattr(what, "instr"))  # noqa: B009
    elif isinstance(what, Mapping) and "launch" in row and "instr" in row:
        found = row["launch"], row["instr"]
    else:
        return None
    launch, instr = map(_whole, found)
    return None if launch is None or instr is None else (launch, instr)


def _row(index: OriginIndex, launch: int, instr: int) -> int:
    rows = index.launch_rows[launch] if 0 <= launch < len(index.launch_rows) else range(0)
    if not 0 <= instr < len(rows):
        raise UnknownSelection(
            f"the span of instruction {instr} in launch {launch}",
            f"launches 0 to {len(index.launch_rows) - 1}; this one has {len(rows)} instructions",
        )
    return rows[instr]


def _of_row(index: OriginIndex, row: int) -> Selection:
    if not 0 <= row < len(index.trace):
        raise UnknownSelection(f"span {row}", f"rows 0 to {len(index.trace) - 1} of j.simulated.events")
    return _from_rows(index, f"span {row}", np.array([row], np.int64))


def _of_instruction(index: OriginIndex, kernel: str, number: int) -> Selection:
    scheduled, only = program_of(index, kernel)
    count = len(index.programs[scheduled].program)
    if not 0 <= number < count:
        raise UnknownSelection(f"instruction {number} of {kernel}", f"0 to {count - 1}")
    rows = index.rows_of_instructions(scheduled, [number], only)
    return _from_rows(index, f"instruction {number} of {kernel}", rows)


def _of_line(index: OriginIndex, kernel: str, line: int) -> Selection:
    scheduled, only = program_of(index, kernel)
    count = index.programs[scheduled].mlir.rstrip("\n").count("\n") + 1
    if not 1 <= line <= count:
        raise UnknownSelection(f"line {line} of {kernel}", f"its scheduled MLIR has the lines 1 to {count}")
    what = f"line {line} of {kernel}"
    numbers = index.instructions_at(scheduled, line)
    if numbers:
        return _from_rows(index, what, index.rows_of_instructions(scheduled, numbers, only))
    nodes = index.nodes_at(scheduled, line)
    if only:
        nodes &= set(index.kernel_nodes[only])
    return _made(index, what, np.zeros(0, np.int64), nodes, also=(MlirLine(scheduled, line),))


def _of_rendered_line(index: OriginIndex, at: RenderedLine) -> Selection:
    """The nodes of a line on whole tensors; a line without origins, such as a bracket, stands for itself alone."""
    texts = {module.kernel: module.mlir for module in index.rendered}
    if at.kernel not in texts:
        raise UnknownSelection(f"rendered kernel {at.kernel!r}", close_to(at.kernel, list(texts)))
    count = texts[at.kernel].rstrip("\n").count("\n") + 1
    if not 1 <= at.line <= count:
        raise UnknownSelection(
            f"rendered line {at.line} of {at.kernel}", f"its rendered MLIR has the lines 1 to {count}"
        )
    nodes = frozenset(index.rendered_lines[at.kernel].get(at.line, ()))
    found = _of_nodes(index, f"rendered line {at.line} of {at.kernel}", nodes)
    return found if nodes else replace(found, rendered_lines=(at,))


def _of_buffer(index: OriginIndex, at: BufferAt) -> Selection:
    scheduled, only = program_of(index, at.kernel)
    buffers = index.programs[scheduled].program.buffers
    if not 0 <= at.buffer < len(buffers):
        raise UnknownSelection(f"buffer {at.buffer} of {at.kernel}", f"it has {len(buffers)}, from 0 on")
    rows = index.rows_of_instructions(scheduled, index.instructions_of_buffer(scheduled, at.buffer), only)
    return _from_rows(index, f"buffer {buffers[at.buffer].name} of {at.kernel}", rows)


def _of_tile(index: OriginIndex, at: TileAt) -> Selection:
    """The box in a row of the tiles, and so all instructions that touch the same box of the same tensor."""
    scheduled, only = program_of(index, at.kernel)
    touches = index.tiling_of(at.kernel).touches
    if not 0 <= at.tile < len(touches):
        raise UnknownSelection(f"tile {at.tile} of {at.kernel}", f"its tiles have the rows 0 to {len(touches) - 1}")
    this = touches[at.tile]
    same = {each.instruction for each in touches if each.box == this.box and each.tensor == this.tensor}
    numbers = sorted(same) if this.box else [this.instruction]
    rows = index.rows_of_instructions(scheduled, numbers, only)
    return _from_rows(index, f"tile {at.tile} of {at.kernel}, a box of {this.tensor}", rows)


def _of_name(index: OriginIndex, name: str) -> Selection:
    """A text: exact names first, then places, then short forms, then the number of a span."""
    found = [(kind, nodes) for kind, find in EXACT.items() if (nodes := find(index, name))]
    if len(found) > 1:
        raise AmbiguousSelection(name, [f"{kind} {name!r}" for kind, _ in found])
    for kind, nodes in found:
        return _of_kernel(index, name) if kind == "kernel" else _of_nodes(index, f"{kind} {name}", nodes)
    placed, numbered = _PLACED.fullmatch(name), _NUMBERED.fullmatch(name)
    kernels = {*index.programs, *index.kernel_nodes}
    full = with_full_kernel(name, index.kernel_nodes)
    if full != name:
        return _of_name(index, full)
    if numbered and numbered.group(1) in kernels:
        return _of_instruction(index, numbered.group(1), int(numbered.group(2)))
    if placed and placed.group(1) in kernels:
        return _of_line(index, placed.group(1), int(placed.group(2)))
    if placed and (files := files_of(index, placed.group(1))):
        return _of_source(index, placed.group(1), int(placed.group(2)), files)
    for kind, find in SHORT.items():
        if nodes := find(index, name):
            return _of_nodes(index, f"{kind} {name.strip()}", nodes)
    if span := _SPAN.fullmatch(name.strip()):
        return _of_row(index, int(span.group(1).replace(",", "")))
    raise UnknownSelection(repr(name), close_to(name, names_of(index), TYPED))


def _of_source(index: OriginIndex, name: str, line: int, files: list[str]) -> Selection:
    if len(files) > 1:
        raise AmbiguousSelection(f"{name}:{line}", [f"{file}:{line}" for file in files])
    here = [node for node in index.captured.values() if node.origin.file == files[0]]
    nodes = [node.name for node in here if node.origin.line == line]
    if not nodes:
        lines = sorted({str(node.origin.line) for node in here}, key=int)
        raise UnknownSelection(
            f"{name}:{line}", f"no op comes from this line; ops come from the lines {', '.join(lines)}"
        )
    lowered = tuple(child for node in nodes for child in index.children[node] or (node,))
    return _of_nodes(index, f"{os.path.basename(name)}:{line}", lowered)


def _of_kernel(index: OriginIndex, kernel: str) -> Selection:
    launches = [number for number in range(len(index.launches)) if index.named(number) == kernel]
    spans = np.array([row for number in launches for row in index.launch_rows[number]], np.int64)
    return _made(index, f"kernel {kernel}", spans, frozenset(index.kernel_nodes[kernel]), kernels=(kernel,))


def _of_nodes(index: OriginIndex, what: str, lowered: Iterable[str]) -> Selection:
    nodes = frozenset(lowered)
    return _made(index, what, index.rows_of_nodes(nodes), nodes)


def _from_rows(index: OriginIndex, what: str, rows: Rows) -> Selection:
    return _made(index, what, rows, index.nodes_of_rows(rows))


def _made(
    index: OriginIndex,
    what: str,
    rows: Rows,
    lowered: frozenset[str],
    *,
    kernels: tuple[str, ...] = (),
    also: tuple[MlirLine, ...] = (),
) -> Selection:
    """The selection of these spans and nodes. A captured node that was lowered to nothing stands for itself."""
    wanted = {captured for name in lowered for captured in index.captured_of(name)}
    nodes = tuple(name for name in index.captured if name in wanted)
    instructions = index.instructions_of_rows(rows)
    hosts = {index.named(int(launch)) for launch in np.unique(index.trace.launch[rows])} | set(kernels)
    if not len(rows):
        hosts |= {name for name, members in index.kernel_nodes.items() if lowered.intersection(members)}
    return Selection(
        what=what,
        nodes=nodes,
        kernels=tuple(name for name in index.kernel_nodes if name in hosts),
        mlir_lines=tuple(dict.fromkeys((*index.lines_of_instructions(instructions), *also))),
        instructions=instructions,
        spans=tuple(rows.tolist()),
        source_lines=tuple(
            dict.fromkeys(index.captured[n].origin.place for n in nodes if index.captured[n].origin.file)
        ),
        rendered_lines=index.rendered_lines_of(lowered),
        buffers=index.buffers_of_instructions(instructions),
        lowered=tuple(item.node.name for item in index.lowered.nodes if item.node.name in lowered),
        absorbed=tuple(Absorbed(name, index.absorbed[name]) for name in nodes if name in index.absorbed),
        index=index,
    )


def _module(node: Node) -> str:
    return f"   in {node.origin.module}" if node.origin.module else ""


def _count(items: tuple[object, ...], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"
