"""Names that a person recognises: paths of modules and short names of ops. In calls, identifiers stay what they are.

`layers.3.conv1 + bn1 + relu` is the title of the kernel `k41_conv2d_native_batch_norm_legit_no_training_relu`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from workbench.ground.basics.table import Table
from workbench.ir import STEP, AtenGraph, HostWork, KernelGraph, ScheduledProgram, between_text

_MOST = 4
"""Parts that a title has; further ones are counted."""
_INTERNAL = re.compile(r"^_+|^native_|_legit(_no_training|_no_stats)?$|_with_.*$")
"""Suffixes that PyTorch adds to an op's name for its implementations."""


def short_op(op: str) -> str:
    """`batch_norm` for `aten._native_batch_norm_legit_no_training.default`: the name alone, as a person calls it."""
    name = op.partition(".")[2].rpartition(".")[0] or op
    while (shorter := _INTERNAL.sub("", name)) not in (name, ""):
        name = shorter
    return name


@dataclass(frozen=True)
class Titles:
    """The titles of a graph's nodes, each of them and several together."""

    graph: AtenGraph

    def node(self, name: str) -> str:
        """The title of one captured node: its module's path if this op is all that the module does, else the path and
        the op."""
        return self._known.get(name, (name, name))[0]

    def together(self, names: Iterable[str]) -> str:
        """The title of several captured nodes: the first gives the place, the others only their ops."""
        each = enumerate(dict.fromkeys(names))
        return _joined([self._known.get(name, (name, name))[place > 0] for place, name in each])

    @cached_property
    def _known(self) -> dict[str, tuple[str, str]]:
        """Captured node -> its title, and its op in a word. The second node with the same title gets a `_1` at the
        end."""
        paths = {node.origin.module for node in self.graph.nodes}
        holders = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "."}
        ops_in: dict[str, set[str]] = {}
        for node in self.graph.nodes:
            ops_in.setdefault(node.origin.module, set()).add(node.op)
        found, stepped = dict[str, tuple[str, str]](), stepped_for(self.graph)
        work: dict[str, list[HostWork]] = {}
        for each in self.graph.host_work:
            work.setdefault(each.node, []).append(each)
        taken = Counter[str]()
        for node in self.graph.nodes:
            if node.name in work:
                label = between_text(work[node.name])
                found[node.name] = label, label
                continue
            path, word = node.origin.module, short_op(node.op)
            leaf = path.rpartition(".")[2]
            title = f"{path}.{word}" if path else word
            if node.name in stepped:
                title = f"{stepped[node.name]}: {word}"
            if leaf and not leaf.isdigit() and path not in holders and len(ops_in[path]) == 1:
                title, word = path, leaf
            found[node.name] = f"{title}_{taken[title]}" if taken[title] else title, word
            taken[title] += 1
        return found


def stepped_for(graph: AtenGraph) -> dict[str, str]:
    """Nodes of an optimizer's step -> the path of the parameter that each helps to change; nodes that help several,
    such as a clipped norm, are left out."""
    makers = {value: node for node in graph.nodes for value in node.results}
    paths = {item.value: item.path for item in graph.inputs if item.kind == "parameter"}
    found: dict[str, str] = {}
    for change in graph.mutations:
        left = [change.value] if change.target in paths else []
        while left:
            node = makers.get(left.pop())
            path = paths[change.target]
            if node is None or node.origin.part != STEP or found.get(node.name) in ("", path):
                continue
            found[node.name] = "" if node.name in found else path
            left += node.operands
    return {name: path for name, path in found.items() if path}


def _joined(parts: list[str]) -> str:
    shown = parts if len(parts) <= _MOST else [*parts[: _MOST - 1], f"{len(parts) - _MOST + 1} more"]
    return " + ".join(shown)


def kernel_titles(lowered: KernelGraph) -> dict[str, str]:
    """Kernel of the graph -> its title. If several kernels compute one node, each title names the kernel's ops."""
    titles, items = Titles(lowered.captured), {item.node.name: item for item in lowered.nodes}
    of = {
        kernel.name: dict.fromkeys(
            captured for name in kernel.nodes for captured in lowered.together(items[name].parent)
        )
        for kernel in lowered.kernels
    }
    kernels_of = Counter(parent for parents in of.values() for parent in parents)
    named: dict[str, str] = {}
    for kernel in lowered.kernels:
        title = titles.together(of[kernel.name]) or kernel.name
        if len(of[kernel.name]) == 1 and kernels_of[next(iter(of[kernel.name]))] > 1:
            title += f" ({_joined([short_op(items[name].node.op) for name in kernel.nodes])})"
        named[kernel.name] = title
    return named


def scheduled_titles(lowered: KernelGraph, program: ScheduledProgram) -> dict[str, str]:
    """Scheduled kernel -> the title of the first of the graph's kernels that share it, and how many others do."""
    named, runs = kernel_titles(lowered), dict[str, list[str]]()
    for launch in program.launches.launches:
        runs.setdefault(launch.kernel, []).append(launch.name)
    return {
        kernel: named.get(names[0], names[0]) + (f", and {len(names) - 1} alike" if len(names) > 1 else "")
        for kernel, names in runs.items()
    }


def with_titles(table: Table, titles: Mapping[str, str]) -> Table:
    """A table of kernels with the readable title of each in a last column."""
    at = table.columns.index("kernel")
    rows = tuple((*row, titles.get(str(row[at]), str(row[at]))) for row in table.rows)
    return Table((*table.columns, "title"), rows, table.why_empty)


def common_module(paths: Sequence[str]) -> str:
    """`layers.3` of `layers.3.conv1` and `layers.3.bn1`."""
    levels = zip(*(path.split(".") for path in paths), strict=False)
    return ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def user_names(lowered: KernelGraph) -> Mapping[str, str]:
    """Value -> its name as the user would write it if it is given from outside, else its name in the graph.

    A view has the name of its base.
    """
    paths = lowered.captured.paths
    base = lowered.bases
    return {value: paths.get(of, of) for value in lowered.types for of in (base.get(value, value),)}
