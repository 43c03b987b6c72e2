"""An entry of the table of gradients: a call, and its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.operators.entry import Argument, plain

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}
"""Gradients are compared with differences in the first, and with eager PyTorch's in all."""


@dataclass(frozen=True)
class Held:
    """An argument without a gradient."""

    argument: Argument

    def __call__(self, dtype: torch.dtype) -> torch.Tensor:
        return plain(self.argument, dtype) if isinstance(self.argument, tuple) else self.argument(dtype)


@dataclass(frozen=True)
class Case:
    """`call` takes a tensor for each argument; those of floats that are not `held` are leaves, whose gradients are
    compared."""

    call: Callable[..., Any]
    arguments: tuple[Argument, ...]
    half: bool = True
    """Whether it is part of what is trained in 16 bits."""
    true: bool = True
    """Whether PyTorch's gradient is that of the loss. A row of padding has none, and others are divided by how often
    they are read, by definition."""

    def leaves(self, dtype: torch.dtype) -> list[torch.Tensor]:
        made = [plain(each, dtype) if isinstance(each, tuple) else each(dtype) for each in self.arguments]
        for argument, tensor in zip(self.arguments, made, strict=True):
            tensor.requires_grad_(tensor.is_floating_point() and not isinstance(argument, Held))
        return made

    def results(self, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """Its results that have gradients."""
        made = self.call(*leaves)
        every = made if isinstance(made, (tuple, list)) else (made,)
        return [each for each in every if each.requires_grad]


def of(call: Callable[..., Any], *arguments: Argument, half: bool = True, true: bool = True) -> Case:
    return Case(call, arguments, half, true)
