"""Names that a selection may be asked for by: of nodes, kernels, ops, modules, files and lines of Python."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final

from simulator.did_you_mean import nearest
from workbench.explaining.views.selections.origins import OriginIndex
from workbench.ground.errors import AmbiguousSelection, UnknownSelection
from workbench.ir.kernel_names import with_full_kernel

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
        return index.children[name] or (name,)
    return (name,) if name in index.parent else ()


def _exact_op(index: OriginIndex, name: str) -> tuple[str, ...]:
    return _with_op(index, lambda op: op == name)


def _short_op(index: OriginIndex, name: str) -> tuple[str, ...]:
    """`aten.linear` or `linear` for `aten.linear.default`."""
    return _with_op(index, lambda op: name in (op.rpartition(".")[0], op.partition(".")[2].rpartition(".")[0]))


def _with_op(index: OriginIndex, fits: Callable[[str], bool]) -> tuple[str, ...]:
    found = dict[str, None]()
    for name, node in index.captured.items():
        if fits(node.op):
            found.update(dict.fromkeys(index.children[name] or (name,)))
    for item in index.lowered.nodes:
        if fits(item.node.op):
            found[item.node.name] = None
    return tuple(found)


def _module_nodes(index: OriginIndex, name: str) -> tuple[str, ...]:
    """Nodes of an `nn.Module` by its path, those of its submodules included."""
    inside = [
        node.name
        for node in index.captured.values()
        if node.origin.module == name or node.origin.module.startswith(f"{name}.")
    ]
    return tuple(child for node in inside for child in index.children[node] or (node,)) if name else ()


def _source_text(index: OriginIndex, name: str) -> tuple[str, ...]:
    """Nodes of the one place whose text is this."""
    places = [place for place, text in index.sources.items() if text.strip() == name.strip()]
    if len(places) > 1:
        raise AmbiguousSelection(name.strip(), [repr(without_folder(place)) for place in places])
    nodes = [node.name for node in index.captured.values() if places and node.origin.place == places[0]]
    return tuple(child for node in nodes for child in index.children[node] or (node,))


_Find = Callable[[OriginIndex, str], tuple[str, ...]]


EXACT: dict[str, _Find] = {
    "node": _exact_node,
    "kernel": lambda index, name: index.kernel_nodes.get(name, ()),
    "op": _exact_op,
}
SHORT: dict[str, _Find] = {
    "op": _short_op,
    "module": _module_nodes,
    "source line": _source_text,
}


def files_of(index: OriginIndex, name: str) -> list[str]:
    """Files of the user's that this name ends, on whole parts of the path."""
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


MOST_NAMED = 8
"""Kernels that a message lists."""


def without_folder(place: str) -> str:
    """`file.py:12` without the folder."""
    return os.path.basename(place)


def program_of(index: OriginIndex, kernel: str) -> tuple[str, str | None]:
    """The scheduled kernel of this name, and the graph's kernel whose launches alone are meant (None is all)."""
    kernel = with_full_kernel(kernel, [*index.programs, *index.kernel_nodes])
    if kernel in index.programs:
        return kernel, None
    for launch in range(len(index.launches)):
        if index.named(launch) == kernel and index.launches[launch].kernel in index.programs:
            return index.launches[launch].kernel, kernel
    raise UnknownSelection(f"kernel {kernel!r}", close_to(kernel, [*index.programs, *index.kernel_nodes]))
