"""Conditions of a training step's graph, besides the optimizers' numbers, that may have changed at a later run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from workbench.ground.torch_inside.module_inside import (
    HOOKS_OF_ALL_MODULES,
    HOOKS_OF_ALL_OPTIMIZERS,
    MODULE_HOOKS,
    OPTIMIZER_HOOKS,
    TENSOR_HOOKS,
)
from workbench.operators.tensors.reachable_tensors import Held, Reachable

Conditions = Mapping[str, object]
"""The conditions, by their names in messages."""


def conditions(leaves: Sequence[Held], held: Reachable) -> Conditions:
    """Returns which parameters require gradients, which modules are training, their `forward`, and the numbers of
    hooks."""
    found: dict[str, object] = {}
    for leaf in leaves:
        found[f"{leaf.path}.requires_grad"] = leaf.tensor.requires_grad
        found[f"the number of hooks of {leaf.path}"] = _hooks(leaf.tensor, TENSOR_HOOKS)
    for path, module in held.modules.values():
        name = path or type(module).__name__
        found[f"{name}.training"] = module.training
        found[f"the number of hooks of the module {name}"] = _hooks(module, MODULE_HOOKS)
        found[f"{name}.forward"] = vars(module).get("forward", "that of its class")
    for path, read in held.optimizers.values():
        found[f"the number of hooks of the optimizer {path}"] = _hooks(read(), OPTIMIZER_HOOKS)
    found["the number of hooks of all optimizers"] = _hooks(_OPTIMIZERS, HOOKS_OF_ALL_OPTIMIZERS)
    found["the number of hooks of all modules"] = hooks_of_all_modules()
    return found


def hooks_of_all_modules() -> int:
    """The number of hooks that PyTorch calls for every module, without those with which another thread traces a
    step."""
    return _hooks(nn.modules.module, HOOKS_OF_ALL_MODULES)


_OPTIMIZERS = importlib.import_module("torch.optim.optimizer")


def _hooks(owner: object, names: Sequence[str]) -> int:
    kept: list[Any] = [getattr(owner, name, None) for name in names]
    hooks = [hook for each in kept if each for hook in [*each.values()]]
    return sum(getattr(hook, "__module__", None) != _TRACES_STEPS for hook in hooks)


_TRACES_STEPS = "workbench.capturing.step_parts"
"""The module that defines the hooks with which another thread may be tracing a step."""
