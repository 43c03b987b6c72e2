"""Moves pointwise ops, and reductions of rows, before a reshape, to the op that makes their operand.

A linear layer over a batch of sequences is a product of two matrices between two reshapes, and no kernel holds a
reshape. A pointwise op after it, a gelu or a residual, gives the same numbers on the matrix as on the reshaped result,
so it is computed before the reshape, in the product's kernel. So are sums and maxima of a product's rows, as in a
softmax or a norm after a linear layer. Every tensor involved is contiguous: the same elements in the same order, under
two shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.ir import Literal, LoweredNode, Node, Ref, Sequence, TensorType
from workbench.ir.value_names import marked_name
from workbench.lowering.fusion_candidate import reduced_dims
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.aten.extra_ops import MATMUL
from workbench.operators.formulas.decompose import reading

RULE = "moved above a reshape"

_PRODUCTS = ("aten.mm.default", "aten.bmm.default", MATMUL)
_RESHAPES = ("aten.view.default", "aten._unsafe_view.default")


def above_reshapes(items: list[LoweredNode], types: dict[str, TensorType], *, rows: bool) -> list[LoweredNode]:
    """The nodes with pointwise ones moved and, with `rows`, reductions of rows; `types` gains the new values."""
    work = _Moves(types, rows)
    return [made for item in items for made in work.take(item)]


@dataclass
class _Moves:
    types: dict[str, TensorType]
    rows: bool
    made_by: dict[str, LoweredNode] = field(default_factory=dict[str, LoweredNode])
    """Value -> the node that computes it."""
    source: dict[str, str] = field(default_factory=dict[str, str])
    """Reshaped value -> the value before the reshape."""
    of_product: set[str] = field(default_factory=set[str])
    """Results of matrix products, and values computed from them."""

    def take(self, item: LoweredNode) -> list[LoweredNode]:
        node = item.node
        if item.route == "view" and node.op in _RESHAPES and self._movable_over(node.operands[0]):
            self.source[node.results[0]] = node.operands[0]
        elif item.route == "automatic" and class_of(node.op) == "pointwise" and (shape := self._flat_shape(node)):
            return self._moved(item, shape)
        elif item.route == "automatic" and class_of(node.op) == "reduction" and self._reduces_rows(node):
            return self._reduced(item)
        self._known(item)
        return [item]

    def _known(self, item: LoweredNode) -> None:
        node = item.node
        self.made_by |= dict.fromkeys(node.results, item)
        if node.op in _PRODUCTS or self.of_product.intersection(node.operands):
            self.of_product.update(node.results)

    def _reduces_rows(self, node: Node) -> bool:
        """True if a node reduces the last dim of a reshaped value in `of_product`, and the reshape keeps that dim."""
        operand = node.operands[0]
        source = self.source.get(operand)
        if not self.rows or source is None or source not in self.of_product:
            return False
        shape, flat = self.types[operand].shape, self.types[source].shape
        return reduced_dims(node, len(shape)) == (len(shape) - 1,) and len(flat) > 1 and shape[-1] == flat[-1]

    def _reduced(self, item: LoweredNode) -> list[LoweredNode]:
        """The reduction moved before the reshape of its operand, and a reshape of its result."""
        node, (value,) = item.node, item.node.results
        source = self.source[node.operands[0]]
        shape = self.types[source].shape
        keeps = len(self.types[value].shape) == len(self.types[node.operands[0]].shape)
        dims = Sequence((Literal("int", len(shape) - 1),))
        flat = marked_name(f"{value}.flat", self.types)
        self.types[flat] = TensorType.dense((*shape[:-1], 1) if keeps else shape[:-1], self.types[value].dtype)
        args = (Ref(source), dims, *node.args[2:])
        return self._before(item, replace(node, args=args, name=flat, results=(flat,)))

    def _before(self, item: LoweredNode, node: Node) -> list[LoweredNode]:
        """A node that computes before the reshape, and the reshape to the value of `item`."""
        (flat,), (value,) = node.results, item.node.results
        computed = replace(item, node=node)
        self._known(computed)
        self.source[value] = flat
        return [computed, self._view(item, flat, value)]

    def _movable_over(self, value: str) -> bool:
        """True if ops may move before a reshape of this value: a contiguous result of a product or pointwise op."""
        maker = self.made_by.get(value)
        kind = class_of(maker.node.op) if maker is not None and maker.route == "automatic" else None
        return (kind in ("contraction", "pointwise") or value in self.of_product) and contiguous(self.types[value])

    def _flat_shape(self, node: Node) -> tuple[int, ...] | None:
        """The shape of a node's reshaped operands before their reshape; None if the node must stay."""
        result = self.types[node.results[0]]
        if not contiguous(result):
            return None
        reshaped = [
            value for value in node.operands if value in self.source and self.types[value].shape == result.shape
        ]
        shapes = {self.types[self.source[value]].shape for value in reshaped}
        if len(shapes) != 1:
            return None
        (shape,) = shapes
        rows = {self.source[value] for value in node.operands if self._is_of_rows(value, result.shape, shape)}
        others = [value for value in node.operands if value not in reshaped and self.source.get(value) not in rows]
        return shape if all(_follows(self.types[value], result.shape, shape) for value in others) else None

    def _is_of_rows(self, value: str, shape: tuple[int, ...], flat: tuple[int, ...]) -> bool:
        """True if a value has one number for each row, under either shape."""
        source = self.source.get(value)
        if source is None or not shape or not flat or shape[-1] != flat[-1]:
            return False
        return (self.types[value].shape, self.types[source].shape) == ((*shape[:-1], 1), (*flat[:-1], 1))

    def _moved(self, item: LoweredNode, shape: tuple[int, ...]) -> list[LoweredNode]:
        """The node computed on `shape`, after new reshapes of operands, and before the reshape to its old shape."""
        node, value = item.node, item.node.results[0]
        before: list[LoweredNode] = []
        names: dict[str, str] = {}
        for operand in node.operands:
            if self._is_of_rows(operand, self.types[value].shape, shape):
                names[operand] = self.source[operand]
                continue
            if self.types[operand].shape != self.types[value].shape:
                continue  # broadcasts over the last dim, under either shape
            names[operand] = self.source.get(operand) or self._reshaped(item, operand, shape, before)
        flat = marked_name(f"{value}.flat", self.types)
        self.types[flat] = TensorType.dense(shape, self.types[value].dtype)
        return [*before, *self._before(item, replace(reading(node, names), name=flat, results=(flat,)))]

    def _reshaped(self, item: LoweredNode, operand: str, shape: tuple[int, ...], before: list[LoweredNode]) -> str:
        name = marked_name(f"{item.node.name}.{operand}.flat", self.types)
        self.types[name] = TensorType.dense(shape, self.types[operand].dtype)
        before.append(self._view(item, operand, name))
        return name

    def _view(self, item: LoweredNode, source: str, value: str) -> LoweredNode:
        sizes = Sequence(tuple(Literal("int", extent) for extent in self.types[value].shape))
        node = Node(value, "aten.view.default", (Ref(source), sizes), {}, (value,), item.node.origin)
        return LoweredNode(node, "view", "", RULE, item.parent)


def _follows(operand: TensorType, shape: tuple[int, ...], flat: tuple[int, ...]) -> bool:
    """True if an operand can be used under both shapes: reshaped as a whole, or broadcast along the last dim."""
    if operand.shape == shape:
        return contiguous(operand)
    return operand.shape == () or (
        len(operand.shape) == 1 and operand.shape[0] in (1, flat[-1]) and shape[-1] == flat[-1]
    )


def contiguous(kind: TensorType) -> bool:
    return kind.offset == 0 and kind.strides == TensorType.dense(kind.shape, kind.dtype).strides
