"""Running one recorded node with PyTorch: plain ops, ops that change arguments, ops with graphs as arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch

from workbench.ground.torch_inside.dispatch_modes import below_autograd
from workbench.ground.torch_inside.operator_objects import schema_of_op
from workbench.ir import AtenGraph, Node
from workbench.operators.tensors import containers
from workbench.operators.tensors.torch_literals import from_arg, to_overload

HIGHER_ORDER = "higher_order"
"""The namespace of ops with graphs as arguments, such as `cond` and `while_loop`. They have no schema."""


def call(node: Node, lookup: Callable[[str], object], **overrides: object) -> tuple[torch.Tensor, ...]:
    """Runs one recorded node; returns one result for each of `node.results`. The node's arguments stay unchanged."""
    args = [from_arg(arg, lookup) for arg in node.args]
    kwargs = {name: from_arg(arg, lookup) for name, arg in node.kwargs.items()} | overrides
    if node.bodies:
        return tuple(_tensors(_running_graphs(node, args, kwargs)))
    overload = cast(Any, to_overload(node.op))
    if not schema_of_op(overload).is_mutable:
        return tuple(_tensors(overload(*args, **kwargs)))
    given, changed = _with_copies(schema_of_op(overload), args, kwargs)
    return tuple(_tensors((overload(**given), changed)))


def _tensors(found: object) -> list[torch.Tensor]:
    """All tensors in an op's results, in order. A result may be None or a list of tensors."""
    if isinstance(found, torch.Tensor):
        return [found]
    parts = cast("list[object]", found) if isinstance(found, (tuple, list)) else []
    return [tensor for part in parts for tensor in _tensors(part)]


def _with_copies(
    schema: torch.FunctionSchema, args: list[object], kwargs: Mapping[str, object]
) -> tuple[dict[str, object], list[object]]:
    """All arguments by name, with copies in place of those that the op changes, and these copies."""
    given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | dict(kwargs)
    changed = [each.name for each in schema.arguments if each.is_write and each.name in given]
    given |= {name: _copied(given[name]) for name in changed}
    return given, [given[name] for name in changed]


def _copied(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_copied(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _running_graphs(node: Node, args: list[object], kwargs: Mapping[str, object]) -> object:
    """Runs an op that takes graphs. `scan` wants its sequences of arguments as lists; the other ops want tuples, such
    as the options and the block mask of attention."""
    op = getattr(torch.ops.higher_order, node.op.split(".")[1])
    nested = list if node.op == "higher_order.scan.default" else tuple
    with below_autograd():
        return op(*(_callable(arg, nested) for arg in args), **kwargs)


def _callable(arg: object, nested: type[list[object]] | type[tuple[object, ...]]) -> object:
    if isinstance(arg, AtenGraph):
        return partial(_run_body, arg)
    return nested(_callable(item, nested) for item in cast("list[object]", arg)) if isinstance(arg, list) else arg


def _run_body(body: AtenGraph, *given: torch.Tensor) -> object:
    known = dict(zip((slot.value for slot in body.inputs), given, strict=True))
    for node in body.nodes:
        known.update(zip(node.results, call(node, known.__getitem__), strict=True))
    return containers.rebuild(body.tree, [known[value] for value in body.outputs])
