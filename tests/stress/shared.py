"""Objects that all threads of the stress share, and a watcher that runs PyTorch on them and must see no change."""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

Function = Callable[[torch.Tensor], torch.Tensor]

_GENERATOR = torch.Generator().manual_seed(7)
WEIGHTS = torch.randn(16, 8, generator=_GENERATOR)
SCALE = {"scale": torch.full((8,), 0.5)}


class Shifted(nn.Module):
    """A module with a buffer and a parameter that it reads in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("shift", torch.linspace(-1, 1, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x) + self.shift) * self.linear.bias


def softmax(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x @ WEIGHTS * SCALE["scale"], -1)


def sorting(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x * 2).values


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x @ WEIGHTS
    return (y + 1 if y.sum() > 0 else y - 1) * 2


def made(module: nn.Module) -> nn.Module:
    """The module with parameters that are always the same."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=_GENERATOR) * 0.3)
    return module


SHIFTED = made(Shifted()).eval()
ENCODER = made(nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)).eval()
CELL = made(nn.GRU(16, 8)).eval()
COUNTED = made(nn.Sequential(nn.Linear(16, 6), nn.BatchNorm1d(6)))
"""In training mode: a check calls it, and its statistics stay."""
TRAINED = made(nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1)))
OPTIMIZER = torch.optim.SGD(TRAINED.parameters(), lr=0.1)


def cell(x: torch.Tensor) -> torch.Tensor:
    return CELL(x)[0]


def step(x: torch.Tensor) -> torch.Tensor:
    OPTIMIZER.zero_grad()
    loss = TRAINED(x).square().mean()
    loss.backward()
    OPTIMIZER.step()
    return loss.detach()


PROGRAMS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "softmax": (softmax, (4, 16)),
    "sorting": (sorting, (4, 16)),
    "shifted": (SHIFTED, (4, 16)),
    "encoder": (ENCODER, (2, 3, 16)),
    "cell": (cell, (3, 2, 16)),
}
"""Programs without effects, which every thread may call."""

MODULES = SHIFTED, ENCODER, CELL, COUNTED, TRAINED


def _read() -> dict[str, torch.Tensor]:
    found = {"WEIGHTS": WEIGHTS, "scale": SCALE["scale"]}
    for number, module in enumerate(MODULES):
        found |= {f"{type(module).__name__} {number}: {name}": each for name, each in module.named_parameters()}
        found |= {f"{type(module).__name__} {number}: {name}": each for name, each in module.named_buffers()}
    return found


def _settings() -> dict[str, object]:
    """Settings of all threads, but for what a trace of a step shows: docs/design/process-wide-state.md."""
    return {
        "the default type": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "the fast path": torch.backends.mha.get_fastpath_enabled(),
        "exporting": torch.compiler.is_exporting() or torch.fx._symbolic_trace.is_fx_symbolic_tracing(),
        "oneDNN": torch._C._get_mkldnn_enabled(),
        "attention": (torch._C._get_flash_sdp_enabled(), torch._C._get_math_sdp_enabled()),
        "Python's own": (max(1, 2), min([3, 2]), repr(math.pow(2, 3))),
        "training flags": tuple(part.training for module in MODULES for part in module.modules()),
        "streams": (id(sys.stdout), id(sys.stderr)),
        "the folder": os.getcwd(),
        "the environment": (tuple(sorted(os.environ.items())), tuple(sys.path)),
        "its numbers": str(OPTIMIZER.param_groups[0]["lr"]),
        "loggers": tuple(logging.getLogger(name).disabled for name in ("torch._dynamo", "torch._subclasses")),
    }


@dataclass
class Watcher:
    """A thread that computes with PyTorch alone, and knows what came out before the stress began."""

    inputs: dict[str, torch.Tensor]
    results: dict[str, torch.Tensor]
    tensors: dict[str, torch.Tensor]
    settings: dict[str, object]

    @classmethod
    def begin(cls, seed: int) -> Watcher:
        lot = torch.Generator().manual_seed(seed)
        inputs = {name: torch.randn(shape, generator=lot) for name, (_, shape) in PROGRAMS.items()}
        results = {name: PROGRAMS[name][0](x).detach() for name, x in inputs.items()}
        inputs["trained"] = torch.randn(4, 16, generator=lot)
        results["trained"] = TRAINED(inputs["trained"]).detach()
        return cls(inputs, results, {name: each.detach().clone() for name, each in _read().items()}, _settings())

    def look(self) -> list[str]:
        """Lists the changes since it was made."""
        found: list[str] = []
        for name, x in self.inputs.items():
            got = (TRAINED if name == "trained" else PROGRAMS[name][0])(x).detach()
            if got.dtype != self.results[name].dtype or not torch.equal(got, self.results[name]):
                found.append(f"{name} computed other numbers: {got.dtype} {got.flatten()[:3].tolist()}")
        with warnings.catch_warnings(record=False):
            pass  # as any thread may do at any time
        for name, now in _read().items():
            then = self.tensors[name]
            if type(now.data) is not torch.Tensor or now.dtype != then.dtype or not torch.equal(now.detach(), then):
                found.append(f"{name} is {now.dtype} and another tensor or has other numbers")
            if isinstance(now, nn.Parameter) != now.requires_grad:
                found.append(f"{name}.requires_grad is {now.requires_grad}")
        found += [f"{name}: {now}" for name, now in _settings().items() if now != self.settings[name]]
        return found
