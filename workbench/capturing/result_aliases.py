"""Results that alias other tensors of the call: a returned input, a view of an input, or a view of another result.

A functional graph has the values of results and not their memory. The export before functionalization still has the
views and the changes in place: two of its tensors alias if they have the same storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from workbench.ground.errors import InputMismatch, SharedElements
from workbench.ground.torch_inside.operator_objects import schema_if_op
from workbench.ground.torch_inside.tensor_inside import is_zero_tensor, memory_of
from workbench.ir import Alias, AtenGraph, TensorType
from workbench.ir.graph import same_steps
from workbench.operators.tensors.element_types import seen_as, to_dtype
from workbench.operators.tensors.tensor_memory import share_elements
from workbench.operators.tensors.torch_literals import to_type


@dataclass(frozen=True)
class Result:
    """A result of the program before functionalization: its node and its memory."""

    node: str
    """The first node with this very tensor: an op in place returns the tensor that it changes."""
    memory: int
    type: TensorType
    whole: bool
    """True if the result covers all of its memory."""
    plain: bool
    """True if the memory holds the result's numbers, and not their negatives or conjugates."""


@dataclass(frozen=True)
class Owner:
    """The tensor that results in its memory are views of: its node, its value in the graph, and its offset in bytes."""

    node: str
    value: str
    offset: int


def offset_bytes(value: torch.Tensor) -> int:
    """Returns the byte at which a tensor begins in its memory: storage offsets count elements, whose sizes differ."""
    return int(value.storage_offset()) * value.element_size()


