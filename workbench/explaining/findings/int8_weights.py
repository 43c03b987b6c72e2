"""Linear layers whose weights are read as int8: see `int8_linear`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from workbench.explaining.findings.module_copies import copied_module, has_hooks, with_submodule
from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    from torch import nn

INT8_WEIGHTS = "int8 weights"
"""All plain linear layers with weights of int8 and a scale for each row: a quarter of the bytes of f32, and other
numbers."""


def is_plain_linear(module: object) -> bool:
    """True for what `int8_linear` takes: the work of a subclass or a hook would be lost."""
    from torch import nn

    return isinstance(module, nn.Linear) and type(module) is nn.Linear and not has_hooks(module)


def int8_linear(linear: nn.Linear) -> nn.Module:
    """The layer with its weights rounded to int8, each row with a scale of its own.

    They are made floats again as they are read: only the weights' bytes are fewer, the product is that of floats. Its
    numbers differ from the layer's by up to half a step of each row, a 254th of twice the row's largest weight.
    """
    return int8_linear_class()(linear)


@cache
def int8_linear_class() -> type[Any]:
    """The class of `int8_linear`'s results; made at its first use, since it needs PyTorch."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

    class Int8Linear(nn.Module):
        weight: Tensor
        scale: Tensor

        def __init__(self, linear: nn.Linear) -> None:
            super().__init__()
            weight = linear.weight.detach()
            scale = (weight.abs().amax(1, keepdim=True) / 127).clamp(min=torch.finfo(weight.dtype).tiny)
            self.register_buffer("weight", (weight / scale).round().to(torch.int8))
            self.register_buffer("scale", scale)
            self.bias = linear.bias

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight.to(self.scale.dtype) * self.scale, self.bias)

    return Int8Linear


def with_int8_weights(target: Callable[..., object]) -> nn.Module:
    """A copy of the traced module, its plain linear layers replaced."""
    made = copied_module(INT8_WEIGHTS, target)
    modules = cast("list[tuple[str, nn.Module]]", [*made.named_modules()])
    paths = [path for path, module in modules if is_plain_linear(module)]
    if not paths:
        raise BadOption(f"{INT8_WEIGHTS!r}: the traced model has no plain nn.Linear, without hooks")
    for path in paths:
        made = with_submodule(made, path, int8_linear(cast("nn.Linear", made.get_submodule(path))))
    return made
