"""An entry of the table of operators: a call, and the tensors of each case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Maker = Callable[[torch.dtype], torch.Tensor]
"""Makes an argument; its type is the one that is asked for, unless the operator prescribes another."""

Argument = tuple[int, ...] | Maker
"""A shape stands for plain numbers of that shape."""

Case = tuple[Argument, ...]

SINGLE = torch.float32
OTHERS = (torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)


@dataclass(frozen=True)
class Operator:
    """`call` takes a tensor for each argument of a case."""

    call: Callable[..., Any]
    cases: tuple[Case, ...]
    only: tuple[torch.dtype, ...] = ()
    """The types it takes, where they are few and f32 is not among them."""
    hosted: tuple[torch.dtype, ...] = ()
    """Types that have no kernels."""

    def inputs(self, case: Case, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        return tuple(plain(argument, dtype) if isinstance(argument, tuple) else argument(dtype) for argument in case)

    def takes(self, dtype: torch.dtype) -> bool:
        """True if PyTorch itself does."""
        if self.only:
            return dtype in self.only
        try:
            self.call(*self.inputs(self.cases[0], dtype))
        except (RuntimeError, TypeError, ValueError):
            return False
        return True


def plain(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers that every type holds: a sign where it has one, a fraction where it has one."""
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, dtype=dtype)


def positive(*shape: int) -> Maker:
    return lambda dtype: plain(shape, dtype) if dtype == torch.bool else (plain(shape, dtype).abs() + 1).to(dtype)


def distinct(*shape: int) -> Maker:
    """No two alike along the last dim, if the type has as many numbers: which of equals comes first is open."""
    return lambda dtype: torch.rand(shape).argsort(-1).to(dtype)


def channels_last(*shape: int) -> Maker:
    return lambda dtype: plain(shape, dtype).to(memory_format=torch.channels_last)


def single(*shape: int) -> Maker:
    """A parameter that is in f32 beside 16-bit floats too."""
    return lambda dtype: plain(shape, SINGLE)


def indices(high: int, *shape: int, low: int = 0) -> Maker:
    return lambda dtype: torch.randint(low, high, shape)


def places(high: int, *shape: int) -> Maker:
    """Indices of which no two along the first dim are alike."""
    return lambda dtype: torch.rand(high, *shape[1:]).argsort(0)[: shape[0]]


def truth(*shape: int) -> Maker:
    return lambda dtype: torch.rand(shape) > 0.3
