"""Linear layers whose weights are read as int8: see `int8_linear`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from workbench.explaining.findings.module_copies import copied_module, has_hooks, with_submodule
from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    from torch import Tensor, nn

INT8_WEIGHTS = "int8 weights"
"""Name of the change that gives all plain linear layers int8 weights and a scale for each row: a quarter of the bytes
of f32, and other numbers. Layers of `quantize_dynamic` keep their int8 weights, but multiply floats, so they have
kernels."""


def is_plain_linear(module: object) -> bool:
    """True if `int8_linear` takes the module: a plain linear layer. The work of a subclass or a hook would be lost."""
    from torch import nn

    return type(module) is nn.Linear and not has_hooks(module)


def int8_linear(linear: nn.Linear) -> nn.Module:
    """The layer with its weights rounded to int8, each row with a scale of its own.

    The weights become floats again as they are read: only their bytes are fewer, the product is one of floats. Its
    numbers differ from the layer's by up to half a step of each row, a 254th of twice the row's largest weight.
    """
    weight = linear.weight.detach()
    scale = (weight.abs().amax(1, keepdim=True) / 127).clamp(min=_tiny(weight))
    return int8_linear_class()((weight / scale).round().char(), scale, linear.bias)


def has_dynamic_linear(model: object) -> bool:
    """True if a model has a linear layer of `quantize_dynamic` with int8 weights, without hooks."""
    from torch import nn

    return isinstance(model, nn.Module) and any(map(_is_dynamic_linear, model.modules()))


def _is_dynamic_linear(module: nn.Module) -> bool:
    """True for a linear layer of `quantize_dynamic`, without hooks, whose weights are int8 times a scale, without an
    offset."""
    from torch.ao.nn.quantized import dynamic

    if type(module) is not dynamic.Linear or has_hooks(module):
        return False
    integers, _, offset = _parts(cast(Any, module).weight())
    return integers is not None and not offset.any()


def _of_dynamic(module: Any) -> nn.Module:
    """A layer of `quantize_dynamic` with the same integers, for inputs that stay floats."""
    from torch import nn

    (integers, scale, _), bias = _parts(module.weight()), module.bias()
    kept = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)
    return int8_linear_class()(integers, scale.expand(len(integers), 1).contiguous(), kept)


def _parts(weight: Any) -> tuple[Any, Any, Any]:
    """Int8 integers, scales and offsets of a quantized weight, with one scale and offset or one for each row; Nones for
    a type other than int8."""
    import torch

    if weight.dtype != torch.qint8:
        return None, None, None
    if weight.qscheme() == torch.per_tensor_affine:
        return weight.int_repr(), torch.tensor([[weight.q_scale()]]), torch.tensor(weight.q_zero_point())
    scales = weight.q_per_channel_scales().float()[:, None]
    return weight.int_repr(), scales, weight.q_per_channel_zero_points()


def _tiny(weight: Tensor) -> float:
    import torch

    return torch.finfo(weight.dtype).tiny


@cache
def int8_linear_class() -> type[Any]:
    """The class of `int8_linear`'s results; made at its first use, since it needs PyTorch."""
    import torch.nn.functional as F
    from torch import nn

    class Int8Linear(nn.Module):
        weight: Tensor
        scale: Tensor

        def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
            super().__init__()
            self.register_buffer("weight", weight)
            self.register_buffer("scale", scale)
            self.bias = bias

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight.to(self.scale.dtype) * self.scale, self.bias)

    return Int8Linear


def with_int8_weights(target: Callable[..., object]) -> nn.Module:
    """A copy of the traced module with int8 weights in its plain linear layers and in those of `quantize_dynamic`."""
    made = copied_module(INT8_WEIGHTS, target)
    modules = cast("list[tuple[str, nn.Module]]", [*made.named_modules()])
    plain = {path: int8_linear for path, module in modules if is_plain_linear(module)}
    every = {**plain, **{path: _of_dynamic for path, module in modules if _is_dynamic_linear(module)}}
    if not every:
        raise BadOption(
            f"{INT8_WEIGHTS!r}: the traced model has no plain nn.Linear, without hooks, nor one of quantize_dynamic"
        )
    for path, replacement in every.items():
        made = with_submodule(made, path, replacement(cast(Any, made.get_submodule(path))))
    return made
