"""An LSTM of two layers that classifies sequences."""

from __future__ import annotations

import torch
from torch import nn

from workbench.models.example import Example


class Classifier(nn.Module):
    """Classifies a sequence by the LSTM's output at the last step."""

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.lstm(x)
        return self.head(steps[:, -1])


def example(*, full: bool) -> Example:
    if full:
        return Example(Classifier(128, 512, 10).eval(), (torch.randn(8, 64, 128),))
    return Example(Classifier(16, 32, 10).eval(), (torch.randn(2, 6, 16),))
