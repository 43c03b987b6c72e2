"""Finds the tensors of hand-written attention: keys before transposing, and all before scaling and repeating heads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from workbench.ir import Literal, Node, Sequence
from workbench.lowering.graph_values import GraphValues, unchanged
from workbench.operators.aten.overload_schema import arguments

_TURNED: Final = ("aten.transpose.int", "aten.t.default", "aten.mT.default", "aten.permute.default")
_RESHAPES: Final = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")


@dataclass
class Operands:
    """Finds tensors of an attention, and collects the nodes passed on the way back to them."""

    values: GraphValues
    passed: list[Node] = field(default_factory=list[Node])
    scale: float = 1.0
    """The product of the scales of the passed nodes."""

    def unscaled(self, value: str) -> str:
        """The value that this one is a multiple of, if nothing else reads this one; else the value itself."""
        node = self.values.maker.get(value)
        factor = self.values.scale(node) if node is not None else None
        if node is None or factor is None or not self.values.read_once(value):
            return value
        (source, *_) = node.operands
        if self.values.types[source] != self.values.types[value]:
            return value
        self.passed.append(node)
        self.scale *= factor
        return self.unscaled(source)

    def turned_back(self, value: str) -> str:
        """The value before an op transposed its last two axes; empty if none did."""
        node, shape = self.values.maker.get(value), self.values.types[value].shape
        if node is None or node.op not in _TURNED or axes_of(node, len(shape)) != _exchanged(len(shape)):
            return ""
        self.passed.append(node)
        return node.operands[0]

    def shared(self, value: str) -> str:
        """The value before each of its heads was repeated equally often; empty if they were not."""
        node = self.values.maker.get(value)
        if node is None:
            return ""
        if node.op == "aten.repeat_interleave.self_int":
            given, rank = arguments(node), len(self.values.types[value].shape)
            source, chain = node.operands[0], [node]
            if given["dim"] not in (Literal("int", rank - 3), Literal("int", -3)):
                return ""
        else:
            chain = self._expanded(node)
            source = chain[-1].operands[0] if chain else ""
        if not source:
            return ""
        *lead, heads, length, width = self.values.types[source].shape
        shape = self.values.types[value].shape
        if shape != (*lead, shape[-3], length, width) or shape[-3] % heads:
            return ""
        self.passed += chain
        return source

    def _expanded(self, node: Node) -> list[Node]:
        """The nodes of unsqueeze, expand, (copy,) reshape that repeat each head, from the reshape back to the
        unsqueeze; empty if `node` does not end such a chain."""
        if node.op not in _RESHAPES:
            return []
        copied = self.values.maker.get(node.operands[0])
        expanded = self.values.maker.get(copied.operands[0]) if copied is not None and unchanged(copied) else copied
        if expanded is None or expanded.op != "aten.expand.default":
            return []
        added = self.values.maker.get(expanded.operands[0])
        if added is None or added.op != "aten.unsqueeze.default":
            return []
        shape = self.values.types[added.results[0]].shape
        wide, made = self.values.types[expanded.results[0]].shape, self.values.types[node.results[0]].shape
        source = self.values.types[added.operands[0]].shape
        if len(source) < 3 or shape != (*source[:-2], 1, *source[-2:]) or wide[:-3] + wide[-2:] != source:
            return []
        if made != (*source[:-3], source[-3] * wide[-3], *source[-2:]):
            return []
        chain = [node, copied, expanded, added] if copied is not expanded else [node, expanded, added]
        return [each for each in chain if each is not None]


def _exchanged(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def axes_of(node: Node, rank: int) -> list[int]:
    """The operand's axes, in the order in which a transposing node's result has them."""
    order = list(range(rank))
    numbers = [arg.value for arg in node.args[1:] if isinstance(arg, Literal)]
    if node.op == "aten.transpose.int":
        first, second = (int(number or 0) % rank for number in numbers)
        order[first], order[second] = order[second], order[first]
    elif node.op == "aten.permute.default":
        dims = node.args[1].items if isinstance(node.args[1], Sequence) else ()
        order = [int(item.value or 0) % rank for item in dims if isinstance(item, Literal)]
    else:
        order = _exchanged(rank)
    return order
