"""Random weights and statistics that are the same each time."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import torch
from torch import nn


@contextlib.contextmanager
def seeded(seed: int = 0) -> Generator[None]:
    """Within the block random numbers come from the seed; behind it they go on as if none had been drawn."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def with_statistics(model: nn.Module, seed: int = 0) -> nn.Module:
    """Returns the model in eval mode; its batch norms have statistics as after training."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.running_mean is not None:
            shape = module.running_mean.shape
            module.running_mean = torch.randn(shape, generator=generator) * 0.1
            module.running_var = torch.rand(shape, generator=generator) + 0.5
            if module.affine:
                module.weight.data = torch.rand(shape, generator=generator) + 0.5
                module.bias.data = torch.randn(shape, generator=generator) * 0.1
    return model.eval()
