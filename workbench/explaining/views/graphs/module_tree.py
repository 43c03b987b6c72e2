"""A graph as the tree of the modules that ran it, with the run's cycles: data, a table, and HTML that opens on a click.

Its leaves are calls or kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from markupsafe import Markup

from workbench.explaining.views.graphs.graph_tables import place, types_text
from workbench.explaining.views.graphs.spent import Cost, Spent
from workbench.explaining.views.graphs.titles import Titles, common_module, kernel_titles, short_op, stepped_for
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.table import Cell, Table
from workbench.ir import STEP, AtenGraph, KernelGraph, Node

MOST_ROWS = 24
"""The most rows that fit a screen; if a module has more calls of its own, the calls of a line of Python become one
row."""
_OPTIMIZER = "optimizer step"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A captured call, or a kernel."""

    module: str
    name: str
    """The name to use in calls of the library."""
    title: str
    what: str
    """A note beside the title."""
    calls: tuple[tuple[str, str], ...]
    """The captured node of a call, or the captured nodes that a kernel works for, each with the short name of its
    op."""
    place: str
    kernels: tuple[str, ...]
    """Kernels of the graph that work for the leaf."""
    cost: Cost


@dataclass(frozen=True, eq=False)
class Module:
    """A module, or a line of Python in one, with the calls or kernels that ran in it."""

    path: str
    """The module's path."""
    title: str
    parts: tuple[Module | Leaf, ...]
    """The parts in the order in which they first ran."""

    @cached_property
    def cost(self) -> Cost:
        return Cost.sum(part.cost for part in self.parts)

    @cached_property
    def calls(self) -> tuple[tuple[str, str], ...]:
        return tuple(dict.fromkeys(call for part in self.parts for call in part.calls))

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.kernels))


def captured_tree(graph: AtenGraph, lowered: KernelGraph | None = None, spent: Spent | None = None) -> Module:
    """The captured calls by module."""
    titles, modules, kernels_of = Titles(graph), _modules_of(graph), dict[str, dict[str, None]]()
    if lowered:
        for item in lowered.nodes:
            for name in lowered.together(item.parent) if item.kernel else ():
                kernels_of.setdefault(name, {})[item.kernel] = None

    def leaf(node: Node) -> Leaf:
        names = modules[node.name], node.name, titles.node(node.name), types_text(node, graph.types)
        calls, kernels = ((node.name, short_op(node.op)),), tuple(kernels_of.get(node.name, ()))
        return Leaf(*names, calls, place(node), kernels, spent.nodes.get(node.name, Cost()) if spent else Cost())

    return _tree(graph.name, map(leaf, graph.nodes))


def _modules_of(graph: AtenGraph) -> dict[str, str]:
    """Node -> its module. The nodes of an optimizer have none: they stand together under `optimizer step`, parameter by
    parameter."""
    stepped = stepped_for(graph)
    return {
        node.name: node.origin.module
        or (".".join(filter(None, (_OPTIMIZER, stepped.get(node.name)))) if node.origin.part == STEP else "")
        for node in graph.nodes
    }


def lowered_tree(lowered: KernelGraph, spent: Spent | None = None) -> Module:
    """The kernels by module: a kernel that works for several modules stands at the module that contains them all."""
    captured = {node.name: node for node in lowered.captured.nodes}
    behind = {item.node.name: lowered.together(item.parent) for item in lowered.nodes}
    titles, modules = kernel_titles(lowered), _modules_of(lowered.captured)

    def leaf(name: str, nodes: tuple[str, ...]) -> Leaf:
        names = dict.fromkeys(name for node in nodes for name in behind[node])
        mine = [captured[name] for name in names if name in captured]
        module = common_module([modules[node.name] for node in mine])
        called = tuple((node.name, short_op(node.op)) for node in mine)
        cost = spent.kernels.get(name, Cost()) if spent else Cost()
        return Leaf(module, name, titles[name], name, called, place(mine[0]) if mine else "", (name,), cost)

    return _tree(lowered.captured.name, (leaf(kernel.name, kernel.nodes) for kernel in lowered.kernels))


