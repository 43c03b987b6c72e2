# pyright: reportPrivateUsage=false
"""The modules that `model.eval()` changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.explaining.findings.batch_norms import ModuleAt

if TYPE_CHECKING:
    from torch import nn


def goes_with_evaluation(module_at: ModuleAt, path: str) -> bool:
    """True if it is one of PyTorch's own modules in training mode, and no module above has its own `train` or `eval`.

    The effect of `self.training` in a user's module is not known. A batch norm without running statistics computes mean
    and variance in evaluation as well.
    """
    from torch import nn

    from workbench.ground.torch_inside.module_inside import is_dropout, is_norm_of_batches

    module = module_at(path)
    parts = path.split(".") if path else []
    above = [module_at(".".join(parts[:count])) for count in range(len(parts) + 1)]
    if any(_switches_by_itself(each) for each in above if isinstance(each, nn.Module)):
        return False
    if not isinstance(module, nn.Module) or not module.training:
        return False
    if is_norm_of_batches(module):
        return getattr(module, "running_mean", None) is not None
    return is_dropout(module) or isinstance(module, (nn.RReLU, nn.MultiheadAttention))


def _switches_by_itself(module: nn.Module) -> bool:
    from torch import nn

    own = type(module)
    return own.train is not nn.Module.train or own.eval is not nn.Module.eval
