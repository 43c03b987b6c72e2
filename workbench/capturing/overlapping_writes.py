"""Refuses changes in place of elements that lie on each other, as PyTorch does when it has numbers.

Without data PyTorch does not look, and a graph of values would give numbers where the call raises. It would give other
numbers where PyTorch takes such a call: a fill of an expanded row, columns that are moved onto each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import fx

from workbench.capturing.result_aliases import itself
from workbench.ground import errors
from workbench.ground.environment.call_sites import place_text
from workbench.ground.torch_inside.operator_objects import op_name, schema_if_op
from workbench.ground.torch_inside.tensor_inside import memory_of
from workbench.operators.tensors.tensor_memory import lies_on_itself, share_elements


def refuse_overlapping(name: str, graph: fx.Graph) -> None:
    """Raises for the first op in place that writes an element twice, or reads elements that it also writes."""
    for node in graph.nodes:
        schema = schema_if_op(node.target) if node.op == "call_function" else None
        if schema is None or not schema.is_mutable:
            continue
        given = list(_tensors_given(node, schema.arguments))
        if getattr(node.target, "namespace", "aten") not in ("aten", "prims"):
            _refuse_changed_twice(name, node, given)
        for tensor in (tensor for argument, tensor in given if _writes(argument)):
            if lies_on_itself(tensor) and not _is_given(node):
                raise _refused(name, node, "in which several elements are the same memory")
            if _is_elementwise(node.target) and any(_overlap_in_part(tensor, other) for _, other in given):
                raise _refused(name, node, "some of whose elements it also reads at other places")


def _refuse_changed_twice(name: str, node: fx.Node, given: Sequence[tuple[Any, torch.Tensor]]) -> None:
    """An op of somebody's own is given each tensor that it changes as a copy, and would not see one in another."""
    for (argument, tensor), (other, beside) in combinations(given, 2):
        if (_writes(argument) or _writes(other)) and share_elements(tensor, beside):
            where = place_text(node.meta.get("stack_trace"))
            raise errors.SharedElements(
                f"{name} calls {node.target}{f' at {where}' if where else ''} with {argument.name} and {other.name} in "
                "the same memory, and it changes one of them. In a graph each is a value of its own: give a copy of "
                "one of them, `.clone()`"
            )


def _writes(argument: Any) -> bool:
    """True for an argument that an op changes."""
    return argument.alias_info is not None and argument.alias_info.is_write


def _tensors_given(node: fx.Node, arguments: Sequence[Any]) -> Iterator[tuple[Any, torch.Tensor]]:
    """Each tensor of a call, with the argument that it is given for or in."""
    for number, argument in enumerate(arguments):
        given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
        for each in given if isinstance(given, list | tuple) else [given]:
            value = each.meta.get("val") if isinstance(each, fx.Node) else None
            if isinstance(value, torch.Tensor):
                yield argument, value


def _is_elementwise(target: Any) -> bool:
    """True for the ops in which PyTorch looks for this."""
    return op_name(target) == "copy_" or torch.Tag.pointwise in target.tags


def _is_given(node: fx.Node) -> bool:
    """True if the op changes an input of the graph, whose strides are told with its name later."""
    changed = node.args[0] if node.args else None
    return isinstance(changed, fx.Node) and itself(changed).op == "placeholder"


def _overlap_in_part(written: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two different views share elements. PyTorch raises for dense ones; for others its numbers follow from the
    order in which it happens to walk them."""
    if other is written or (_laid_out(written) == _laid_out(other) and not lies_on_itself(written)):
        return False
    return share_elements(written, other)


def _laid_out(tensor: torch.Tensor) -> tuple[object, ...]:
    return memory_of(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _refused(name: str, node: fx.Node, what: str) -> errors.SharedElements:
    where = place_text(node.meta.get("stack_trace"))
    return errors.SharedElements(
        f"{name} calls {node.target}{f' at {where}' if where else ''} on a tensor {what}. A graph "
        "of values cannot say that, and PyTorch refuses it, or its numbers follow from its order of work. Give a copy: "
        "`.clone()`"
    )
