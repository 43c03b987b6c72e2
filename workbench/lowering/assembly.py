"""Assembled results, such as a concatenation: each part is written directly to its place in the result.

A concatenation computes nothing. Its result is a storage in which every part has a place: strides over the storage,
like a view. A part that some kernel makes is written to that place, and all its readers read it there. Only a part that
already lies elsewhere (an input, part of another tensor, the same part a second time) is copied to its place.

The results of ops that overwrite part of a tensor are assembled too: first the tensor, then the part over it.

A copy in another order, made for a view that strides cannot express, is a result of one part: the op that makes the
original writes it in that order, if nothing else reads it and the innermost axis stays the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch

from workbench.ir import BREAK, LoweredNode, Node, Ref, Sequence, TensorType
from workbench.ir.value_names import marked_name
from workbench.lowering.empty_tensors import NO_ELEMENTS
from workbench.lowering.fusion_rules import COPY_AT_ITS_MAKER
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.formulas.formula_builder import meta_tensor
from workbench.operators.tensors.torch_literals import from_arg, to_arg, to_type

COPY_RULE = "copied to its place in the result"

IN_PLACE_RULE = "put together in place"

SIDE_BY_SIDE_RULE = "its parts are already side by side"

Place = tuple[str, TensorType]
"""A part and its place, as a type with strides over the result's storage."""


def assembled(items: list[LoweredNode], types: dict[str, TensorType], results: set[str], *, copies: bool) -> Assembly:
    """Finds the place of every part. `types` gains the types of copies, and the new types of moved parts.

    Unless `copies`, a copy is also assembled, of one part.
    """
    readers = Counter(value for item in items for value in item.node.operands)
    makers = {value: item for item in items for value in item.node.results}
    work = Assembly(types, makers, _fixed(items, results), readers, copies)
    for item in reversed(items):
        work.put_together(item)
    for item in items:
        work.items += [*work.copies.get(item.node.name, ()), work.reading.get(item.node.name, item)]
    return work


