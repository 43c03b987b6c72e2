"""Finds attention written by hand: a product of queries and keys, a softmax of its rows, and a product with values.

The search begins at a product. It goes back to the softmax that makes its first factor, and on to the product that
makes the scores. Between these may be a scale, one mask, changes of the element type, and ops that change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from workbench.ir import AtenGraph, Node, Ref
from workbench.lowering.attention_operands import Operands
from workbench.lowering.graph_values import HIDING, GraphValues, unchanged
from workbench.operators.aten.overload_schema import arguments

_SOFTMAX: Final = ("aten.softmax.int", "aten._softmax.default")

_PRODUCTS: Final = ("aten.matmul.default", "aten.linalg_matmul.default", "aten.bmm.default", "aten.mm.default")

_WITH_SUM: Final = "aten.baddbmm.default"
"""An op that adds a tensor to a multiple of a product: scores with a mask."""

_WIDER: Final = {"f16": "f32", "bf16": "f32"}
"""Queries' element type -> the type of scores in the kernel, if it differs."""


@dataclass(frozen=True)
class AttentionCall:
    """The operands and options of an attention."""

    query: str
    key: str
    turned: bool
    """True if keys lie along the last axis of `key`."""
    value: str
    shared: bool
    """True if several heads of queries share one head of keys and values."""
    scale: float
    mask: str
    hidden: float
    """The score of a position that a mask of bools hides."""
    hides: bool
    """True if a mask of bools is true for hidden scores."""


@dataclass(frozen=True)
class HandWritten:
    """Attention in a graph: as a call of one kernel, or with the reason why it has no such kernel."""

    nodes: tuple[Node, ...]
    """The nodes that compute the attention. The last one makes the result; others may be needed elsewhere."""
    softmax: str
    """The name of the softmax among these nodes."""
    call: AttentionCall | None
    reason: str = ""


def hand_written_attention(graph: AtenGraph) -> Iterator[HandWritten]:
    """All attention in a graph, in the order of its results."""
    if any(node.op in _SOFTMAX for node in graph.nodes):
        values = GraphValues(graph)
        for node in graph.nodes:
            if node.op in _PRODUCTS and (found := _ending_in(values, node)):
                yield found


def _ending_in(values: GraphValues, last: Node) -> HandWritten | None:
    weights, value = (arg.value for arg in last.args[:2] if isinstance(arg, Ref))
    after = values.path(weights, _SOFTMAX)
    keys_first = not after
    if keys_first:
        weights, value = value, weights
        after = values.path(weights, _SOFTMAX)
    before = values.path(after[-1].operands[0], (*_PRODUCTS, _WITH_SUM)) if after else ()
    if not before:
        return None
    if not _weighs(values, after[-1], -2 if keys_first else -1):
        return None
    scores, inner = _Scores(values), (*before[::-1], *after[::-1])
    if keys_first:
        scores.refuse(f"{last.name} has the weights as its second factor, and the kernel is softmax(q @ k.T) @ v")
    scores.read(before, after)
    call, passed = scores.call(before[-1], value)
    reason = scores.reason or _needed_elsewhere(values, inner) or _unlike(values, call, (*inner, last))
    given = {call.query, call.key, call.value, call.mask}
    nodes = (*_dead(values, passed, inner, given), *inner, last)
    return HandWritten(nodes, after[-1].name, None if reason else call, reason)


def _weighs(values: GraphValues, softmax: Node, axis: int) -> bool:
    """True if a softmax normalizes along the dim that the next product sums over, so that its results are weights of
    that sum. Along another dim it is no attention, and its ops become kernels by the usual rules."""
    rank = len(values.types[softmax.results[0]].shape)
    return values.number(softmax.args[1]) in (axis, rank + axis)


def _needed_elsewhere(values: GraphValues, inner: tuple[Node, ...]) -> str:
    for node in inner:
        (value,) = node.results
        if value in values.kept:
            return f"{value} is a result of the function, and the kernel has scores and weights in the scratchpad alone"
        if len(readers := values.readers[value]) > 1:
            names = " and ".join(dict.fromkeys(reader.name for reader in readers))
            often = "" if " and " in names else " more than once"
            return f"{value} is read by {names}{often}, and the kernel has scores and weights in the scratchpad alone"
    return ""


def _unlike(values: GraphValues, call: AttentionCall, nodes: tuple[Node, ...]) -> str:
    """The reason why the kernel cannot read tensors of these types, empty if it can."""
    query, key, value = (values.types[each] for each in (call.query, call.key, call.value))
    if min(len(each.shape) for each in (query, key, value)) < 2:
        return "queries, keys and values are matrices, and one of them is a vector"
    if value.dtype != query.dtype:
        return f"queries are {query.dtype} and values {value.dtype}, and the kernel reads one element type"
    for node in nodes:
        made = values.types[node.results[0]].dtype
        if made not in (query.dtype, _WIDER.get(query.dtype, query.dtype)):
            return (
                f"{node.name} rounds to {made}, and the kernel has scores of {query.dtype} in a type as wide or wider"
            )
    if not call.mask:
        return ""
    mask = values.types[call.mask]
    wanted = query.shape[-2], key.shape[-1 if call.turned else -2]
    given = (1, 1, *mask.shape)[-2:]
    if any(extent not in (1, most) for extent, most in zip(given, wanted, strict=True)):
        return f"the mask {call.mask} has {given[0]} x {given[1]} numbers for {wanted[0]} queries and {wanted[1]} keys"
    if mask.dtype != "bool" and not mask.dtype.startswith(("f", "bf")):
        return f"the mask {call.mask} is {mask.dtype}, and the kernel reads bools or floats"
    return ""


