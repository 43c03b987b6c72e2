"""The strides of attention's result: PyTorch's fused kernel returns other strides than the products into which
attention decomposes, and a user's `view` may need these."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from workbench.ground.torch_inside.autograd_inside import engine_as
from workbench.ground.torch_inside.dispatch_modes import no_modes
from workbench.ground.torch_inside.pytrees import tree_map_only
from workbench.ground.torch_inside.tensor_inside import attention_kernel


@contextmanager
def also_going_back(mode: TorchFunctionMode) -> Generator[None]:
    """Applies the mode within the block, and also where a checkpoint repeats a part of the forward pass: there, inside
    the backward pass, the mode would not be active."""

    def under_it(engine: Callable[..., object]) -> Callable[..., object]:
        def run(*given: object, **named: object) -> object:
            with mode:
                return engine(*given, **named)

        return run

    with engine_as(under_it), mode:
        yield


def as_fused(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call of `scaled_dot_product_attention`, with the strides that PyTorch gives it without
    decomposition."""
    return result.transpose(1, 2).contiguous().transpose(1, 2) if _is_fused(args, kwargs) else result


def _is_fused(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if PyTorch chooses its fused kernel for this call; asks PyTorch with tensors of the same kinds but without
    data."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]), no_modes():
        alike, named = tree_map_only(torch.Tensor, _without_data, (args, kwargs))
        choice = attention_kernel(alike, named)
    return choice == cast(Any, SDPBackend.FLASH_ATTENTION).value


def _without_data(tensor: torch.Tensor) -> torch.Tensor:
    result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return result.requires_grad_(tensor.requires_grad)
