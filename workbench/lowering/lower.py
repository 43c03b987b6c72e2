"""Lowers the captured graph to kernels: routes, decompositions, views, and the grouping of nodes into kernels.

A node takes the first route it has: a registered template, a registered builder, the automatic route (torch-mlir,
perhaps after a decomposition), and else the host, where PyTorch computes it from the record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from workbench.ground import errors
from workbench.ground.faults.trial import OK, TRIALS
from workbench.ir import (
    ASSERTIONS,
    BREAK,
    HOST,
    AtenGraph,
    Fusion,
    Kernel,
    KernelGraph,
    Literal,
    LoweredNode,
    Node,
    TensorType,
    View,
)
from workbench.lowering.around_products import PROLOGUE
from workbench.lowering.below_views import below_views, through_one_view
from workbench.lowering.empty_tensors import NO_ELEMENTS, makes_nothing, without_empty
from workbench.lowering.fusion_candidate import node_class
from workbench.lowering.fusion_options import choice_of, pairs_apart, rules_off
from workbench.lowering.fusion_rules import COPY_AT_ITS_MAKER, kind_of
from workbench.lowering.grouping import Grouping
from workbench.lowering.index_bounds import bounds_before, bounds_of, check_index_types, check_traced
from workbench.lowering.moved_creations import at_their_readers
from workbench.lowering.one_attention import one_attention
from workbench.lowering.one_kernel import OneKernels
from workbench.lowering.placed_views import PlacedViews
from workbench.lowering.product_room import ROWS, SHARED, TPU_V3, Room
from workbench.lowering.reshapes import above_reshapes
from workbench.lowering.view_edges import across_views
from workbench.operators.aten.automatic_route import DTYPES, class_of
from workbench.operators.aten.import_trial import import_trial
from workbench.operators.aten.overload_names import check_known
from workbench.operators.aten.proven import proven
from workbench.operators.aten.registry import DEFAULT, Registrations
from workbench.operators.formulas.decompose import expand
from workbench.operators.formulas.layout_changes import FORMULAS as FORMULAS_OF_LAYOUT

REARRANGED = frozenset(FORMULAS_OF_LAYOUT)
"""Ops whose formulas only view and copy, so that they are also correct for element types without kernels."""

RUNS_GRAPHS = "it takes graphs as arguments, and runs on the host with all their ops"
"""Why an op such as `cond` or `while_loop` has no kernel."""

RAISES = "a kernel cannot raise an error, so the host tests it"
"""Why an assertion has no kernel."""

READS_NOTHING = "a kernel would read a tensor without elements"
"""Why an op without a rule for empty tensors has no kernel."""

NO_COPY = "no op can see a difference between the copy and the original"
"""Why a clone can be dropped: nothing changes the copy or the original, and neither is returned. Dropout in eval mode
makes such a clone."""


def lower(
    graph: AtenGraph,
    *,
    on_missing: str = "host",
    fusion: object = None,
    prefer: str | None = None,
    registrations: Registrations | None = None,
    rewrites: Collection[str] = (),
    room: Room = TPU_V3,
) -> KernelGraph:
    """Routes every node, decomposes composite ones, and groups the result into kernels in launch order.

    `prefer` names the dialect whose builder is taken if an overload has builders in several. `fusion` turns fusion
    rules off or keeps nodes apart: see `workbench.lowering.fusion_options`; it may also name `rewrites`, which are
    patterns and graph passes that ran before. `room` has the machine's figures for grouping.
    """
    if on_missing not in ("host", "error"):
        raise errors.BadOption(f"on_missing={on_missing!r} is unknown; expected 'host' or 'error'")
    check_known(graph)
    check_index_types(graph)
    known = registrations if registrations is not None else DEFAULT.now()
    known.check_preferred(prefer)
    off = rules_off(fusion, rewrites)
    one_kernels = OneKernels(off)
    whole = one_attention(graph, known, prefer, one_kernels, pairs_apart(fusion))
    work = _Work(whole.graph, dict(whole.graph.types), known, prefer, one_kernels)
    work.route(on_missing)
    work.items = above_reshapes(work.items, work.types, rows=ROWS not in off)
    classes = work.classes()
    products = {item.node.name for item in work.items if node_class(item.node, classes) == "contraction"}
    if SHARED not in off:
        work.items = through_one_view(work.items, products)
        work.drop_dead()
    if PROLOGUE not in off:
        work.items = below_views(work.items, work.types, work.results(), products, room)
    work.items = at_their_readers(work.items, work.types, lambda item: node_class(item.node, classes))
    work.drop_dead()
    work.place_views(copies=COPY_AT_ITS_MAKER in off)
    compute = tuple(item.node for item in work.items if item.route != "view")
    choice = choice_of(fusion, off, work.named(whole.together))
    bases = {view.value: view.base for view in work.views}
    grouping = Grouping(compute, work.types, frozenset(work.kept()), work.classes(), choice, room, bases)
    kernels = _kernels(grouping, work)
    check_traced(graph, kernels, bases, work.types)
    nodes, fusions = _with_kernels(work, kernels, grouping)
    return KernelGraph(graph, whole.told(nodes), kernels, tuple(work.views), work.types, fusions, merged=whole.merged)


@dataclass
class _Work:
    """A graph being lowered."""

    graph: AtenGraph
    types: dict[str, TensorType]
    registrations: Registrations
    prefer: str | None
    one_kernels: OneKernels
    faulty: dict[str, str] = field(default_factory=dict[str, str])
    """Captured node -> the reason why it cannot take its automatic route."""
    items: list[LoweredNode] = field(default_factory=list[LoweredNode])
    views: list[View] = field(default_factory=list[View])

    @cached_property
    def needed(self) -> set[str]:
        """Captured values that a node reads or that the function returns or stores."""
        return {value for node in self.graph.nodes for value in node.operands} | self.results()

    def results(self) -> set[str]:
        return {*self.graph.outputs, *(mutation.value for mutation in self.graph.mutations)}

    def route(self, on_missing: str) -> None:
        """Decomposes nodes and finds their routes; those without one go to the host, or one error names them all."""
        taken = set(self.types)
        missing: list[Node] = []
        own = self._own_memory()
        for node in self.graph.nodes:
            if self._is_no_copy(node) and node.results[0] not in own:
                alias = replace(node, op="aten.alias.default", kwargs={})
                self.items.append(LoweredNode(alias, "view", "", NO_COPY, node.name))
                continue
            if node.op == BREAK:
                self.items.append(LoweredNode(node, "host", "", "a graph break: Python runs here", node.name))
                continue
            items, why = None, RUNS_GRAPHS if node.bodies else RAISES if node.op in ASSERTIONS else ""
            if not why:
                empty = makes_nothing(node, self.types) or self._reads_nothing(node)
                given = None if empty else self._registered(node, node, "")
                items = given or self._automatic(node, taken)
            if items is None:
                missing.append(node)
                why = why or self.faulty.get(node.name, "no other route")
                items = [LoweredNode(node, "host", "", why, node.name)]
                self._lay_out(node)
            self.items += items
        if missing and on_missing == "error":
            from workbench.lowering.missing_routes import missing_routes  # only here: it writes lines to start from

            raise missing_routes(self.graph, missing, self.faulty)
        self.drop_dead()

    def _own_memory(self) -> set[str]:
        """Values that must not share memory with a copy: results, and the values that results are views of."""
        own = self.results()
        for node in reversed(self.graph.nodes):
            if class_of(node.op) == "view" and own.intersection(node.results):
                own.update(node.operands)
        return own

    def _is_no_copy(self, node: Node) -> bool:
        return node.op == "aten.clone.default" and self.types[node.operands[0]] == self.types[node.results[0]]

    def _lay_out(self, node: Node) -> None:
        """Gives results of host steps their own dense storages: PyTorch may have made them views."""
        for value in node.results:
            kind = self.types[value]
            if kind.offset or 0 in kind.strides:
                dense = tuple(torch.empty(kind.shape, device="meta").stride())
                self.types[value] = replace(kind, strides=dense, offset=0)

    def _registered(self, node: Node, parent: Node, rule: str) -> list[LoweredNode]:
        """The node on its registered route, empty if it has none. A builder is called once for each result."""
        found = self.registrations.kernel_maker_of(node, self.types, self.prefer)
        if found is None or (found.shipped and not self._computable(node)):
            return []
        if refused := self.one_kernels.refusal(found, node, self.types):
            self.faulty.setdefault(node.name, f"no other route: {refused}")
            return []
        rule = rule or (found.one_kernel.rule if found.one_kernel else "")
        if found.route == "template" or len(node.results) == 1:
            return [LoweredNode(node, found.route, "", rule, parent.name, found.dialect)]
        each = (replace(node, name=value, results=(value,)) for value in node.results)
        return [LoweredNode(one, "builder", "", "a kernel for each result", parent.name, found.dialect) for one in each]

    def _automatic(self, node: Node, taken: set[str]) -> list[LoweredNode] | None:
        """The node, or the nodes of its decomposition, for torch-mlir; None if one of them has no route."""
        items: list[LoweredNode] = []
        return items if self._written_out(node, node, taken, items) else None

    def _written_out(self, node: Node, parent: Node, taken: set[str], items: list[LoweredNode]) -> bool:
        """Appends the node, or recursively the nodes of its formula, to `items`; False if one of them has no route."""
        rule = "" if node is parent else parent.op
        if makes_nothing(node, self.types):
            items.append(LoweredNode(node, "view", "", NO_ELEMENTS, parent.name))
            return True
        empty = self._reads_nothing(node)
        if node is not parent and not empty and (made := self._registered(node, parent, rule)):
            items += made
            return True
        children = without_empty(node, self.types) if empty else None
        if children is None and (self._computable(node) or node.op in REARRANGED):
            children = expand(node, self.types, taken)
        if children is not None:
            made = {value for child in children for value in child.results}
            if any(value in self.needed and value not in made for value in node.results):
                return False  # the formula leaves out a needed result, such as the indices of a max pool
            return all(self._written_out(child, parent, taken, items) for child in children)
        kind = class_of(node.op)
        if kind is None or (kind != "view" and not self._computable(node)) or self._counts_from_outside(node):
            return False
        route = "view" if kind in ("view", "assembly") else "automatic"
        if route == "automatic" and empty:
            self.faulty[parent.name] = f"no other route: {READS_NOTHING}"
            return False
        if route == "automatic" and not self._importable(node, parent):
            return False
        items.append(LoweredNode(node, route, "", rule, parent.name))
        return True

    def _reads_nothing(self, node: Node) -> bool:
        return any(self.types[value].numel == 0 for value in node.operands)

    def _counts_from_outside(self, node: Node) -> bool:
        """True if the node is an `as_strided` with an offset into an input's storage, of which the record knows only a
        view."""
        if node.op != "aten.as_strided.default" or len(node.args) < 4 or node.args[3] == Literal("none", None):
            return False
        maker = {value: each for each in self.graph.nodes for value in each.results}
        value = node.operands[0]
        while value in maker and class_of(maker[value].op) == "view":
            value = maker[value].operands[0]
        return any(given.value == value for given in self.graph.inputs)

    def _computable(self, node: Node) -> bool:
        return all(self.types[value].dtype in DTYPES for value in (*node.operands, *node.results))

    def _importable(self, node: Node, parent: Node) -> bool:
        """True if torch-mlir imports the node; a node that is not known to be safe is tried in another process."""
        if proven(node, self.types):
            return True
        verdict = TRIALS.verdict(import_trial(node.name, [node], self.types, node.results))
        if verdict.outcome != OK:
            how = f"torch-mlir {verdict.reason}" if verdict.harmless else f"a process that imports it {verdict.reason}"
            self.faulty[parent.name] = f"no other route: {how}"
        return verdict.outcome == OK

    def classes(self) -> dict[str, str]:
        """Node -> its class for the fusion rules, for nodes on the host or a registered route."""
        found: dict[str, str] = {}
        for item in self.items:
            if item.route == "host":
                found[item.node.name] = "opaque"
            elif item.route in ("template", "builder"):
                owner = self.registrations.find(item.node.op, item.route, item.dialect)
                kind = owner.kind if owner else "opaque"
                found[item.node.name] = "pointwise" if kind == "elementwise" else kind
        return found

    def drop_dead(self) -> None:
        """Leaves out nodes that no result needs; keeps assertions, and the steps for Python between graphs."""
        wanted, kept = self.results(), list[LoweredNode]()
        for item in reversed(self.items):
            if item.node.op in (BREAK, *ASSERTIONS) or wanted.intersection(item.node.results):
                wanted.update(item.node.operands)
                kept.append(item)
        self.items = kept[::-1]
        alive = {given.value for given in self.graph.inputs} | set(self.graph.types)
        alive |= {value for item in self.items for value in item.node.results}
        self.types = {name: type_ for name, type_ in self.types.items() if name in alive}

    def place_views(self, *, copies: bool) -> None:
        """Gives every view its strides over the storage of its base."""
        found = PlacedViews(self.types, self._computable)
        self.items = found.of(self.items, self.results(), copies=copies)
        self.views = found.views
        used = self.results() | {value for item in self.items for value in item.node.operands}
        for item in self.items:
            self._refuse_empty(item, used)

    def _refuse_empty(self, item: LoweredNode, used: set[str]) -> None:
        """Raises if a kernel would have a tensor without elements: authors of kernels need not handle these."""
        kernel = item.route not in ("view", "host")
        for value in (*item.node.operands, *item.node.results) if kernel else ():
            if value in used and self.types[value].numel == 0:
                origin = item.node.origin
                raise errors.not_yet(
                    f"A kernel over a tensor with no elements ({value}, {self.types[value]}, of {origin.op} at "
                    f"{origin.place})",
                    "Trace with a shape that has some.",
                )

    def named(self, together: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
        """Name -> nodes after decomposition. The names are those of the nodes and of the captured nodes that they come
        from; `together` has the captured nodes that became one."""
        found: dict[str, list[str]] = {}
        for item in self.items:
            for name in dict.fromkeys((item.parent, item.node.name, *together.get(item.parent, ()))):
                found.setdefault(name, []).append(item.node.name)
        return found

    def kept(self) -> set[str]:
        """Values that must lie in memory: results of the function, and operands of views."""
        return self.results() | {value for item in self.items if item.route == "view" for value in item.node.operands}


def _kernels(grouping: Grouping, work: _Work) -> tuple[Kernel, ...]:
    """One kernel for each group, in an order in which each comes after the kernels it reads. A node on the host becomes
    a step of its own."""
    kernels: list[Kernel] = []
    hosted = {item.node.name for item in work.items if item.route == "host"}
    parents = {item.node.name: item.parent for item in work.items}
    captured, given = {node.name: node for node in work.graph.nodes}, {item.value for item in work.graph.inputs}
    for index, members in enumerate(grouping.groups()):
        made = {value for node in members for value in node.results}
        inputs = dict.fromkeys(value for node in members for value in node.operands if value not in made)
        names = tuple(node.name for node in members)
        kind = HOST if hosted.intersection(names) else kind_of(members, grouping.classes)
        name = _kernel_name(index, members, hosted=kind == HOST)
        checked = members if kind != HOST else ()  # PyTorch checks what it computes
        bounds = [bound for node in checked for bound in bounds_of(node, grouping.types)]
        for parent in dict.fromkeys(parents[node.name] for node in checked):
            bounds += bounds_before(captured.pop(parent), grouping.types, given) if parent in captured else ()
        kernels.append(Kernel(name, kind, names, tuple(inputs), grouping.results(members), tuple(bounds)))
    _check_order(kernels)
    return tuple(kernels)


def _check_order(kernels: list[Kernel]) -> None:
    made: set[str] = set()
    all_made = {value for kernel in kernels for value in kernel.outputs}
    for kernel in kernels:
        early = [value for value in kernel.inputs if value in all_made and value not in made]
        if early:
            raise AssertionError(f"{kernel.name} reads {early} before it is made")
        made.update(kernel.outputs)


def _kernel_name(index: int, members: tuple[Node, ...], *, hosted: bool) -> str:
    """A kernel's name, `k1_linear_gelu`: its number, and the ops that the user wrote, each once; `copy` if it only
    moves data.

    A step on the host is `host2_cumsum`, so that every mention shows that it is one.
    """
    ops = list(dict.fromkeys(re.sub(r"\W", "", node.origin.op.split(".")[1]).strip("_") for node in members))
    if all(class_of(node.op) == "copy" for node in members):
        ops = ["copy"]
    shown = ops if len(ops) <= 4 else [*ops[:3], f"and{len(ops) - 3}more"]
    return f"{'host' if hosted else 'k'}{index}_{'_'.join(shown)}"


def _with_kernels(
    work: _Work, kernels: tuple[Kernel, ...], grouping: Grouping
) -> tuple[tuple[LoweredNode, ...], tuple[Fusion, ...]]:
    kernel_of = {name: kernel.name for kernel in kernels for name in kernel.nodes}
    fusions = work.one_kernels.explained((*grouping.decisions(), *across_views(work.items, grouping)), work.items)
    fused = {fusion.consumer: fusion.rule for fusion in fusions if fusion.fused}
    fused |= {fusion.producer: fusion.rule for fusion in fusions if fusion.fused and fusion.producer not in fused}
    nodes = tuple(
        replace(item, kernel=kernel_of.get(item.node.name, ""), rule=item.rule or fused.get(item.node.name, ""))
        for item in work.items
    )
    return nodes, fusions
