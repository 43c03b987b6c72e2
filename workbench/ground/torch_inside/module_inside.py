"""Attributes in which modules, optimizers and tensors keep their parts and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import nn

from workbench.ground.torch_inside.needs import takes

MODULE_HOOKS = takes(
    "torch.nn.Module()._forward_pre_hooks",
    "torch.nn.Module()._forward_hooks",
    "torch.nn.Module()._backward_pre_hooks",
    "torch.nn.Module()._backward_hooks",
    use="The attributes in which a module has its hooks: a trace notes how many there are, and who set them.",
    instead="none: torch.nn.Module registers hooks and does not list them",
).names

HOOKS_OF_ALL_MODULES = takes(
    "torch.nn.modules.module._global_forward_pre_hooks",
    "torch.nn.modules.module._global_forward_hooks",
    "torch.nn.modules.module._global_backward_pre_hooks",
    "torch.nn.modules.module._global_backward_hooks",
    use="The tables of hooks that PyTorch calls for every module.",
    instead="none: torch.nn.modules.module registers them and does not list them",
).names

MODULE_STORES = takes(
    "torch.nn.Module()._parameters",
    "torch.nn.Module()._buffers",
    "torch.nn.Module()._modules",
    use="The attributes in which a module has its parts, to put back what a call replaced.",
    instead="Module.named_parameters, named_buffers and named_children, which leave out parts that are None",
).names

TENSOR_HOOKS = takes(
    "torch.Tensor._backward_hooks",
    "torch.Tensor._post_accumulate_grad_hooks",
    use="The attributes in which a tensor has its hooks: a check calls those of a user's tensor for its double.",
    instead="none: Tensor.register_hook sets one and nothing lists them",
).names

OPTIMIZER_HOOKS = takes(
    "torch.optim.SGD([torch.zeros(1)])._optimizer_step_pre_hooks",
    "torch.optim.SGD([torch.zeros(1)])._optimizer_step_post_hooks",
    use="The attributes in which an optimizer has its hooks: a trace notes how many there are.",
    instead="none: Optimizer registers hooks and does not list them",
).names_unseen  # making an optimizer would load Dynamo

HOOKS_OF_ALL_OPTIMIZERS = takes(
    "torch.optim.optimizer._global_optimizer_pre_hooks",
    "torch.optim.optimizer._global_optimizer_post_hooks",
    use="The tables of hooks that PyTorch calls for every optimizer.",
    instead="none: torch.optim.optimizer registers them and does not list them",
).names


@takes("torch.nn.Module()._forward_pre_hooks", "torch.nn.Module()._forward_hooks", instead="none")
def forward_hooks(module: nn.Module) -> tuple[Mapping[int, object], Mapping[int, object]]:
    """Returns a module's hooks: those that are called before it, and those after it."""
    its = cast(Any, module)
    return its._forward_pre_hooks, its._forward_hooks


@takes("torch.nn.modules.batchnorm._NormBase", instead="torch.nn.BatchNorm1d and its seven relatives, one by one")
def is_norm_of_batches(module: object) -> bool:
    """True for a module that may keep a running mean and variance."""
    return isinstance(module, nn.modules.batchnorm._NormBase)  # pyright: ignore[reportPrivateUsage]


@takes("torch.nn.modules.dropout._DropoutNd", instead="torch.nn.Dropout and its five relatives, one by one")
def is_dropout(module: object) -> bool:
    """True for a module that drops elements while it trains."""
    return isinstance(module, nn.modules.dropout._DropoutNd)  # pyright: ignore[reportPrivateUsage]
