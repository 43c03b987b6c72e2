"""Copies of the user's module with a replaced part."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    from torch import nn


def copied_module(change: str, target: Callable[..., object]) -> nn.Module:
    """A copy of the traced module; raises if the traced callable is not a module, since the change is only for
    modules."""
    from torch import nn

    if not isinstance(target, nn.Module):
        raise BadOption(f"{change!r} is for modules, but the trace is of a function")
    return copy.deepcopy(target)


def submodule_at(model: object, path: str) -> nn.Module | None:
    """The part of a module at a path; None if there is none, or it is not a module."""
    from torch import nn

    if not isinstance(model, nn.Module):
        return None
    try:
        return model.get_submodule(path)
    except AttributeError:
        return None


def with_submodule(model: nn.Module, path: str, part: nn.Module) -> nn.Module:
    """Replaces a part of the module in place, under all its names, and returns the module; for the path "" returns the
    part."""
    if not path:
        return part
    before = model.get_submodule(path)
    named = cast("list[tuple[str, nn.Module]]", [*model.named_modules(remove_duplicate=False)])
    for name, each in named:
        if each is before:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, part)
    return model


def has_hooks(module: nn.Module) -> bool:
    """True if the module has hooks, whose work has no node of its own."""
    from workbench.ground.torch_inside.module_inside import forward_hooks

    return any(forward_hooks(module))
