"""ResNet-50, whose batch norms have statistics as after training."""

from __future__ import annotations

import torch

from workbench.models.example import Example
from workbench.models.resnet import of_bottlenecks, resnet50
from workbench.models.seeded import with_statistics


def example(*, full: bool) -> Example:
    if full:
        return Example(with_statistics(resnet50()), (torch.randn(1, 3, 224, 224),))
    return Example(with_statistics(of_bottlenecks((3, 4, 6, 3), 10, width=8)), (torch.randn(1, 3, 64, 64),))
