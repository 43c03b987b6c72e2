"""Between torch's own objects and what a record may hold: types, literals, argument lists, overloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from workbench.ir import Arg, Literal, Node, Ref, Sequence, TensorType
from workbench.torch_types import dtype_name, to_dtype

_TORCH_ENUMS = {"layout": torch.layout, "memory_format": torch.memory_format}


def to_type(tensor: torch.Tensor, *, base_offset: int = 0) -> TensorType:
    """A tensor's type; its offset counts from `base_offset`, where the base it is a view of begins."""
    shape, strides = tuple(int(n) for n in tensor.shape), tuple(int(n) for n in tensor.stride())
    return TensorType(shape, dtype_name(tensor.dtype), strides, int(tensor.storage_offset()) - base_offset)


def to_literal(value: object) -> Literal | None:
    """The literal that says `value`, or None when it is nothing a record can hold."""
    if value is None:
        return Literal("none", None)
    for kind, cls in (("bool", bool), ("int", int), ("float", float), ("str", str)):
        if isinstance(value, cls):
            return Literal(kind, cls(value))
    if isinstance(value, torch.dtype):
        return Literal("dtype", dtype_name(value))
    if isinstance(value, torch.device):
        return Literal("device", str(value))
    for kind, cls in _TORCH_ENUMS.items():
        if isinstance(value, cls):
            return Literal(kind, str(value).removeprefix("torch."))
    return None


def from_literal(literal: Literal) -> object:
    """The Python or torch object a literal stands for."""
    if literal.kind == "dtype":
        return to_dtype(str(literal.value))
    if literal.kind == "device":
        return torch.device(str(literal.value))
    if literal.kind in _TORCH_ENUMS:
        return getattr(torch, str(literal.value))
    return literal.value


def to_arg(value: object) -> Arg:
    """A Python argument, made of references, numbers and lists of them, as a record's argument."""
    if isinstance(value, (Ref, Literal, Sequence)):
        return value
    if isinstance(value, (list, tuple)):
        return Sequence(tuple(to_arg(item) for item in cast("list[object]", value)))
    literal = to_literal(value)
    if literal is None:
        raise TypeError(f"{type(value).__name__} cannot be an argument of a recorded node")
    return literal


def from_arg(arg: Arg, lookup: Callable[[str], object]) -> object:
    """The Python argument a recorded one stands for, references replaced by `lookup`."""
    if isinstance(arg, Ref):
        return lookup(arg.value)
    if isinstance(arg, Sequence):
        return [from_arg(item, lookup) for item in arg.items]
    return from_literal(arg)


def to_overload(op: str) -> Callable[..., Any]:
    """The torch overload of a recorded name such as `aten.softmax.int`."""
    namespace, name, overload = op.split(".")
    return cast("Callable[..., Any]", getattr(getattr(getattr(torch.ops, namespace), name), overload))


def call(node: Node, lookup: Callable[[str], object], **overrides: object) -> tuple[torch.Tensor, ...]:
    """Runs one recorded node; its results, one for each of `node.results`."""
    args = [from_arg(arg, lookup) for arg in node.args]
    kwargs = {name: from_arg(arg, lookup) for name, arg in node.kwargs.items()}
    found = cast("object", to_overload(node.op)(*args, **{**kwargs, **overrides}))
    several = isinstance(found, (tuple, list))
    return tuple(cast("tuple[torch.Tensor, ...]", found)) if several else (cast("torch.Tensor", found),)