def modules_table(tree: Module, spent: Spent | None = None) -> Table:
    """One row a module or leaf, in the order of the tree: the numbers of calls and kernels, and the run's cycles and
    bytes."""
    rows: list[tuple[Cell, ...]] = []
    whole = max(spent.whole, 1) if spent else 1

    def add(part: Module | Leaf, module: str, depth: int) -> None:
        spending: tuple[Cell, ...] = (*part.cost, part.cost.cycles / whole) if spent else (None, None, None)
        name = part.name if isinstance(part, Leaf) else ""
        rows.append((part.title, module, depth, name, len(part.calls), len(part.kernels), *spending))
        if isinstance(part, Module):
            for inner in part.parts:
                add(inner, part.path, depth + 1)

    add(tree, "", 0)
    if spent:
        rows.append(("before kernels begin", "", 1, "", 0, 0, spent.launching, 0, spent.launching / whole))
    return Table(("title", "module", "depth", "name", "calls", "kernels", "cycles", "bytes", "share"), tuple(rows))


def opened(tree: Module, rows: int = MOST_ROWS) -> set[Module]:
    """The modules that are shown open: first those with most cycles, among equals those with most calls, as long as
    `rows` rows have room for all that is then seen."""
    found, left, closed = {tree}, rows - len(tree.parts), _modules(tree)
    while closed:
        most = max(closed, key=lambda module: (module.cost.cycles, len(module.calls)))
        closed.remove(most)
        if len(most.parts) <= left:
            found.add(most)
            left -= len(most.parts)
            closed += _modules(most)
    return found


def costliest(tree: Module, share: float = 0.25) -> list[Module | Leaf]:
    """Modules and leaves that together are the tree, most cycles first: a module that has more than `share` of the
    cycles is shown by its parts."""
    found, whole = list[Module | Leaf](tree.parts), tree.cost.cycles
    while large := [part for part in found if isinstance(part, Module) and part.cost.cycles > share * whole]:
        for part in large:
            at = found.index(part)
            found[at : at + 1] = part.parts
    return sorted(found, key=lambda part: -part.cost.cycles)


def counted(module: Module, most: int = 4) -> str:
    """The most frequent ops of a module: `3 conv2d, 3 batch_norm, add`, without ops that no kernel works for, if others
    remain."""
    leaves = list(_leaves(module))
    worked = [leaf for leaf in leaves if leaf.kernels] or leaves
    ops = Counter(op for _, op in dict.fromkeys(call for leaf in worked for call in leaf.calls)).most_common(most)
    return ", ".join(f"{count} {op}" if count > 1 else op for op, count in ops)


def folded(tree: Module) -> Module:
    """The tree with adjacent numbered modules that are alike as one: `layers.0-11` has the sum of the twelve, leaf by
    leaf."""
    named = dict(_ranges(tree))
    found: dict[tuple[str, str], Leaf] = {}
    for leaf in _leaves(tree):
        each = replace(leaf, module=_in_ranges(leaf.module, named), title=_in_ranges(leaf.title, named))
        same = found.get((each.module, each.title))
        if same:
            calls, kernels = (*same.calls, *each.calls), (*same.kernels, *each.kernels)
            each = replace(same, calls=calls, kernels=kernels, cost=Cost.sum([same.cost, each.cost]))
        found[each.module, each.title] = each
    return _tree(tree.title, found.values())


def _ranges(tree: Module) -> Iterator[tuple[str, str]]:
    """Path of a numbered module -> the range of the numbers of modules that are alike."""
    for _, run in groupby(_modules(tree), key=_shape):
        alike = [module for module in run if module.path == module.title and _number(module).isdigit()]
        for module in alike if len(alike) > 1 else ():
            yield module.path, f"{_number(alike[0])}-{_number(alike[-1])}"
    for module in _modules(tree):
        yield from _ranges(module)


def _number(module: Module) -> str:
    return module.path.rpartition(".")[2]


def _shape(module: Module) -> tuple[tuple[str, ...], ...]:
    """The key of modules that are alike: the places of their leaves, and the leaves' ops."""
    return tuple((leaf.title.removeprefix(module.path), *(op for _, op in leaf.calls)) for leaf in _leaves(module))


def _in_ranges(path: str, named: Mapping[str, str]) -> str:
    parts = path.split(".")
    return ".".join(named.get(".".join(parts[: place + 1]), part) for place, part in enumerate(parts))


def _leaves(tree: Module) -> Iterator[Leaf]:
    for part in tree.parts:
        yield from [part] if isinstance(part, Leaf) else _leaves(part)


def _modules(tree: Module) -> list[Module]:
    return [part for part in tree.parts if isinstance(part, Module)]


def _tree(name: str, leaves: Iterable[Leaf]) -> Module:
    return _module("", name, [(leaf, leaf.module.split(".") if leaf.module else []) for leaf in leaves])


