"""Copies of tensors that lie as the originals do, and putting back what was changed."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Sequence

import torch


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


@contextlib.contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Generator[None]:
    """Whatever is changed inside holds its old numbers afterwards."""
    kept = [(tensor, tensor._version, tensor.detach().clone()) for tensor in tensors if not tensor.is_meta]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, version, old in kept:
                if tensor._version != version:
                    tensor.copy_(old)