def results(exported: ExportedProgram) -> list[Result]:
    """Returns the results of the program before functionalization, in order."""
    nodes = {node.name: node for node in exported.graph.nodes}
    specs = [spec for spec in exported.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    return [_result(nodes[spec.arg.name]) for spec in specs]


def _result(node: torch.fx.Node) -> Result:
    first = itself(node)
    value = cast("torch.Tensor", first.meta["val"])
    whole = value.numel() * value.element_size() == value.untyped_storage().nbytes()
    plain = not (value.is_conj() or value.is_neg())
    return Result(first.name, memory_of(value), to_type(value), whole, plain)


def itself(node: torch.fx.Node) -> torch.fx.Node:
    """The first node with the node's very tensor: skips calls that return one of their arguments."""
    while (source := _given_back(node)) is not None:
        node = source
    return node


_UNCHANGED = ("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout")
"""Ops that return their argument if their options make them do nothing."""

_CONVERTED = ("aten::to", "aten::contiguous", "aten::type_as")
"""Ops that return their argument if it already has the wanted type and layout."""


def _given_back(node: torch.fx.Node) -> torch.fx.Node | None:
    """The argument that a call returns, changed in place or unchanged; None if the call makes a new tensor."""
    schema = schema_if_op(node.target) if node.op == "call_function" else None
    if schema is None or len(schema.returns) != 1:
        return None
    first = node.args[0] if node.args and isinstance(node.args[0], torch.fx.Node) else None
    if schema.name in _UNCHANGED and (not node.args[2] or node.args[1] == 0):
        return first
    if schema.name in _CONVERTED and first is not None and _same(first.meta["val"], node.meta["val"]):
        return first
    written = schema.returns[0].alias_info
    if written is None or not written.is_write:
        return None
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info and argument.alias_info.before_set == written.before_set:
            found = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            return found if isinstance(found, torch.fx.Node) else None
    return None


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return memory_of(one) == memory_of(other) and to_type(one) == to_type(other)


def aliases(
    leaves: Sequence[Result | str], inputs: Mapping[int, Owner], outputs: Sequence[str], types: Mapping[str, TensorType]
) -> tuple[Alias, ...]:
    """Returns the leaves that have no memory of their own: inputs, views of inputs, and views of other leaves. A leaf
    that is an input itself is given as the input's value.

    `inputs` has the owner of each input's memory, `outputs` the values of the leaves.
    """
    owners = {
        leaf.memory: Owner(leaf.node, value, 0)
        for leaf, value in reversed(list(zip(leaves, outputs, strict=True)))
        if isinstance(leaf, Result) and leaf.whole and leaf.plain and types[value] == leaf.type
    } | dict(inputs)
    made: list[Alias] = []
    for place, (leaf, value) in enumerate(zip(leaves, outputs, strict=True)):
        if isinstance(leaf, str):
            made.append(Alias(place, leaf, None))
        elif leaf.plain and (owner := owners.get(leaf.memory)) and (owner.value != value or leaf.memory in inputs):
            kind = leaf.type
            before = owner.offset // to_dtype(kind.dtype).itemsize
            seen = TensorType(kind.shape, kind.dtype, kind.strides, kind.offset - before)
            made.append(Alias(place, owner.value, None if leaf.node == owner.node else seen))
    return tuple(made)


def owners_among(exported: ExportedProgram, values: Mapping[str, str]) -> dict[int, Owner]:
    """Returns the owner of each input's memory; `values` has the graph's values by the names of placeholders."""
    given = [node for node in exported.graph.find_nodes(op="placeholder") if node.name in values]
    tensors = {node: node.meta["val"] for node in given if isinstance(node.meta["val"], torch.Tensor)}
    return {
        memory_of(tensor): Owner(node.name, values[node.name], offset_bytes(tensor)) for node, tensor in tensors.items()
    }


def returned(graph: AtenGraph, values: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns `outputs`, with each alias of an input or another output replaced by that tensor or a view of it."""
    made = list(outputs)
    given = dict(zip((slot.value for slot in graph.inputs), values, strict=True))
    paths = {slot.value: slot.path for slot in graph.inputs}
    for alias in graph.aliases:
        base, kind = given.get(alias.base), graph.types[alias.base]
        if base is None:
            base = made[graph.outputs.index(alias.base)]
        elif alias.type is not None and not same_steps(kind.shape, base.stride(), kind.strides):
            raise InputMismatch(
                f"{graph.name} returns a view of {paths[alias.base]}, which was captured with the strides "
                f"{list(kind.strides)} and was given with {list(base.stride())}. A view's "
                "elements depend on the strides: trace again with inputs that have the strides of these"
            )
        made[alias.output] = base if alias.type is None else _view(base, alias.type)
    return made


def _view(base: torch.Tensor, kind: TensorType) -> torch.Tensor:
    base, dtype = base if torch.is_grad_enabled() else base.detach(), to_dtype(kind.dtype)
    return seen_as(base, kind.shape, kind.strides, offset_bytes(base) // dtype.itemsize + kind.offset, dtype)


def refuse_shared_memory(graph: AtenGraph, values: Sequence[torch.Tensor]) -> None:
    """Refuses a call in which a tensor that the graph changes in place shares elements with another: the graph treats
    the two as separate tensors.

    `values` are in the order of `graph.inputs`.
    """
    changed = {mutation.target for mutation in graph.mutations}
    for place, slot in enumerate(graph.inputs):
        if slot.value not in changed:
            continue
        for other, tensor in zip(graph.inputs, values, strict=True):
            if other is not slot and share_elements(values[place], tensor):
                raise SharedElements(
                    f"{graph.name} changes {slot.path} in place, and {other.path} shares its memory. The graph "
                    "was captured with separate tensors and would change only one of them: give a copy of one, "
                    "`.clone()`, or trace a function that makes both views of one tensor itself."
                )


def refuse_unwritable(graph: AtenGraph, values: Sequence[torch.Tensor]) -> None:
    """Refuses a call that changes in place a tensor that cannot be changed, before any computation."""
    changed = {mutation.target for mutation in graph.mutations}
    for slot, value in zip(graph.inputs, values, strict=True):
        if slot.value not in changed:
            continue
        steps = zip(value.shape, value.stride(), strict=True)
        if any(extent > 1 and not stride for extent, stride in steps):
            why = "is expanded: several of its elements share one place in memory. Give it a clone()"
            raise SharedElements(f"{graph.name} changes {slot.path} in place, which {why}")
        if is_zero_tensor(value):
            why = "is a zero tensor, which has no memory to change. Give it a clone()"
            raise SharedElements(f"{graph.name} changes {slot.path} in place, which {why}")
        if value.is_inference() and not torch.is_inference_mode_enabled():
            why = "was made in inference mode and cannot be changed outside of it. Give it a clone()"
            raise InputMismatch(f"{graph.name} changes {slot.path} in place, which {why}")
