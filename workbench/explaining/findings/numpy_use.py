"""Finds the user's code that uses NumPy, which has fewer element types than PyTorch."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator

_CALLS = frozenset(("numpy", "from_numpy", "__array__"))
"""Names of calls that turn a tensor into an array, or an array into a tensor."""


def function_with_numpy(target: Callable[..., object]) -> str:
    """The name of the first of the user's functions reachable from a callable whose code names NumPy; empty if none
    does. The code alone does not show if the function is called, and with which tensors."""
    from workbench.operators.tensors.reachable_tensors import reachable

    held = reachable(target).containers
    functions = [each for each in held if isinstance(each, types.FunctionType) and _is_own(each)]
    named = {"forward", "__call__"}.union(*(_names(each.__code__) for each in functions))
    called = (each for each in functions if not _is_method(each) or each.__name__ in named)
    return next((each.__qualname__ for each in called if _names_numpy(each)), "")


def _is_method(function: types.FunctionType) -> bool:
    """True if the function is a method: all methods of its class are reached with it, called or not."""
    owner = function.__qualname__.rpartition(".")[0]
    return bool(owner) and not owner.endswith("<locals>")


def _is_own(function: types.FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] not in ("torch", "numpy")


def _names_numpy(function: types.FunctionType) -> bool:
    names = {*_names(function.__code__)}
    modules = (function.__globals__.get(name) for name in names)
    return not _CALLS.isdisjoint(names) or any(
        isinstance(each, types.ModuleType) and each.__name__.partition(".")[0] == "numpy" for each in modules
    )


def _names(code: types.CodeType) -> Iterator[str]:
    """The globals and attributes that code, or code nested in it, names."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)
