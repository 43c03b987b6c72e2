"""The schema of a recorded node: the names of its arguments, and which of them are tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from workbench.ground.torch_inside.operator_objects import schema_of_op
from workbench.ir import Arg, Node, Sequence
from workbench.operators.tensors.torch_literals import from_arg, to_arg, to_overload


def arguments(node: Node) -> dict[str, Arg]:
    """Every argument of a node by its name in the schema, with defaults filled in."""
    found: dict[str, Arg] = {}
    given = iter(node.args)
    for argument in schema_of(node.op).arguments:
        if argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            default = argument.default_value if argument.has_default_value() else None
            value = None if argument.kwarg_only else next(given, None)
            found[argument.name] = value if value is not None else to_arg(default)
    return found


def tensor_arguments(op: str) -> frozenset[str]:
    """Names of the arguments that are tensors, lists of tensors included."""
    return frozenset(each.name for each in schema_of(op).arguments if "Tensor" in str(each.type))


def inputs_and_attributes(
    node: Node, lookup: Callable[[str], torch.Tensor]
) -> tuple[list[torch.Tensor], dict[str, object]]:
    """The arguments of a registered executor: a node's tensors in the order of its schema, and all others by name."""
    inputs: list[torch.Tensor] = []
    attributes: dict[str, object] = {}
    tensors = tensor_arguments(node.op)
    for name, argument in arguments(node).items():
        value = from_arg(argument, lookup)
        parts = cast("list[object]", value) if isinstance(argument, Sequence) else [value]
        if name in tensors and all(isinstance(part, torch.Tensor) for part in parts):
            inputs += cast("list[torch.Tensor]", parts)
        else:
            attributes[name] = value
    return inputs, attributes


def schema_of(op: str) -> torch.FunctionSchema:
    """The schema of an overload, by its recorded name."""
    return schema_of_op(to_overload(op))


def plain_arguments(node: Node) -> dict[str, object]:
    """A node's arguments other than tensors, by name, with defaults filled in."""
    tensors = tensor_arguments(node.op)
    return {name: from_arg(argument, _no_tensor) for name, argument in arguments(node).items() if name not in tensors}


def _no_tensor(value: str) -> torch.Tensor:
    raise AssertionError(f"{value} is a tensor, but the schema has no tensor in this place")