def _module(path: str, label: str, leaves: Sequence[tuple[Leaf, list[str]]]) -> Module:
    """Makes the module at `path` from its leaves, each with the rest of its path below that module."""
    inside: dict[str, list[tuple[Leaf, list[str]]]] = {}
    order: list[Leaf | str] = []
    for leaf, rest in leaves:
        if not rest:
            order.append(leaf)
            continue
        if rest[0] not in inside:
            order.append(rest[0])
        inside.setdefault(rest[0], []).append((leaf, rest[1:]))
    if sum(isinstance(part, Leaf) for part in order) > MOST_ROWS:
        return Module(path, label, _by_line(order, inside, path))
    return Module(path, label, tuple(_part(part, inside, path) for part in order))


def _part(part: Leaf | str, inside: dict[str, list[tuple[Leaf, list[str]]]], path: str) -> Module | Leaf:
    """A leaf as it is; a module with a single part as that part."""
    if isinstance(part, Leaf):
        return part
    whole = f"{path}.{part}" if path else part
    module = _module(whole, whole, inside[part])
    return module.parts[0] if len(module.parts) == 1 else module


def _by_line(
    order: list[Leaf | str], inside: dict[str, list[tuple[Leaf, list[str]]]], path: str
) -> tuple[Module | Leaf, ...]:
    """The parts of a module, in which adjacent leaves of one line of Python are one part."""
    found: list[Module | Leaf] = []
    for line, parts in groupby(order, key=lambda part: part.place if isinstance(part, Leaf) else part):
        run = [_part(part, inside, path) for part in parts]
        found += run if len(run) == 1 else [Module(path, line, tuple(run))]
    return tuple(found)


def tree_html(tree: Module, noun: str, spent: Spent | None = None, rows: int = MOST_ROWS) -> Markup:
    """The tree with its counts of `noun`, calls or kernels, opened as far as `rows` rows have room."""
    drawn = _Drawing(noun, max(spent.whole, 1) if spent else 0, frozenset(opened(tree, rows)))
    heads = (noun, "cycles", "of all", "DRAM") if spent else (noun,)
    head = joined(html("<span>{name}</span>", name=name) for name in (tree.title, *heads))
    parts = [html('<div class="row head">{head}</div>', head=head)]
    if spent and spent.launching:
        launching = drawn.cells("before kernels begin", "", "", "", Cost(spent.launching, 0), 0)
        parts.append(html('<div class="row">{launching}</div>', launching=launching))
    parts += (drawn.part(part, tree, 0) for part in tree.parts)
    return html('<div class="tree{}" tabindex="0">{}</div>', "" if spent else " plain", joined(parts))


@dataclass(frozen=True)
class _Drawing:
    noun: str
    whole: int
    """Cycles of the run, 0 where there is none."""
    opened: frozenset[Module]

    def part(self, part: Module | Leaf, inside: Module, depth: int) -> Markup:
        """The row of a leaf, or of a module, which opens on a click."""
        count = len(part.kernels) if self.noun == "kernels" else len(part.calls)
        below = part.title.removeprefix(f"{inside.path}.") if inside.path else part.title
        title = part.title if below.isdigit() else below
        if isinstance(part, Leaf):
            about = ", ".join(filter(None, (part.name, *(op for _, op in part.calls), part.place)))
            return html('<div class="row">{}</div>', self.cells(title, part.what, about, "", part.cost, depth))
        row = self.cells(title, counted(part), part.title, f"{count:,}", part.cost, depth)
        inner = joined(self.part(each, part, depth + 1) for each in part.parts)
        state = " open" if part in self.opened else ""
        return html('<details{}><summary class="row">{}</summary><div>{}</div></details>', state, row, inner)

    def cells(self, title: str, what: str, about: str, count: str, cost: Cost, depth: int) -> Markup:
        """The cells of a row: title and note, the number of calls or kernels, and the run's cycles and bytes."""
        more = html(' <em class="soft mono">{what}</em>', what=what) if what else ""
        tip = html(' title="{about}"', about=about) if about else ""
        deep = html(' style="--d:{depth}"', depth=depth) if depth else ""
        name = html("<span{}{}>{}{}</span><span>{}</span>", tip, deep, title, more, count)
        if not self.whole:
            return name
        share = cost.cycles / self.whole
        bar = html('<i style="width:{:.1f}%"></i>', 100 * share) if share >= 0.0005 else ""
        figures = (f"{cost.cycles:,}", bar, f"{share:.1%}") if cost.cycles else ("", bar, "")
        return html("{}<span>{}</span><span>{}<b>{}</b></span><span>{}</span>", name, *figures, _bytes(cost.bytes))


def _bytes(count: int) -> str:
    """`12.3 MB`, in decimal megabytes; empty for zero."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count} B" if count else ""
