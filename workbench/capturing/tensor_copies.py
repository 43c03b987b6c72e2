"""Copies of tensors with the originals' strides, and contexts that put back what a call changed.

A parameter stays the same object while a step is called on tensors without data. So the step could replace its memory,
its gradient and its hooks by those of tensors without data.
"""

from __future__ import annotations

import contextlib
import random
import types
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from workbench.ground.torch_inside.module_inside import MODULE_STORES, TENSOR_HOOKS
from workbench.ground.torch_inside.tensor_inside import memory_of, negative_view, version_of
from workbench.operators.tensors.raw_contents import Store, contents, refill
from workbench.operators.tensors.reachable_tensors import attributes_of, variables
from workbench.operators.tensors.tensor_memory import copied, plain


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns copies with the same numbers and strides; copies of tensors that share memory share memory, too."""
    storages: dict[int, torch.UntypedStorage] = {}
    made: list[torch.Tensor] = []
    for tensor in tensors:
        if tensor.is_meta or not tensor.untyped_storage().nbytes():
            made.append(plain(tensor).clone())
            continue
        key = tensor.untyped_storage().data_ptr()
        if key not in storages:
            storages[key] = tensor.untyped_storage().clone()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        same = empty.set_(storages[key], tensor.storage_offset(), tensor.size(), tensor.stride())
        same = negative_view(same) if tensor.is_neg() else same
        made.append(same.conj() if tensor.is_conj() else same)
    return made


def apart(tensors: Sequence[torch.Tensor], held: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Returns aliases of the tensors, or copies if they share memory with each other or with a `held` tensor.

    Lazy negations and conjugates become copies, so that no capture sees them. So do tensors from inference mode, which
    export cannot change in place.
    """
    strided = (each for each in held if each.layout is torch.strided)
    memories = Counter(map(memory_of, [*tensors, *strided]))
    return [copied(each) if memories[memory_of(each)] > 1 or each.is_inference() else plain(each) for each in tensors]


@contextlib.contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Generator[None]:
    """Puts back the shape, strides, memory and numbers of tensors that the block changes."""
    kept = [
        (each, each.is_leaf, version_of(each), each.detach(), each.detach().clone())
        for each in tensors
        if not each.is_meta
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, leaf, version, lay, old in kept:
                if leaf and not tensor.is_leaf:
                    tensor.detach_()
                if lies(tensor) != lies(lay):
                    tensor.set_(lay.untyped_storage(), lay.storage_offset(), lay.shape, lay.stride())
                if version_of(tensor) != version or not torch.equal(
                    tensor, old
                ):  # PyTorch's batch norm hides its changes
                    tensor.copy_(old)


@contextlib.contextmanager
def holding_as_before(containers: Iterable[object]) -> Generator[None]:
    """Puts back the contents of lists and dicts and the attributes of objects after the block.

    Variables of functions that held a tensor hold it again.
    """
    containers = list(containers)
    functions = [each for each in containers if isinstance(each, types.FunctionType)]
    named = [
        (place, name, value) for each in functions for place, name in variables(each) for value in _tensor(place, name)
    ]
    stores = [store for container in containers for store in stores_of(container)]
    kept = [(store, contents(store)) for store in stores]
    try:
        yield
    finally:
        for store, old in kept:
            if not _same(contents(store), old):
                refill(store, old)
        for place, name, tensor in named:
            if not any(now is tensor for now in _tensor(place, name)):
                assign(place, name, tensor)


def _tensor(place: dict[str, object] | types.CellType, name: str) -> list[torch.Tensor]:
    """The tensor that a variable holds, as a list; empty if the variable holds none."""
    value = value_of(place, name)
    return [value] if isinstance(value, torch.Tensor) else []


def value_of(place: dict[str, object] | types.CellType, name: str = "") -> object:
    """Returns the value of a variable; None if the variable has no value yet."""
    try:
        return place.cell_contents if isinstance(place, types.CellType) else place.get(name)
    except ValueError:
        return None


def assign(place: dict[str, object] | types.CellType, name: str, value: object) -> None:
    """Gives a variable a value."""
    if isinstance(place, types.CellType):
        place.cell_contents = value
    else:
        place[name] = value


def stores_of(container: object) -> list[Store]:
    """The lists and dicts with the contents or attributes of a container: a module has several."""
    if isinstance(container, types.FunctionType):
        return []
    if isinstance(container, (list, dict)):
        return [cast("Store", container)]
    attributes = cast("dict[object, object]", attributes_of(container) or {})
    own = [attributes[name] for name in MODULE_STORES if isinstance(container, nn.Module)]
    return [attributes, *cast("list[dict[object, object]]", own)]


def _same(now: Store, before: Store) -> bool:
    """True if both hold the very same objects, under the same keys."""
    if isinstance(now, dict) and isinstance(before, dict):
        return _same(list(now), list(before)) and _same(list(now.values()), list(before.values()))
    return len(now) == len(before) and all(one is other for one, other in zip(now, before, strict=True))


def lies(tensor: torch.Tensor) -> tuple[object, ...]:
    """A tensor's shape, strides and place in memory, which `t_`, `resize_` or `set_` change."""
    if tensor.layout is not torch.strided:
        return (tensor.shape,)
    return memory_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


@contextlib.contextmanager
def tensors_as_before(tensors: Iterable[torch.Tensor]) -> Generator[None]:
    """Puts back the memory, gradients, hooks and attributes of tensors after the block, and lets those require
    gradients that did before."""
    kept = [_Kept.of(each) for each in tensors]
    try:
        yield
    finally:
        for each in kept:
            each.put_back()


@dataclass(frozen=True)
class _Kept:
    """One tensor, with the parts that are put back."""

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
    return (lies(tensor), tensor.dtype) != (lies(data), data.dtype)


@contextlib.contextmanager
def generators_and_settings() -> Generator[list[str]]:
    """Yields a list; after the block the list has the generators and settings of Python, numpy and PyTorch that the
    block changed. They are put back."""
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
    # numpy loads its random generators when they are first asked for
    ("the state of numpy's random generator", lambda: np.random.get_state(), lambda state: np.random.set_state(state)),
    ("PyTorch's default type", torch.get_default_dtype, torch.set_default_dtype),
)
