"""Putting back what a call on tensors without data changes: the parts of the user's tensors, generators and settings.

A parameter stays the object that it is while a step is called. So its memory, its gradient and its hooks are within
the step's reach, and would be those of tensors without data afterwards.
"""

from __future__ import annotations

import contextlib
import random
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from workbench.ground.torch_inside.module_inside import TENSOR_HOOKS
from workbench.ground.torch_inside.tensor_inside import memory_of


@contextlib.contextmanager
def tensors_as_before(tensors: Iterable[torch.Tensor]) -> Generator[None]:
    """Memory, gradients, hooks and attributes of tensors are afterwards what they were, and what requires a gradient
    does so again."""
    kept = [_Kept.of(each) for each in tensors]
    try:
        yield
    finally:
        for each in kept:
            each.put_back()


@dataclass(frozen=True)
class _Kept:
    """The parts of one tensor."""

    tensor: torch.Tensor
    data: torch.Tensor
    leaf: bool
    gradient: torch.Tensor | None
    requires_grad: bool
    hooks: tuple[tuple[str, OrderedDict[int, object] | None, OrderedDict[int, object] | None], ...]
    """The dicts of the hooks by name, each with a copy."""
    attributes: dict[str, object]

    @staticmethod
    def of(tensor: torch.Tensor) -> _Kept:
        dicts = [(name, getattr(tensor, name, None)) for name in TENSOR_HOOKS]
        hooks = tuple((name, own, None if own is None else own.copy()) for name, own in dicts)
        gradient = tensor.grad if tensor.is_leaf else None
        return _Kept(tensor, tensor.data, tensor.is_leaf, gradient, tensor.requires_grad, hooks, dict(vars(tensor)))

    def put_back(self) -> None:
        tensor = self.tensor
        if _moved(tensor, self.data):
            tensor.data = self.data
        if self.leaf and not tensor.is_leaf:
            tensor.detach_()  # a buffer that took a number with a gradient: of a norm's running statistics, say
        if tensor.is_leaf:
            if tensor.requires_grad != self.requires_grad:
                tensor.requires_grad_(self.requires_grad)
            if tensor.grad is not self.gradient:
                tensor.grad = self.gradient
        for name, own, old in self.hooks:
            if own is not None and old is not None:
                own.clear()
                own.update(old)
            if getattr(tensor, name, None) is not own:
                setattr(tensor, name, own)
        if vars(tensor) != self.attributes:
            vars(tensor).clear()
            vars(tensor).update(self.attributes)


def _moved(tensor: torch.Tensor, data: torch.Tensor) -> bool:
    if tensor.is_meta or data.is_meta or tensor.layout is not torch.strided:
        return tensor.is_meta != data.is_meta
    now, then = ((memory_of(each), each.shape, each.stride(), each.dtype) for each in (tensor, data))
    return now != then


@contextlib.contextmanager
def generators_and_settings() -> Generator[list[str]]:
    """Names, after the block, what it changed of Python's, numpy's and PyTorch's generators and settings, and puts
    them back."""
    kept = [(name, read(), read, put) for name, read, put in _SURROUNDINGS]
    changed: list[str] = []
    try:
        yield changed
    finally:
        for name, old, read, put in kept:
            if not _equal(read(), old):
                changed.append(name)
                put(old)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, tuple):
        return all(map(_equal, cast("tuple[Any, ...]", one), other))
    return bool(one == other) if not hasattr(one, "tobytes") else one.tobytes() == other.tobytes()


_SURROUNDINGS: tuple[tuple[str, Callable[[], Any], Callable[[Any], object]], ...] = (
    ("the state of PyTorch's random generator", torch.get_rng_state, torch.set_rng_state),
    ("the state of Python's random generator", random.getstate, random.setstate),
    ("the state of numpy's random generator", np.random.get_state, np.random.set_state),
    ("PyTorch's default type", torch.get_default_dtype, torch.set_default_dtype),
)
