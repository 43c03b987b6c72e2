"""The programs the spine must carry from PyTorch to a timeline: one shared corpus for every stage's tests.

All in float32, weights as `nn.Linear` initialises them, every random number from a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Program:
    """A callable or a maker of a module, and what to call it with."""

    make: Callable[[], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    kwarg_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def build(self) -> Callable[..., Any]:
        """The function, or the module with the same weights each time, in eval mode."""
        torch.manual_seed(0)
        made = self.make()
        return made.eval() if isinstance(made, nn.Module) else made

    def inputs(self, seed: int = 0) -> Tensors:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator) for shape in self.shapes)

    def kwargs(self, seed: int = 0) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed + 1000)
        return {name: torch.randn(shape, generator=generator) for name, shape in self.kwarg_shapes.items()}

    def traced(self, **options: Any) -> wb.Journey:
        """A trace of the program with its inputs."""
        return wb.trace(self.build(), *self.inputs(), kwargs=self.kwargs(), **options)


def _chain_of_ten(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = x * 0.5
    b = torch.tanh(a)
    c = b + y
    d = torch.sigmoid(c)
    e = d - 0.25
    f = torch.exp(e)
    g = f / 1.5
    h = torch.relu(g)
    i = torch.abs(h)
    return torch.sqrt(i)


def _add_broadcast(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    return x + row + column


def _matmul_bias_gelu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(a @ b + bias)


def _weight_twice(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ weight) @ weight


def _results_in_tuple(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + y, torch.softmax(x * y, dim=-1)


def _results_in_dict(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"sum": x + y, "probabilities": torch.softmax(x, dim=-1)}


def _keyword_arguments(x: torch.Tensor, *, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return x * scale + shift


class RMSNorm(nn.Module):
    """Written out, as models do."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def _layer_norm() -> nn.Module:
    norm = nn.LayerNorm(96)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


def _rms_norm_module() -> nn.Module:
    norm = nn.RMSNorm(96, eps=1e-6)
    nn.init.normal_(norm.weight)
    return norm


class MLP(nn.Module):
    def __init__(self, width: int = 64, hidden: int = 160, out: int = 10) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


class FFN(nn.Module):
    """The feed-forward half of a transformer layer, with its residual."""

    def __init__(self, width: int = 768, hidden: int = 3072) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(x)))


def _fn(function: Callable[..., Any], *shapes: tuple[int, ...], **kwarg_shapes: tuple[int, ...]) -> Program:
    return Program(lambda: function, shapes, kwarg_shapes)


PROGRAMS: dict[str, Program] = {
    "add_broadcast": _fn(_add_broadcast, (33, 100), (100,), (33, 1)),
    "chain_of_ten": _fn(_chain_of_ten, (64, 200), (64, 200)),
    "gelu": _fn(lambda x: F.gelu(x), (64, 200)),
    "gelu_tanh": _fn(lambda x: F.gelu(x, approximate="tanh"), (64, 200)),
    "softmax_last": _fn(lambda x: torch.softmax(x, dim=-1), (512, 512)),
    "softmax_first": _fn(lambda x: torch.softmax(x, dim=0), (64, 48)),
    "softmax_middle": _fn(lambda x: torch.softmax(x, dim=1), (6, 40, 24)),
    "softmax_ragged": _fn(lambda x: torch.softmax(x, dim=-1), (100, 77)),
    "softmax_ragged_first": _fn(lambda x: torch.softmax(x, dim=0), (100, 77)),
    "softmax_long_row": _fn(lambda x: torch.softmax(x, dim=-1), (4, 200_000)),
    "log_softmax": _fn(lambda x: torch.log_softmax(x, dim=-1), (100, 77)),
    "layernorm": Program(_layer_norm, ((50, 96),)),
    "rmsnorm": Program(_rms_norm_module, ((50, 96),)),
    "rmsnorm_written_out": Program(lambda: RMSNorm(96), ((50, 96),)),
    "sum_last": _fn(lambda x: x.sum(-1), (60, 77)),
    "sum_first": _fn(lambda x: x.sum(0), (60, 77)),
    "sum_all": _fn(lambda x: x.sum(), (60, 77)),
    "mean_last": _fn(lambda x: x.mean(-1, keepdim=True), (60, 77)),
    "mean_two_dims": _fn(lambda x: x.mean((0, 2)), (6, 40, 24)),
    "max_last": _fn(lambda x: x.max(-1).values, (60, 77)),
    "max_first": _fn(lambda x: x.amax(0), (60, 77)),
    "max_all": _fn(lambda x: x.max(), (60, 77)),
    "var_last": _fn(lambda x: x.var(-1), (60, 77)),
    "var_first_biased": _fn(lambda x: x.var(0, unbiased=False), (60, 77)),
    "matmul_ragged": _fn(lambda a, b: a @ b, (129, 61), (61, 56)),
    "matmul_512": _fn(lambda a, b: a @ b, (512, 512), (512, 512)),
    "matmul_bias_gelu": _fn(_matmul_bias_gelu, (512, 256), (256, 384), (384,)),
    "bmm": _fn(lambda a, b: torch.bmm(a, b), (5, 33, 40), (5, 40, 29)),
    "linear": Program(lambda: nn.Linear(100, 60), ((37, 100),)),
    "both_transposed": _fn(lambda a, b: a.t() @ b.t(), (61, 129), (56, 61)),
    "weight_twice": _fn(_weight_twice, (40, 48), (48, 48)),
    "results_in_tuple": _fn(_results_in_tuple, (40, 48), (40, 48)),
    "results_in_dict": _fn(_results_in_dict, (40, 48), (40, 48)),
    "keyword_arguments": _fn(_keyword_arguments, (40, 48), scale=(48,), shift=(40, 1)),
    "mlp": Program(MLP, ((32, 64),)),
    "ffn_residual": Program(FFN, ((128, 768),)),
}
