"""Gradients that a training step puts in the place of earlier gradients.

A backward pass after `zero_grad()` makes new tensors, which PyTorch assigns to `.grad`. The graph has an input for each
gradient, and copies the new numbers into that input. The copy is not needed if the new tensor has the input's strides
and nothing else holds the tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from workbench.ir import Mutation, Node, Ref, TensorType


def without_copies(
    nodes: Sequence[Node],
    mutations: Sequence[Mutation],
    gradients: Collection[str],
    types: Mapping[str, TensorType],
    memories: Mapping[str, int],
    others: Collection[str],
) -> tuple[tuple[Node, ...], tuple[Mutation, ...]]:
    """Returns nodes and mutations without the copies that are not needed; `others` are the graph's inputs and
    results."""
    maker = {value: node for node in nodes for value in node.results}
    readers = Counter(value for node in nodes for value in node.operands)
    held = Counter(memories.get(value) for value in (*others, *(each.value for each in mutations)))
    kept, dropped = list[Mutation](), set[str]()
    for each in mutations:
        source = _copied(maker.get(each.value), each.target) if each.target in gradients else None
        alone = not readers[each.value] and each.value not in others
        if source is None or not alone or held[memories.get(source)] or not _alike(types[source], types[each.target]):
            kept.append(each)
            continue
        held[memories.get(source)] += 1
        kept.append(replace(each, value=source))
        dropped.add(each.value)
    return tuple(node for node in nodes if dropped.isdisjoint(node.results)), tuple(kept)


def _copied(node: Node | None, target: str) -> str | None:
    """Returns the value that a node copies into an input; None if the node does anything else."""
    if node is None or node.op != "aten.copy.default" or len(node.args) != 2:
        return None
    into, source = node.args
    return source.value if into == Ref(target) and isinstance(source, Ref) else None


def _alike(one: TensorType, other: TensorType) -> bool:
    return (one.shape, one.dtype, one.strides) == (other.shape, other.dtype, other.strides)
