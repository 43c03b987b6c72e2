"""Replaces hand-written attention by one node of the graph, if a template makes one kernel of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from workbench.ir import Arg, AtenGraph, Literal, LoweredNode, Node, Ref, TensorType
from workbench.ir.value_names import marked_name
from workbench.lowering.hand_written_attention import AttentionCall, HandWritten, hand_written_attention
from workbench.lowering.one_kernel import OneKernels
from workbench.operators.aten.extra_ops import ATTENTION
from workbench.operators.aten.registry import Registrations
from workbench.operators.formulas.formula_builder import infer

Apart = Collection[frozenset[str]]
"""Pairs of names that a user keeps apart: names of captured nodes or of nodes of their decomposition."""


@dataclass
class OneAttention:
    """A graph in which each attention that has one kernel is one node."""

    graph: AtenGraph
    together: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """New node -> all nodes that it replaces, the softmax first, whose name describes them best."""

    def told(self, items: tuple[LoweredNode, ...]) -> tuple[LoweredNode, ...]:
        """The lowered nodes with captured nodes as parents: for a new node the first node that it replaces."""
        return tuple(replace(item, parent=self.together.get(item.parent, (item.parent,))[0]) for item in items)

    @property
    def merged(self) -> dict[str, tuple[str, ...]]:
        """First of the nodes that became one -> the others."""
        return {first: tuple(others) for first, *others in self.together.values()}


def one_attention(
    graph: AtenGraph, known: Registrations, prefer: str | None, kernels: OneKernels, apart: Apart
) -> OneAttention:
    """The graph with one node for each attention that has one kernel; `kernels` records why others have none."""
    made = OneAttention(graph)
    for found in hand_written_attention(graph):
        _put(made, found, known, prefer, kernels, apart)
    return made


def _put(
    made: OneAttention, found: HandWritten, known: Registrations, prefer: str | None, kernels: OneKernels, apart: Apart
) -> None:
    template = known.kernel_maker(ATTENTION, prefer)
    if template is None:
        return
    names = [node.name for node in found.nodes]
    last, types = found.nodes[-1], dict(made.graph.types)
    reason = (
        _taken(names, made) or found.reason or _kept_apart(names, apart) or _own_kernel(found, known, types, prefer)
    )
    nodes = _nodes(found.call, last, types) if found.call and not reason else (last,)
    if kernels.refusal(template, nodes[-1], types, names, reason):
        return
    gone = {name for name in names if name != last.name}
    order = [node for node in made.graph.nodes if node.name in names]
    inside = {value for node in order for value in node.results if node.name in gone}
    kept = (node for node in made.graph.nodes if node.name not in gone)
    made.graph = replace(
        made.graph,
        nodes=tuple(each for node in kept for each in (nodes if node.name == last.name else (node,))),
        types={value: kind for value, kind in types.items() if value not in inside},
    )
    others = (name for name in names if name != found.softmax)
    made.together |= dict.fromkeys([node.name for node in nodes], (found.softmax, *others))


def _nodes(call: AttentionCall, last: Node, types: dict[str, TensorType]) -> tuple[Node, ...]:
    """The attention node that replaces `last`, after a transpose of the keys if they need one."""
    before = list[Node]()
    key = call.key
    if call.turned:
        key = marked_name(f"{last.name}.key", types)
        axes = Literal("int", -2), Literal("int", -1)
        before.append(Node(key, "aten.transpose.int", (Ref(call.key), *axes), {}, (key,), last.origin))
        (types[key],) = infer(before[0], types)
    args: tuple[Arg, ...] = (
        Ref(call.query), Ref(key), Ref(call.value), Ref(call.mask) if call.mask else Literal("none", None),
        Literal("float", call.scale), Literal("bool", call.shared),
        Literal("bool", call.hides), Literal("float", call.hidden),
    )  # fmt: skip
    node = Node(last.name, ATTENTION, args, {}, last.results, replace(last.origin, op=ATTENTION))
    return (*before, node)


def _taken(names: list[str], made: OneAttention) -> str:
    """The refusal if another attention has some of these nodes, else '': a softmax of scores may be the next query."""
    other = next((name for name, of in made.together.items() if not set(of).isdisjoint(names)), "")
    return f"{other} is an attention of some of its ops" if other else ""


def _kept_apart(names: list[str], apart: Apart) -> str:
    for pair in sorted(map(sorted, apart)):
        if all(part.split(".")[0] in names for part in pair):
            return f"kept apart on request: {' and '.join(pair)}"
    return ""


def _own_kernel(found: HandWritten, known: Registrations, types: Mapping[str, TensorType], prefer: str | None) -> str:
    """The refusal if a user registered a kernel for one of the ops, else ''."""
    for node in found.nodes:
        maker = known.kernel_maker_of(node, types, prefer)
        if maker is not None and not maker.shipped:
            return f"{node.op} has a kernel of its own, at {maker.owner.place}"
    return ""
