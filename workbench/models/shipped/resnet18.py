"""ResNet-18, whose batch norms have statistics as after training."""

from __future__ import annotations

import torch

from workbench.models.example import Example
from workbench.models.resnet import of_basic_blocks, resnet18
from workbench.models.seeded import with_statistics


def example(*, full: bool) -> Example:
    if full:
        return Example(with_statistics(resnet18()), (torch.randn(1, 3, 224, 224),))
    return Example(with_statistics(of_basic_blocks((2, 2, 2, 2), 10, width=8)), (torch.randn(1, 3, 64, 64),))
