"""What lies in a tensor's memory: whether its strides say it, and a plain tensor of the same numbers where they do not.

PyTorch has tensors whose numbers are not those in memory: negative and conjugate views change the sign when they are
read, a zero tensor has no memory at all. A kernel reads memory, so these are made plain first; tensors that cannot be
(sparse, quantized, wrapped) are refused by name.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor


def span(tensor: torch.Tensor) -> int:
    """Elements of memory from a tensor's first to its last."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((int(extent) - 1) * int(stride) for extent, stride in steps) if tensor.numel() else 0


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A plain copy with the same strides.

    Only what lies between the first element and the last is copied: it may be a small part of a large memory.
    """
    return tensor.detach().as_strided((span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether its numbers are others than those in its memory."""
    return tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself without autograd's graph, or a copy with the same strides if it is not what memory says."""
    if tensor._is_zerotensor():
        zeros = torch.zeros(span(tensor), dtype=tensor.dtype, device=tensor.device)
        return zeros.as_strided(tensor.shape, tensor.stride())
    if is_lazy(tensor) or not _aligned(tensor):
        return copied(tensor)
    return tensor.detach()


def _aligned(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "cpu" or isinstance(tensor, FakeTensor) or not tensor.data_ptr() % tensor.itemsize


def unreadable(tensor: torch.Tensor) -> str:
    """Why a kernel cannot read the tensor, with what to give instead; empty when it can."""
    if isinstance(tensor, FakeTensor):
        return "is a fake tensor, which has a shape and no numbers: give a real one, or one of the device 'meta'"
    if why := not_strided(tensor):
        return why
    if _wrapped(tensor):
        return "is wrapped by a transform of torch.func or vmap: call it outside of the transform"
    if _dispatches(type(tensor)):
        return f"is a {type(tensor).__name__}, a class that keeps its numbers in its own way: give a plain torch.Tensor"
    if tensor.device.type not in ("cpu", "meta"):
        return f"lies on {tensor.device}: give it on the CPU, x.cpu()"
    if tensor.is_meta or tensor._is_zerotensor():
        return ""
    held, said = tensor.untyped_storage().nbytes(), _bytes(tensor)
    if held < said:
        told = f"has a memory of {held:,} bytes, and its shape and strides say {said:,}"
        return f"{told}: its storage was made smaller. Give it a clone made before that"
    return ""


def not_strided(tensor: torch.Tensor) -> str:
    """Why no strides say where the tensor's numbers are, with what to give instead; empty when they do."""
    if tensor.is_nested:
        return "is a nested tensor: give its parts one by one, or padded, torch.nested.to_padded_tensor(x, 0.0)"
    if tensor.is_quantized:
        return "is a quantized tensor: give its numbers, x.dequantize(), or its integers, x.int_repr()"
    if tensor.layout is not torch.strided:
        return f"has the layout {str(tensor.layout).removeprefix('torch.')}: give it dense, x.to_dense()"
    return ""


def _wrapped(tensor: torch.Tensor) -> bool:
    torch_ = cast(Any, torch)
    return bool(torch_._C._functorch.is_functorch_wrapped_tensor(tensor) or torch_._is_functional_tensor(tensor))


def _dispatches(kind: type) -> bool:
    """Whether the class computes its own ops, and so need not have its numbers in memory."""
    return cast(Any, kind).__torch_dispatch__ is not cast(Any, torch.Tensor).__torch_dispatch__


def _bytes(tensor: torch.Tensor) -> int:
    return (int(tensor.storage_offset()) + span(tensor)) * tensor.itemsize if tensor.numel() else 0
