"""Keeps the numbers that an optimizer reads from its own tensors as tensors, and splits its calls on lists of tensors.

An optimizer counts its steps in a tensor and reads the count with `item()`, to correct its averages by `1 - beta **
step`. As a Python number the count would stay that of the traced step. So `item()` inside `step` returns a tensor of
one element in 64 bits, like Python's numbers, and all that is computed from it is part of the graph. If PyTorch only
takes a number as factor, the product is written out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, cast
from unittest import mock

import torch

from workbench.ground.torch_inside.capture_settings import LISTS

_WITH_VALUE: Final = ("addcmul", "addcmul_", "addcdiv", "addcdiv_")


def step_call(func: Any) -> Callable[..., Any]:
    """Returns the function to call in place of a PyTorch function inside an optimizer's step, mostly that function
    itself."""
    name = str(getattr(func, "__name__", ""))
    if name == "item":
        return _as_tensor
    if name in _WITH_VALUE or name in ("add", "add_", "sub", "sub_"):
        return _with_product(func, name)
    return cast("Callable[..., Any]", func)


def _as_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor's element as a float64 tensor, like Python's numbers; complex numbers and bools keep their
    type."""
    numbers = tensor.detach().reshape(())
    return numbers if numbers.is_complex() or numbers.dtype is torch.bool else numbers.to(torch.float64)


def _with_product(func: Any, name: str) -> Callable[..., Any]:
    """Wraps `add`, `sub`, `addcmul` or `addcdiv` so that `alpha` or `value` may be a tensor. With 16-bit floats and
    such a factor it computes in float32 and rounds once."""

    def called(tensor: Any, *given: Any, **kwargs: Any) -> Any:
        factor = kwargs.get("value", kwargs.get("alpha"))
        if not isinstance(factor, torch.Tensor):
            return func(tensor, *given, **kwargs)
        narrow = tensor.dtype in (torch.float16, torch.bfloat16)
        base, *wide = (each.float() if narrow and hasattr(each, "float") else each for each in (tensor, *given))
        added: Any = wide[0] * factor
        if name.startswith("addc"):
            added = added * wide[1] if name.startswith("addcmul") else added / wide[1]
        whole = "sub" if name.startswith("sub") else "add"
        if not narrow:
            return getattr(tensor, f"{whole}_" if name.endswith("_") else whole)(added)
        made = getattr(base, whole)(added).to(tensor.dtype)
        return tensor.copy_(made) if name.endswith("_") else made

    return called


@contextlib.contextmanager
def lists_one_by_one() -> Generator[None]:
    """Replaces PyTorch's functions of lists of tensors within the block by calls for each tensor: those functions
    refuse tensors in place of numbers."""
    functions = [name for name in vars(torch) if name.startswith(LISTS)]
    with contextlib.ExitStack() as stack:
        for name in functions:
            stack.enter_context(mock.patch.object(torch, name, _one_by_one(name.removeprefix(LISTS))))
        yield


def _one_by_one(name: str) -> Callable[..., Any]:
    def called(*given: Any, **kwargs: Any) -> list[Any] | None:
        count = next(len(cast("Sequence[Any]", each)) for each in given if isinstance(each, (list, tuple)))
        split = [*given[:3], *(_scalars(each) for each in given[3:])] if name in _WITH_VALUE else given
        made = [_of_one(name, _at(split, place), kwargs) for place in range(count)]
        return None if name.endswith("_") else made

    return called


def _scalars(factors: Any) -> Any:
    """The factors of a list of products, as a list if they are one tensor."""
    return list(factors) if isinstance(factors, torch.Tensor) and factors.dim() else factors


def _at(given: Sequence[Any], place: int) -> list[Any]:
    return [cast("Sequence[Any]", each)[place] if isinstance(each, (list, tuple)) else each for each in given]


def _of_one(name: str, given: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if name == "norm":
        return cast(Any, torch.linalg).vector_norm(*given, **kwargs)
    if not isinstance(given[0], torch.Tensor):  # a number to the power of each tensor
        return getattr(torch, name)(*given, **kwargs)
    if name in _WITH_VALUE and len(given) > 3:
        given, kwargs = given[:3], {**kwargs, "value": given[3]}
    if name in ("maximum_", "minimum_"):
        return given[0].copy_(getattr(torch, name.rstrip("_"))(*given, **kwargs))
    return getattr(given[0], name)(*given[1:], **kwargs)
