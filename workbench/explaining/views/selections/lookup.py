"""Selecting in a journey by anything that `Journey.select` takes: records, rows, and names as text."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, SupportsIndex, cast

import numpy as np

from simulator.did_you_mean import nearest
from workbench.explaining.views.selections.origins import (
    BufferAt,
    InstructionAt,
    MlirLine,
    OriginIndex,
    RenderedLine,
    Rows,
    TileAt,
    without_folder,
)
from workbench.explaining.views.selections.selection import Selection
from workbench.ground.errors import AmbiguousSelection, UnknownSelection
from workbench.ground.torch_inside.module_names import OPERATORS
from workbench.ir import Absorbed, LoweredNode, Node
from workbench.ir.kernel_names import with_full_kernel

_PLACED = re.compile(r"(.+):([0-9]{1,18})", re.DOTALL)
_NUMBERED = re.compile(r"(.+)#([0-9]{1,18})", re.DOTALL)
_SPAN = re.compile(r"(?:span )?([0-9,]{0,23}[0-9])")
"""`span 5`, `5`, and as lists write it, `1,204`."""
MOST_NAMED = 8
"""Kernels that a message lists."""
FORMS: Final = (
    "select takes a node, an op or overload, a kernel, a module path, 'file.py:12', a line of source, 'kernel:12' or "
    "(kernel, line) for a line of scheduled MLIR, 'kernel#3' or wb.InstructionAt(kernel, 3) for an instruction, a row "
    "of j.simulated.events or its number for a span, wb.RenderedLine(kernel, line), wb.BufferAt(kernel, number) or "
    "wb.TileAt(kernel, row)"
)
TYPED: Final = (
    "what can be typed is a node, an op (aten.linear), a kernel (k0), a module path, file.py:12, a line of source, "
    "k0:12 for a line of scheduled MLIR, k0#3 for an instruction, or span 5"
)


def _exact_node(index: OriginIndex, name: str) -> tuple[str, ...]:
    if name in index.captured:
        return index.lowered_of([name])
    return (name,) if name in index.parent else ()


def _exact_op(index: OriginIndex, name: str) -> tuple[str, ...]:
    return _with_op(index, lambda op: op == name)


def _short_op(index: OriginIndex, name: str) -> tuple[str, ...]:
    """`aten.linear` or `linear` for `aten.linear.default`."""
    return _with_op(index, lambda op: name in (op.rpartition(".")[0], op.partition(".")[2].rpartition(".")[0]))


def _with_op(index: OriginIndex, fits: Callable[[str], bool]) -> tuple[str, ...]:
    captured = index.lowered_of(name for name, node in index.captured.items() if fits(node.op))
    return tuple(dict.fromkeys([*captured, *(each.node.name for each in index.lowered.nodes if fits(each.node.op))]))


def _module_nodes(index: OriginIndex, name: str) -> tuple[str, ...]:
    """Nodes of an `nn.Module` by its path, those of its submodules included."""
    modules = ((node.name, node.origin.module) for node in index.captured.values() if name)
    return index.lowered_of(node for node, module in modules if f"{module}.".startswith(f"{name}."))


def _source_text(index: OriginIndex, name: str) -> tuple[str, ...]:
    """Nodes of the line of source with this text."""
    places = [place for place, text in index.sources.items() if text.strip() == name.strip()]
    if len(places) > 1:
        raise AmbiguousSelection(name.strip(), [repr(without_folder(place)) for place in places])
    return index.lowered_of(node.name for node in index.captured.values() if node.origin.place in places)


_Find = Callable[[OriginIndex, str], tuple[str, ...]]
EXACT: dict[str, _Find] = {
    "node": _exact_node,
    "kernel": lambda index, name: index.kernel_nodes.get(name, ()),
    "op": _exact_op,
}
SHORT: dict[str, _Find] = {"op": _short_op, "module": _module_nodes, "source line": _source_text}


def files_of(index: OriginIndex, name: str) -> list[str]:
    """The user's files whose paths end with this name, in whole parts."""
    files = dict.fromkeys(node.origin.file for node in index.captured.values() if node.origin.file)
    if name in files:
        return [name]
    return [file for file in files if file.replace(os.sep, "/").endswith("/" + name.lstrip("./"))]


def names_of(index: OriginIndex) -> list[str]:
    ops = [node.op for node in index.captured.values()] + [item.node.op for item in index.lowered.nodes]
    short = [op.partition(".")[2].rpartition(".")[0] for op in ops] + [op.rpartition(".")[0] for op in ops]
    places = [without_folder(node.origin.place) for node in index.captured.values() if node.origin.file]
    modules = [node.origin.module for node in index.captured.values() if node.origin.module]
    return [*dict.fromkeys([*index.captured, *index.parent, *index.kernel_nodes, *ops, *short, *places, *modules])]


def close_to(name: str, known: list[str], forms: str = FORMS) -> str:
    """A guess at the meant name, else the `forms` that a name may have."""
    close = nearest(name, known, most=3, alike=0.5)
    if not close and re.fullmatch(r"k\d+\w*", name):
        kernels = [each for each in known if re.match(r"k\d+_", each)]
        return f"the kernels are {', '.join(kernels[:MOST_NAMED])}{' and more' if len(kernels) > MOST_NAMED else ''}"
    return f"did you mean {' or '.join(map(repr, close))}?" if close else forms


