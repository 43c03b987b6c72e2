"""Copies of tensors that lie as the originals do, and putting back what was changed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Iterable, Sequence

import torch

from workbench.ops.aliases import memory_of


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same numbers under the same strides; tensors that share memory have copies that do."""
    storages: dict[int, torch.UntypedStorage] = {}
    made: list[torch.Tensor] = []
    for tensor in tensors:
        if tensor.is_meta or not tensor.untyped_storage().nbytes():
            made.append(tensor.detach().clone())
            continue
        key = tensor.untyped_storage().data_ptr()
        if key not in storages:
            storages[key] = tensor.untyped_storage().clone()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.append(empty.set_(storages[key], tensor.storage_offset(), tensor.size(), tensor.stride()))
    return made


def apart(tensors: Sequence[torch.Tensor], held: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors under other names, and as copies where they share memory with each other or with what is `held`."""
    memories = Counter(memory_of(each) for each in [*tensors, *held] if each.layout is torch.strided)
    return [
        _copy(each) if each.layout is torch.strided and memories[memory_of(each)] > 1 else each.detach()
        for each in tensors
    ]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Only what lies between the first element and the last is copied: it may be a small part of a large memory."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    span = 1 + sum((extent - 1) * stride for extent, stride in steps) if tensor.numel() else 0
    return tensor.detach().as_strided((span,), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


@contextlib.contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Generator[None]:
    """Whatever is changed inside lies and holds its old numbers afterwards."""
    kept = [(each, each._version, each.detach(), each.detach().clone()) for each in tensors if not each.is_meta]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, version, lay, old in kept:
                if lies(tensor) != lies(lay):
                    tensor.set_(lay.untyped_storage(), lay.storage_offset(), lay.shape, lay.stride())
                if tensor._version != version:
                    tensor.copy_(old)


def lies(tensor: torch.Tensor) -> tuple[object, ...]:
    """Shape, strides and place in memory, which `t_`, `resize_` or `set_` change."""
    return memory_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()
