"""Converts between PyTorch's objects and what a record may hold: types, literals, argument lists, overloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from workbench.ground.errors import CaptureFailed, UnknownOverload
from workbench.ground.torch_inside.operator_objects import is_overload
from workbench.ir import Arg, AtenGraph, Literal, Ref, Sequence, TensorType
from workbench.operators.tensors.element_types import dtype_name, to_dtype

_TORCH_ENUMS = {"layout": torch.layout, "memory_format": torch.memory_format}


def to_type(tensor: torch.Tensor, *, base_offset: int = 0) -> TensorType:
    """A tensor's type. If the tensor is a view, its offset counts from `base_offset`, where its base begins."""
    shape, strides = tuple(int(n) for n in tensor.shape), tuple(int(n) for n in tensor.stride())
    return TensorType(shape, dtype_name(tensor.dtype), strides, int(tensor.storage_offset()) - base_offset)


def to_literal(value: object) -> Literal | None:
    """The literal that stands for `value`; None if a record cannot hold `value`."""
    if value is None:
        return Literal("none", None)
    for kind, cls in (("bool", bool), ("int", int), ("float", float), ("str", str)):
        if isinstance(value, cls):
            return Literal(kind, cls(value))
    if isinstance(value, complex):
        return Literal("complex", repr(value))
    if isinstance(value, torch.dtype):
        return Literal("dtype", dtype_name(value))
    if isinstance(value, torch.device):
        return Literal("device", str(value))
    for kind, cls in _TORCH_ENUMS.items():
        if isinstance(value, cls):
            return Literal(kind, str(value).removeprefix("torch."))
    return None


def options_literal(options: Mapping[str, object]) -> Literal:
    """The literal for a dict of plain values, which an op that runs graphs may take."""
    return Literal("json", json.dumps(dict(options), sort_keys=True))


def from_literal(literal: Literal) -> object:
    """The Python or PyTorch object that a literal stands for."""
    if literal.kind == "dtype":
        return to_dtype(str(literal.value))
    if literal.kind == "complex":
        return complex(str(literal.value))
    if literal.kind == "device":
        return torch.device(str(literal.value))
    if literal.kind == "json":
        return json.loads(str(literal.value))
    if literal.kind in _TORCH_ENUMS:
        return getattr(torch, str(literal.value))
    return literal.value


def to_arg(value: object) -> Arg:
    """Converts a Python argument, made of references, numbers and lists of them, to a record's argument."""
    if isinstance(value, (Ref, Literal, Sequence, AtenGraph)):
        return value
    if isinstance(value, (list, tuple)):
        return Sequence(tuple(to_arg(item) for item in cast("list[object]", value)))
    literal = to_literal(value)
    if literal is None:
        raise CaptureFailed(f"{value!r:.80}, a {type(value).__name__}, cannot be recorded as an argument of an op")
    return literal


def from_arg(arg: Arg, lookup: Callable[[str], object]) -> object:
    """The Python argument that a recorded one stands for, with references replaced by `lookup`. A graph stays a
    graph."""
    if isinstance(arg, Ref):
        return lookup(arg.value)
    if isinstance(arg, AtenGraph):
        return arg
    if isinstance(arg, Sequence):
        return [from_arg(item, lookup) for item in arg.items]
    return from_literal(arg)


def to_overload(op: str) -> Callable[..., Any]:
    """The overload with a recorded name such as `aten.softmax.int`. Other functions with such names are refused: the
    record may come from a file, and one of PyTorch's functions loads libraries."""
    found: object = torch.ops
    for part in op.split("."):
        found = getattr(found, part, None)
    if not is_overload(found):
        raise UnknownOverload(f"{op!r:.80} is no overload of an operator that this session has")
    return cast("Callable[..., Any]", found)
