"""The strides of attention's result: PyTorch's fused kernel has others than the products it stands for, and a user's
`view` may need them."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, cast
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]
from torch.utils._pytree import tree_map_only


@contextmanager
def also_going_back(mode: TorchFunctionMode) -> Generator[None]:
    """The mode within the block, and also where a checkpoint calls a part of the forward pass again: inside of the
    function that goes back it would not be at work."""
    autograd, caller = cast(Any, torch.autograd), threading.get_ident()
    engine = autograd._engine_run_backward

    def run(*given: object, **named: object) -> object:
        with mode if threading.get_ident() == caller else nullcontext():
            return engine(*given, **named)

    with mock.patch.object(autograd, "_engine_run_backward", run), mode:
        yield


def as_fused(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call of `scaled_dot_product_attention`, laid out as PyTorch would if none took it apart."""
    return result.transpose(1, 2).contiguous().transpose(1, 2) if _is_fused(args, kwargs) else result


def _is_fused(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether PyTorch computes this attention by its fused kernel, asked with tensors of the same kinds."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]), _disable_current_modes():
        alike, named = tree_map_only(torch.Tensor, _without_data, (args, kwargs))
        choice = cast(Any, torch)._fused_sdp_choice(*alike, **named)
    return choice == cast(Any, SDPBackend.FLASH_ATTENTION).value


def _without_data(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made.requires_grad_(tensor.requires_grad)
