"""Records ATen calls, one at a time, in the name of the node that they replace."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from workbench.ir import Node, Origin, Ref, TensorType
from workbench.ir.value_names import counted_name
from workbench.operators.aten.run_node import call
from workbench.operators.tensors.element_types import to_dtype
from workbench.operators.tensors.torch_literals import to_arg, to_type

Formula = Callable[..., Any]
"""A function of the builder `b`, which makes the calls, and of the node's arguments. It returns the result, or a tuple
of results; None means that the node stays."""


HALF = (torch.float16, torch.bfloat16)


class Builder:
    """Adds calls to a record in the name of one parent node."""

    def __init__(self, parent: Origin, types: dict[str, TensorType], taken: set[str]) -> None:
        self.nodes: list[Node] = []
        self._parent, self._types, self._taken = parent, types, taken

    def __call__(self, op: str, *args: object, **kwargs: object) -> Ref:
        """Records one ATen call and returns a reference to its only result."""
        return self.several(op, *args, **kwargs)[0]

    def several(self, op: str, *args: object, **kwargs: object) -> tuple[Ref, ...]:
        """Records one ATen call and returns a reference to each of its results.

        A `view` that strides cannot express becomes a view of a copy, because a formula's operands may lie in memory in
        any order.
        """
        if op == "aten.view.default" and not self._has_view(*args):
            args = self("aten.clone.default", args[0], memory_format=torch.contiguous_format), *args[1:]
        recorded = {key: to_arg(value) for key, value in kwargs.items()}
        first = self._name(op.split(".")[1])
        node = Node(first, op, tuple(to_arg(arg) for arg in args), recorded, (first,), self._parent)
        found = infer(node, self._types)
        results = (first, *(self._name(op.split(".")[1]) for _ in found[1:]))
        self._types.update(zip(results, found, strict=True))
        self.nodes.append(replace(node, results=results))
        return tuple(Ref(result) for result in results)

    def _has_view(self, x: Any, shape: Any) -> bool:
        """True if strides can express a tensor in this shape."""
        try:
            meta_tensor(self.type(x)).view(shape)
        except RuntimeError:
            return False
        return True

    def _name(self, op: str) -> str:
        name = counted_name(f"{self._parent.node}.{op.strip('_')}", self._taken)
        self._taken.add(name)
        return name

    def type(self, value: Ref) -> TensorType:
        return self._types[value.value]

    def dtype(self, value: Ref) -> torch.dtype:
        return to_dtype(self.type(value).dtype)

    def shape(self, value: Ref) -> list[int]:
        return list(self.type(value).shape)

    def rank(self, value: Ref) -> int:
        return len(self.type(value).shape)

    def extent(self, value: Ref, dims: list[int]) -> int:
        """The number of elements that a reduction over `dims` combines into one."""
        return math.prod(self.type(value).shape[dim] for dim in dims)

    def dims(self, value: Ref, dims: int | list[int] | None) -> list[int]:
        """`dims` as a list without negatives. PyTorch takes one dim or several; None or an empty list means all."""
        rank = self.rank(value)
        if dims is None or dims == []:
            return list(range(rank))
        return [dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)]


def meta_tensor(type_: TensorType) -> torch.Tensor:
    """A tensor of this type without data, as if it were a view of a storage that begins at 0."""
    reach = sum((n - 1) * s for n, s in zip(type_.shape, type_.strides, strict=True)) + 1 if type_.numel else 0
    storage = torch.empty(type_.offset + reach, dtype=to_dtype(type_.dtype), device="meta")
    return storage.as_strided(type_.shape, type_.strides, type_.offset)


def common_type(b: Builder, *operands: Ref | float) -> torch.dtype:
    """The type to which PyTorch promotes two operands, tensors or numbers."""
    left, right = (meta_tensor(b.type(each)) if isinstance(each, Ref) else each for each in operands)
    return torch.result_type(left, right)


def infer(node: Node, types: Mapping[str, TensorType]) -> tuple[TensorType, ...]:
    """Types of a node's results, found by running it on meta tensors."""
    overrides = {"device": "meta"} if "device" in node.kwargs else {}
    return tuple(to_type(found) for found in call(node, lambda value: meta_tensor(types[value]), **overrides))


def cast(b: Builder, x: Ref, dtype: torch.dtype) -> Ref:
    """`x` as `dtype`."""
    return x if b.dtype(x) == dtype else b("aten._to_copy.default", x, dtype=dtype)


def compute(b: Builder, x: Ref, dtype: torch.dtype | None = None) -> Ref:
    """`x` as `dtype`, and then as float32 if `dtype` is a 16-bit float: PyTorch rounds the result, not each step."""
    wanted = dtype or b.dtype(x)
    x = cast(b, x, wanted)
    return cast(b, x, torch.float32) if wanted in HALF else x
