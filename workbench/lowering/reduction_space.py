"""Rules for ops that may share a loop nest with a reduction."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container
from typing import Final

from workbench.ir import Literal
from workbench.lowering.fusion_candidate import Candidate, Shape, reduced_dims, shapes_of, spaces_of


def reduction_space(group: Candidate) -> str:
    """The reason why these ops cannot share a loop nest, empty if they can: all reductions must reduce the same dims of
    one space, and other ops must have the shape of that space or of a reduced result."""
    reductions = group.of("reduction")
    spaces = {(group.operand_shape(node), reduced_dims(node, len(group.operand_shape(node)))) for node in reductions}
    if len(spaces) > 1:
        return f"reductions over {spaces_of(spaces)} do not share one loop nest"
    space, dims = next(iter(spaces))
    full = {node.results[0] for node in group.nodes if group.shape(node) == space and node not in reductions}
    small = {node.results[0]: group.shape(node) for node in reductions}
    for node in group.nodes:
        inside = {small[value] for value in node.operands if value in small}
        shape = group.shape(node)
        if node in reductions:
            if inside:
                return "a reduction of a reduced result needs a loop nest of its own"
        elif node.results[0] in full:
            misplaced = {reduced for reduced in inside if not _aligned(reduced, space, dims)}
            if misplaced:
                return f"broadcasting {shapes_of(misplaced)} over {shapes_of([space])} does not follow the reduced dims"
        elif inside == {shape} or (not inside and not full & {*node.operands} and _aligned(shape, space, dims)):
            small[node.results[0]] = shape
        else:
            return f"{shapes_of([shape])} is neither the space {shapes_of([space])} nor a result reduced from it"
    return ""


_FOLDED: Final = {
    "aten.mul": (0, 1),
    "aten.div": (1,),
    "aten.add": (0,),
    "aten.sub": (0,),
    "aten.bitwise_and": (0, -1),
    "aten.bitwise_or": (0, -1),
    "aten.bitwise_xor": (0,),
    "aten.bitwise_left_shift": (0,),
    "aten.bitwise_right_shift": (0,),
    "aten.__and__": (0, -1),
    "aten.__or__": (0, -1),
    "aten.__xor__": (0,),
    "aten.__lshift__": (0,),
    "aten.__rshift__": (0,),
}
"""Op -> second operands with which its result is the first operand, or one number everywhere."""
_OF_TWO: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("sub", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"),
    )
)
"""Ops whose result, if both operands are the same value, is that value or one number everywhere."""


def folded_away(group: Candidate) -> str:
    """The reason why a kernel of several results cannot hold an op that changes nothing, empty if it has none: one
    value would be stored twice."""
    for node in group.nodes:
        first, second = node.args[:2] if len(node.args) > 1 else (None, None)
        op = node.op.rpartition(".")[0]
        unchanged = isinstance(second, Literal) and second.value in _FOLDED.get(op, ())
        if unchanged or (op in _OF_TWO and first == second):
            return f"{node.name} computes nothing new: the kernel would store one value in two places"
    return ""


def same_everywhere(group: Candidate, results: Container[str]) -> str:
    """The reason why a kernel cannot have one of these results, empty if it can: a result that depends on no tensor has
    no known loops."""
    constant = set[str]()
    for node in group.nodes:
        if constant.issuperset(node.operands):
            constant.update(node.results)
            if node.operands and any(value in results for value in node.results):
                return f"{node.name} reads no tensor: its loops would have nothing to do with the others'"
    return ""


def reads_again(group: Candidate) -> str:
    """The reason why reductions in one loop nest would load as much as in two on this machine, empty if they load less.

    Rows that stay in the scratchpad are loaded once. Longer rows are loaded again for each reduction; equal reductions
    become one.
    """
    reductions = group.of("reduction")
    space = group.operand_shape(reductions[0])
    dims = reduced_dims(reductions[0], len(space))
    different = {(node.op, node.operands[0]) for node in reductions}
    if len(different) < len(reductions):
        return ""
    there = sum(group.types[value].element_bytes for value in _kept(group) if group.types[value].shape == space)
    made = {value for node in group.nodes for value in node.results}
    read = {value for node in group.nodes for value in node.operands} - made
    moved = sum(kind.numel * kind.element_bytes for kind in map(group.types.__getitem__, read) if kind.shape == space)
    return group.room.refuses_long_rows(math.prod(space[dim] for dim in dims) * there, moved)


def _kept(group: Candidate) -> set[str]:
    """Values of which a whole row lies in the scratchpad: all but values with one reader, which are fused into it."""
    readers = Counter(value for node in group.nodes for value in {*node.operands})
    made = {value for node in group.nodes for value in node.results}
    return {value for value in {*readers, *made} if value not in made or readers[value] != 1}


def _aligned(shape: Shape, space: Shape, dims: tuple[int, ...]) -> bool:
    """True if broadcasting a reduced result over the space aligns each row's result with that row."""
    if len(shape) == len(space):
        return all(n == (1 if dim in dims else space[dim]) for dim, n in enumerate(shape))
    kept = tuple(dim for dim in range(len(space)) if dim not in dims)
    return kept == tuple(range(len(space) - len(shape), len(space)))