def _dead(values: GraphValues, passed: list[Node], inner: tuple[Node, ...], given: Collection[str]) -> tuple[Node, ...]:
    """The passed nodes that nothing outside the attention needs, in the order of the graph; `given` are the tensors
    that the call reads."""
    gone = [node.name for node in inner]
    found = list[Node]()
    for node in passed:
        (value,) = node.results
        if (
            value not in values.kept
            and value not in given
            and all(reader.name in gone for reader in values.readers[value])
        ):
            gone.append(node.name)
            found.insert(0, node)
    return tuple(found)


class _Scores:
    """The scale and the mask of the scores, read backwards from the softmax."""

    def __init__(self, values: GraphValues) -> None:
        self.values = values
        self.scale, self.mask, self.hidden, self.hides = 1.0, "", -math.inf, False
        self.reason = ""
        """The first reason why the kernel cannot compute these scores."""

    def refuse(self, reason: str) -> None:
        self.reason = self.reason or reason

    def read(self, before: tuple[Node, ...], after: tuple[Node, ...]) -> None:
        """Reads scale and mask from `before`, the nodes from the softmax back to the product, and checks `after`, those
        from the weights back to the softmax."""
        for node in after[:-1]:
            if not unchanged(node):
                self.refuse(f"{node.name} changes the weights after the softmax")
        for node, source in pairwise(before):
            self._change(node, source.results[0])
        product = before[-1]
        if product.op == _WITH_SUM:
            given = arguments(product)
            self._added(product, given["self"], self.values.number(given["beta"]))
            self.scale *= self.values.number(given["alpha"]) or 0.0

    def _change(self, node: Node, score: str) -> None:
        """Reads one node between the product and the softmax."""
        if node.op == "aten.add.Tensor":
            first, second = node.args[:2]
            self._added(node, second if first == Ref(score) else first, self.values.number(arguments(node)["alpha"]))
        elif node.op in HIDING:
            self._hidden(node, score)
        elif (scale := self.values.scale(node)) is not None:
            self.scale *= scale
        elif not unchanged(node):
            self.refuse(f"{node.name} changes the scores, of which the kernel does a scale and a mask")

    def _added(self, node: Node, mask: object, factor: float | None) -> None:
        if not isinstance(mask, Ref) or factor != 1:
            self.refuse(f"{node.name} adds something else to the scores than a mask")
        elif self.values.types[mask.value].dtype == "bool":
            self.refuse(f"{node.name} adds the bools of {mask.value} as zeros and ones, and such a mask hides scores")
        elif self._masks(node):
            self.mask = mask.value

    def _hidden(self, node: Node, score: str) -> None:
        kept, condition, instead, hides = HIDING[node.op]
        given = arguments(node)
        mask, hidden = given[condition], self.values.number(given[instead])
        if given[kept] != Ref(score) or not isinstance(mask, Ref) or hidden is None:
            self.refuse(f"{node.name} puts other numbers than one constant in place of scores")
        elif self._masks(node):
            self.mask, self.hidden, self.hides = mask.value, hidden, hides

    def _masks(self, node: Node) -> bool:
        """True if the kernel can apply this mask: the only one, after the scale."""
        if self.mask:
            self.refuse(f"{node.name} is a second mask, and the kernel reads one")
        if self.scale != 1:
            self.refuse(f"the scores are scaled after the mask of {node.name}, and the kernel does it before")
        return not self.reason

    def call(self, product: Node, value: str) -> tuple[AttentionCall, list[Node]]:
        """The call, and the nodes between its tensors and the products."""
        factors = product.args[1:3] if product.op == _WITH_SUM else product.args[:2]
        left, right = (arg.value for arg in factors if isinstance(arg, Ref))
        operands = Operands(self.values)
        query, turned = operands.unscaled(left), operands.unscaled(right)
        key = operands.turned_back(turned)
        key = key and operands.unscaled(key)
        repeated = Operands(self.values)
        shared = [source for each in (key, value) if (source := repeated.shared(each))]
        heads = [self.values.types[each].shape[-3:-2] for each in (query, value)]
        if len(shared) == 2 and heads[0] == heads[1]:
            key, value = shared
            operands.passed += repeated.passed
        scale = self.scale * operands.scale
        call = AttentionCall(
            query, key or turned, not key, value, [key, value] == shared, scale, self.mask, self.hidden, self.hides
        )
        return call, operands.passed
