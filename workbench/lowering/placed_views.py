"""Places views: finds the strides of each view over the storage in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from workbench.ir import LoweredNode, Node, Ref, TensorType, View
from workbench.ir.value_names import marked_name
from workbench.lowering.assembly import assembled
from workbench.lowering.empty_tensors import NO_ELEMENTS
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.formulas.decompose import reading
from workbench.operators.formulas.formula_builder import infer, meta_tensor


@dataclass
class PlacedViews:
    """Places the views of a graph. `types` gains the types of copies, and the new types of moved values."""

    types: dict[str, TensorType]
    computable: Callable[[Node], bool]
    """Returns True if a kernel can compute a node."""
    views: list[View] = field(default_factory=list[View])

    def of(self, items: list[LoweredNode], results: set[str], *, copies: bool) -> list[LoweredNode]:
        """The nodes, with a copy before each view that strides cannot express.

        A part of an assembled result lies in that result, and is a view of it too. Unless `copies`, a copied value is
        made directly at the copy's place if possible.
        """
        parts = assembled(self._with_copies(items), self.types, results, copies=copies)
        bases = dict(parts.base)
        placed = list[LoweredNode]()
        for item in parts.items:
            if _is_view(item):
                item = self._placed(item, bases, placed)
            else:
                self.views += [View(value, bases[value]) for value in item.node.results if value in bases]
            placed.append(item)
        return placed

    def _with_copies(self, items: list[LoweredNode]) -> list[LoweredNode]:
        """The nodes with copies before views, as far as they are known before results are assembled."""
        found = list[LoweredNode]()
        for item in items:
            if _is_view(item):
                item, types = self._shown(item, found)
                self.types |= zip(item.node.results, types, strict=True)
            found.append(item)
        return found

    def _placed(self, item: LoweredNode, bases: dict[str, str], before: list[LoweredNode]) -> LoweredNode:
        item, types = self._shown(item, before)
        source = item.node.operands[0]
        base = bases.get(source, source)
        for value, type_ in zip(item.node.results, types, strict=True):
            bases[value] = base
            self.types[value] = type_
            self.views.append(View(value, base))
        return item

    def _shown(self, item: LoweredNode, before: list[LoweredNode]) -> tuple[LoweredNode, tuple[TensorType, ...]]:
        """A view and the types of its results. If strides cannot express the view, `before` gets a copy of the operand,
        and the view shows the copy."""
        try:
            return item, infer(item.node, self.types)
        except RuntimeError:
            source = item.node.operands[0]
            copy = self._copy(item, source)
            before.append(copy)
            item = replace(item, node=reading(item.node, {source: copy.node.name}))
            return item, infer(item.node, self.types)

    def _copy(self, item: LoweredNode, source: str) -> LoweredNode:
        name = marked_name(f"{item.node.name}.clone", self.types)
        node = Node(name, "aten.clone.default", (Ref(source),), {}, (name,), item.node.origin)
        contiguous = meta_tensor(self.types[source]).contiguous()
        self.types[name] = TensorType(self.types[source].shape, self.types[source].dtype, tuple(contiguous.stride()))
        route = "automatic" if self.computable(node) else "host"
        return LoweredNode(node, route, "", "copy before a view that strides cannot express", item.parent)


def _is_view(item: LoweredNode) -> bool:
    return item.route == "view" and class_of(item.node.op) == "view" and item.rule != NO_ELEMENTS