@dataclass
class Assembly:
    """A graph whose parts are being placed, last results first, so that a result that is itself a part has its place
    before its own parts."""

    types: dict[str, TensorType]
    made_by: Mapping[str, LoweredNode]
    fixed: set[str]
    """Values that must keep their own storages."""
    readers: Counter[str]
    """Number of nodes that read each value."""
    keeps_copies: bool
    items: list[LoweredNode] = field(default_factory=list[LoweredNode])
    """The nodes, copies of parts included."""
    base: dict[str, str] = field(default_factory=dict[str, str])
    """Placed value -> the result in whose storage it lies."""
    copies: dict[str, list[LoweredNode]] = field(default_factory=dict[str, list[LoweredNode]])
    """Name of an assembling node -> the copies before it."""
    copy_of: dict[str, tuple[str, LoweredNode]] = field(default_factory=dict[str, tuple[str, LoweredNode]])
    """Copied value -> the name of the node that needed the copy, and the copy."""
    reading: dict[str, LoweredNode] = field(default_factory=dict[str, LoweredNode])
    """Name of an assembling node -> the node that reads the parts at their places."""

    def put_together(self, item: LoweredNode) -> None:
        """Places the parts of an assembling node; other nodes have none."""
        node = item.node
        if node.op == "aten.clone.default" and item.route == "automatic" and not self.keeps_copies:
            self._make_in_order(item)
            return
        if item.route != "view" or class_of(node.op) != "assembly" or item.rule == NO_ELEMENTS:
            return
        if node.op == "aten.cat.default" and self._side_by_side(item):
            return
        base = self.base.get(node.results[0], node.results[0])
        overlapping = node.op not in _DISJOINT
        parts: list[str] = []
        for value, place in _places(node, self.types):
            if not overlapping and self._moved(value, place, base):
                parts.append(value)
            else:
                parts.append(self._copied(item, value, place, base))
        self.reading[node.name] = replace(item, node=_with_parts(node, parts), rule=item.rule or IN_PLACE_RULE)

    def _make_in_order(self, item: LoweredNode) -> None:
        """Makes the copied value at the copy's place, instead of copying it, if nothing else reads it."""
        (source,), (result,) = item.node.operands, item.node.results
        place = self.types[result]
        if (
            self._read_once(source)
            and _nearest(place) == _nearest(self.types[source])
            and self._moved(source, place, self.base.get(result, result))
        ):
            self.reading[item.node.name] = replace(item, route="view", rule=COPY_AT_ITS_MAKER)

    def _read_once(self, value: str) -> bool:
        """True if a value, and the value that it is a view of, each have one reader."""
        maker = self.made_by.get(value)
        if maker is None or self.readers[value] != 1:
            return False
        is_view = maker.route == "view" and class_of(maker.node.op) == "view"
        return not is_view or self._read_once(maker.node.operands[0])

    def _side_by_side(self, item: LoweredNode) -> bool:
        """Makes this result a view of a later result in which the parts already lie side by side, as in networks that
        concatenate again and again; True if it is one.

        A copy that was planned for the later result is made for this one.
        """
        (result,), values = item.node.results, _parts(item.node)
        names = [self.copy_of[value][1].node.name if value in self.copy_of else value for value in values]
        bases = {self.base.get(name, "") for name in names}
        if result in self.fixed or result in self.base or len(bases) != 1 or "" in bases:
            return False
        first, wanted = self.types[names[0]], self.types[result]
        seen = TensorType(wanted.shape, wanted.dtype, first.strides, first.offset)
        places = _places(item.node, {**self.types, result: seen})
        if any(self.types[name] != place for name, (_, place) in zip(names, places, strict=True)):
            return False
        for owner, copy in (self.copy_of[value] for value in dict.fromkeys(values) if value in self.copy_of):
            self.copies[owner].remove(copy)
            self.copies.setdefault(item.node.name, []).append(copy)
        self.copy_of |= {value: (item.node.name, self.copy_of[value][1]) for value in values if value in self.copy_of}
        self.types[result], self.base[result] = seen, bases.pop()
        self.reading[item.node.name] = replace(item, node=_with_parts(item.node, names), rule=SIDE_BY_SIDE_RULE)
        return True

    def _moved(self, value: str, place: TensorType, base: str) -> bool:
        """Gives a value that a kernel makes the place `place`; False if it must lie, or already lies, elsewhere."""
        maker = self.made_by.get(value)
        if maker is None or value in self.fixed or value in self.base:
            return False
        if maker.route == "view" and class_of(maker.node.op) == "view":
            (source,) = maker.node.operands
            wanted = _seen_through(maker.node, place, self.types[source])
            if wanted is None or not self._moved(source, wanted, base):
                return False
        self.types[value] = place
        self.base[value] = base
        return True

    def _copied(self, item: LoweredNode, value: str, place: TensorType, base: str) -> str:
        copies = self.copies.setdefault(item.node.name, [])
        name = marked_name(f"{item.node.name}.part{len(copies)}", self.types)
        self.types[name], self.base[name] = place, base
        node = Node(name, "aten.clone.default", (Ref(value),), {}, (name,), item.node.origin)
        copies.append(LoweredNode(node, "automatic", "", COPY_RULE, item.parent))
        if item.node.op in _DISJOINT:
            self.copy_of.setdefault(value, (item.node.name, copies[-1]))
        return name


def _nearest(kind: TensorType) -> int:
    """The axis with the smallest stride."""
    axes = [axis for axis, extent in enumerate(kind.shape) if extent > 1]
    return min(axes, key=lambda axis: kind.strides[axis], default=0)


def _fixed(items: list[LoweredNode], results: set[str]) -> set[str]:
    """Values that must keep their own storages: results, values used across a graph break, the values that these are
    views of, and operands of `as_strided`, which counts a storage's elements."""
    fixed = results | _across_breaks(items)
    for item in reversed(items):
        if item.node.op == "aten.as_strided_scatter.default":
            fixed.update(item.node.results)
        is_view = item.route == "view" and class_of(item.node.op) == "view"
        if is_view and (item.node.op == "aten.as_strided.default" or fixed.intersection(item.node.results)):
            fixed.update(item.node.operands)
    return fixed


def _across_breaks(items: list[LoweredNode]) -> set[str]:
    """Values that are used across a graph break: the parts of a graph between breaks run separately and pass tensors to
    each other."""
    part, made_in, found = 0, dict[str, int](), set[str]()
    for item in items:
        is_break = item.node.op == BREAK
        part += is_break
        found.update(value for value in item.node.operands if is_break or made_in.get(value, part) != part)
        found.update(item.node.results if is_break else ())
        made_in |= dict.fromkeys(item.node.results, part)
    return found