def program_of(index: OriginIndex, kernel: str) -> tuple[str, str | None]:
    """The scheduled kernel of this name, and the graph's kernel whose launches alone the name means (None: all
    launches)."""
    kernel = with_full_kernel(kernel, [*index.programs, *index.kernel_nodes])
    if kernel in index.programs:
        return kernel, None
    for launch in range(len(index.launches)):
        if index.named(launch) == kernel and index.launches[launch].kernel in index.programs:
            return index.launches[launch].kernel, kernel
    raise UnknownSelection(f"kernel {kernel!r}", close_to(kernel, [*index.programs, *index.kernel_nodes]))


def select(index: OriginIndex, what: object) -> Selection:
    """The selection that `what` names: see `Journey.select` for all that it may be."""
    if isinstance(what, Selection):
        return what
    for record, find in _BY_RECORD.items():
        if isinstance(what, record):
            return find(index, *what)
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
    """Launch and instruction of a `SpanAt` or of a row of the events; None for anything else."""
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
    what = f"the span of instruction {instr} in launch {launch}"
    if not 0 <= launch < len(index.launch_rows):
        raise UnknownSelection(what, f"the launches are 0 to {len(index.launch_rows) - 1}")
    rows = index.launch_rows[launch]
    if not 0 <= instr < len(rows):
        raise UnknownSelection(what, f"launch {launch} has {len(rows):,} instructions, counted from 0")
    return rows[instr]


def _of_row(index: OriginIndex, row: int) -> Selection:
    if not 0 <= row < len(index.trace):
        raise UnknownSelection(f"span {row}", f"rows 0 to {len(index.trace) - 1} of j.simulated.events")
    return _from_rows(index, f"span {row}", np.array([row], np.int64))


def _of_instruction(index: OriginIndex, kernel: str, number: int) -> Selection:
    scheduled, only = program_of(index, kernel)
    count = len(index.programs[scheduled].program)
    if not 0 <= number < count:
        raise UnknownSelection(f"instruction {number} of {kernel}", f"its instructions are 0 to {count - 1}")
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


def _of_rendered_line(index: OriginIndex, kernel: str, line: int) -> Selection:
    """The nodes of a line on whole tensors; a line without origins, such as a bracket, stands for itself alone."""
    texts, what = {module.kernel: module.mlir for module in index.rendered}, f"rendered line {line} of {kernel}"
    if kernel not in texts:
        raise UnknownSelection(f"rendered kernel {kernel!r}", close_to(kernel, list(texts)))
    count = texts[kernel].rstrip("\n").count("\n") + 1
    if not 1 <= line <= count:
        raise UnknownSelection(what, f"its rendered MLIR has the lines 1 to {count}")
    nodes = frozenset(index.rendered_lines[kernel].get(line, ()))
    found = _of_nodes(index, what, nodes)
    return found if nodes else replace(found, rendered_lines=(RenderedLine(kernel, line),))


def _of_buffer(index: OriginIndex, kernel: str, buffer: int) -> Selection:
    scheduled, only = program_of(index, kernel)
    buffers = index.programs[scheduled].program.buffers
    if not 0 <= buffer < len(buffers):
        raise UnknownSelection(f"buffer {buffer} of {kernel}", f"it has {len(buffers):,} buffers, counted from 0")
    rows = index.rows_of_instructions(scheduled, index.instructions_of_buffer(scheduled, buffer), only)
    return _from_rows(index, f"buffer {buffers[buffer].name} of {kernel}", rows)


def _of_tile(index: OriginIndex, kernel: str, tile: int) -> Selection:
    """Selects all instructions that touch the same box of the same tensor as row `tile` of the tiles."""
    scheduled, only = program_of(index, kernel)
    touches = index.tiling_of(kernel).touches
    if not 0 <= tile < len(touches):
        raise UnknownSelection(f"tile {tile} of {kernel}", f"its tiles have the rows 0 to {len(touches) - 1}")
    this = touches[tile]
    same = {each.instruction for each in touches if each.box == this.box and each.tensor == this.tensor}
    numbers = sorted(same) if this.box else [this.instruction]
    rows = index.rows_of_instructions(scheduled, numbers, only)
    return _from_rows(index, f"tile {tile} of {kernel}, a box of {this.tensor}", rows)


_BY_RECORD: Final[Mapping[type[tuple[Any, ...]], Callable[..., Selection]]] = {
    InstructionAt: _of_instruction,
    MlirLine: _of_line,
    RenderedLine: _of_rendered_line,
    BufferAt: _of_buffer,
    TileAt: _of_tile,
}


def _of_name(index: OriginIndex, name: str) -> Selection:
    """Selects by a text: exact names first, alone or behind their kind, then places, then short forms, then the number
    of a span."""
    kind, _, named = name.partition(" ")
    kinds = [kind] if kind in EXACT and EXACT[kind](index, named) else list(EXACT)
    exact = named if len(kinds) == 1 else name
    found = [(kind, nodes) for kind in kinds if (nodes := EXACT[kind](index, exact))]
    if len(found) > 1:
        raise AmbiguousSelection(name, [repr(f"{kind} {name}") for kind, _ in found])
    for kind, nodes in found:
        return _of_kernel(index, exact) if kind == "kernel" else _of_nodes(index, f"{kind} {exact}", nodes)
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
    return _of_nodes(index, f"{os.path.basename(name)}:{line}", index.lowered_of(nodes))


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
