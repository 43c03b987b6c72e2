"""Copies of tensors that lie as the originals do, and putting back what was changed."""

from __future__ import annotations

import contextlib
import types
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from typing import cast

import torch
from torch import nn

from workbench.ground.torch_inside.module_inside import MODULE_STORES
from workbench.ground.torch_inside.tensor_inside import memory_of, negative_view, version_of
from workbench.operators.tensors.raw_contents import Store, contents, refill
from workbench.operators.tensors.reachable_tensors import attributes_of, variables
from workbench.operators.tensors.tensor_memory import copied, plain


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same numbers under the same strides; tensors that share memory have copies that do."""
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
    """The tensors under other names, and as copies where they share memory with each other or with what is `held`.

    Copies as well where they are not what their memory says, so that no capture sees a lazy negation, and where
    inference mode made them, which export cannot change in place.
    """
    strided = (each for each in held if each.layout is torch.strided)
    memories = Counter(map(memory_of, [*tensors, *strided]))
    return [copied(each) if memories[memory_of(each)] > 1 or each.is_inference() else plain(each) for each in tensors]


@contextlib.contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Generator[None]:
    """Whatever is changed inside lies and holds its old numbers afterwards."""
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
    """Lists, dicts and the attributes of objects hold afterwards what they held before, whatever was put into them.

    The variables of functions that had tensors have these again.
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
    """The tensor that a variable has, if it has one."""
    value = value_of(place, name)
    return [value] if isinstance(value, torch.Tensor) else []


def value_of(place: dict[str, object] | types.CellType, name: str = "") -> object:
    """Returns the value of a variable; None where it has none yet."""
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
    """The lists and dicts that a container is, or has its attributes in: a module has several."""
    if isinstance(container, types.FunctionType):
        return []
    if isinstance(container, (list, dict)):
        return [cast("Store", container)]
    attributes = cast("dict[object, object]", attributes_of(container) or {})
    own = [attributes[name] for name in MODULE_STORES if isinstance(container, nn.Module)]
    return [attributes, *cast("list[dict[object, object]]", own)]


def _same(now: Store, before: Store) -> bool:
    """True if they hold the very same objects, under the same keys."""
    if isinstance(now, dict) and isinstance(before, dict):
        return _same(list(now), list(before)) and _same(list(now.values()), list(before.values()))
    return len(now) == len(before) and all(one is other for one, other in zip(now, before, strict=True))


def lies(tensor: torch.Tensor) -> tuple[object, ...]:
    """Shape, strides and place in memory, which `t_`, `resize_` or `set_` change."""
    if tensor.layout is not torch.strided:
        return (tensor.shape,)
    return memory_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()
