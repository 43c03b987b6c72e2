"""Copies of the person's module in which a part is another one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from workbench.errors import BadOption

if TYPE_CHECKING:
    from torch import nn


def copied_module(change: str, target: Callable[..., object]) -> nn.Module:
    """A copy of what was traced; raises where that is no module, so that the change of this name is not for it."""
    from torch import nn

    if not isinstance(target, nn.Module):
        raise BadOption(f"{change!r} is for modules; what was traced is a function")
    return copy.deepcopy(target)


def with_submodule(model: nn.Module, path: str, part: nn.Module) -> nn.Module:
    """The module with a part replaced, in place; of the path "" the part itself."""
    if not path:
        return part
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, part)
    return model


def has_hooks(module: nn.Module) -> bool:
    """Whether something happens before or after it that stands in no node of its own."""
    hooks = cast(Any, module)
    return bool(hooks._forward_hooks or hooks._forward_pre_hooks)
