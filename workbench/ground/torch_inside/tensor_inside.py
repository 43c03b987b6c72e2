"""Parts behind a tensor: its memory, its version, and the tensor of which it is a view."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch

from workbench.ground.torch_inside.needs import takes

_torch = cast(Any, torch)


@takes("torch.UntypedStorage(0)._cdata", instead="storage.data_ptr(), which is 0 for each tensor without memory")
def memory_of(tensor: torch.Tensor) -> int:
    """Returns a number that is the same for all tensors of one storage."""
    return cast(int, cast(Any, tensor.untyped_storage())._cdata)


@takes("torch.Tensor._is_zerotensor", instead="none: an efficient zero tensor is of the class torch.Tensor")
def is_zero_tensor(tensor: torch.Tensor) -> bool:
    """True for a tensor of zeros without memory, as the gradient of a constant is."""
    return bool(cast(Any, tensor)._is_zerotensor())


@takes("torch.Tensor._is_view", instead="Tensor._base, which is private too")
def is_view(tensor: torch.Tensor) -> bool:
    """True for a tensor that autograd knows as a view of another."""
    return bool(cast(Any, tensor)._is_view())


@takes("torch.Tensor._base", instead="none")
def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns the tensor that a tensor is a view of; None if autograd knows none."""
    return cast(Any, tensor)._base


@takes("torch.Tensor._version", instead="none; PyTorch's notes on autograd name this attribute")
def version_of(tensor: torch.Tensor) -> int:
    """Returns how often a tensor was changed in place."""
    return int(cast(Any, tensor)._version)


@takes("torch._C._autograd._unsafe_set_version_counter", instead="none")
def set_versions(tensors: Sequence[torch.Tensor], versions: Sequence[int]) -> None:
    """Sets how often tensors count as changed in place: a trace counts changes that it did not make."""
    _torch._C._autograd._unsafe_set_version_counter(tuple(tensors), tuple(versions))


@takes("torch.autograd._unsafe_preserve_version_counter", instead="none")
def version_kept(tensor: torch.Tensor) -> AbstractContextManager[object]:
    """Within the block changes of a tensor in place are not counted."""
    return _torch.autograd._unsafe_preserve_version_counter(tensor)


@takes("torch._neg_view", instead="none: Tensor.neg computes")
def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view whose numbers have the other sign when they are read."""
    return _torch._neg_view(tensor)


@takes("torch._empty_affine_quantized", instead="torch.quantize_per_tensor, which needs numbers to quantise")
def empty_quantised(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns memory for `count` quantised elements, of scale 1."""
    return _torch._empty_affine_quantized([count], scale=1.0, zero_point=0, dtype=dtype)


@takes(
    "torch.ScriptObject._method_names", instead="none: dir() of a ScriptObject lists the methods of its class in Python"
)
def script_methods(packed: torch.ScriptObject) -> Sequence[str]:
    """Returns the names of the methods of an object of TorchScript, such as packed weights."""
    return cast(Any, packed)._method_names()


@takes("torch._fused_sdp_choice", instead="none: torch.nn.attention.sdpa_kernel allows kernels and tells no choice")
def attention_kernel(args: Sequence[object], kwargs: dict[str, object]) -> int:
    """Returns the number of the kernel by which PyTorch would compute this attention."""
    return _torch._fused_sdp_choice(*args, **kwargs)