def _seen_through(view: Node, place: TensorType, source: TensorType) -> TensorType | None:
    """The place of a view's source if the view lies at `place`; None if the view does not show all of the source."""
    tensor = meta_tensor(place)
    if view.op in _RESHAPES and place.numel == source.numel:
        try:
            return to_type(tensor.view(source.shape))
        except RuntimeError:
            return None
    if view.op in _PERMUTATIONS:
        given = {name: from_arg(arg, str) for name, arg in arguments(view).items()}
        return to_type(_PERMUTATIONS[view.op](tensor, given))
    return None


def _unpermuted(tensor: torch.Tensor, given: Mapping[str, Any]) -> torch.Tensor:
    rank = tensor.dim()
    return tensor.permute(sorted(range(rank), key=lambda axis: given["dims"][axis] % rank))


_RESHAPES = frozenset(
    {
        *("aten.view.default", "aten._unsafe_view.default", "aten.unsqueeze.default", "aten.squeeze.default"),
        *("aten.squeeze.dim", "aten.squeeze.dims", "aten.flatten.using_ints", "aten.unflatten.int"),
        *("aten.alias.default", "aten.detach.default", "aten.view_as.default"),
    }
)
"""Views that show all elements in their order."""

_PERMUTATIONS: dict[str, Callable[[torch.Tensor, Mapping[str, Any]], torch.Tensor]] = {
    "aten.permute.default": _unpermuted,
    "aten.t.default": lambda tensor, _: tensor.t(),
    "aten.transpose.int": lambda tensor, given: tensor.transpose(given["dim0"], given["dim1"]),
}
"""Views that show all elements in another order, each with the function that undoes it."""


def _parts(node: Node) -> list[str]:
    return [str(value) for value in cast("list[object]", from_arg(arguments(node)["tensors"], str))]


def _places(node: Node, types: Mapping[str, TensorType]) -> list[Place]:
    """The parts of an assembling node with their places, in the order in which they are written."""
    given = {name: from_arg(arg, str) for name, arg in arguments(node).items()}
    whole = meta_tensor(types[node.results[0]])
    return [(value, to_type(part)) for value, part in _LAID_OUT[node.op](whole, given, types)]


Laid = list[tuple[str, torch.Tensor]]


def _cat(whole: torch.Tensor, given: Mapping[str, Any], types: Mapping[str, TensorType]) -> Laid:
    extents: list[int] = [types[value].shape[given["dim"]] for value in given["tensors"]]
    return list(zip(given["tensors"], torch.ops.aten.split_with_sizes(whole, extents, given["dim"]), strict=True))


def _stack(whole: torch.Tensor, given: Mapping[str, Any], types: Mapping[str, TensorType]) -> Laid:
    return list(zip(given["tensors"], whole.unbind(given["dim"]), strict=True))


def _over(part: Callable[[torch.Tensor, Mapping[str, Any]], torch.Tensor]) -> Callable[..., Laid]:
    """The layout of an op that overwrites a part: first the whole tensor, then the source over its part."""

    def laid(whole: torch.Tensor, given: Mapping[str, Any], types: Mapping[str, TensorType]) -> Laid:
        return [(given["self"], whole), (given["src"], part(whole, given))]

    return laid


def _slice(whole: torch.Tensor, given: Mapping[str, Any]) -> torch.Tensor:
    return torch.ops.aten.slice.Tensor(whole, given["dim"], given["start"], given["end"], given["step"])


def _strided(whole: torch.Tensor, given: Mapping[str, Any]) -> torch.Tensor:
    return whole.as_strided(given["size"], given["stride"], given["storage_offset"])


_DISJOINT = ("aten.cat.default", "aten.stack.default")

_LAID_OUT: dict[str, Callable[..., Laid]] = {
    "aten.cat.default": _cat,
    "aten.stack.default": _stack,
    "aten.slice_scatter.default": _over(_slice),
    "aten.select_scatter.default": _over(lambda whole, given: whole.select(given["dim"], given["index"])),
    "aten.as_strided_scatter.default": _over(_strided),
    "aten.diagonal_scatter.default": _over(
        lambda whole, given: whole.diagonal(given["offset"], given["dim1"], given["dim2"])
    ),
}


def _with_parts(node: Node, parts: list[str]) -> Node:
    """The node with other values as its parts."""
    if node.op in _DISJOINT:
        return replace(node, args=(Sequence(tuple(Ref(part) for part in parts)), *node.args[1:]))
    return replace(node, args=(*(to_arg(Ref(part)) for part in parts), *node.args[2:]))
