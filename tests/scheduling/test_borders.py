"""Padding at a kernel's border where its window reaches only a part of the image, as it stands or reshaped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.flow import flow

REACHING_A_PART = [
    (nn.MaxPool2d(2, 3, padding=1), (2, 3, 2, 4)),
    (nn.AvgPool2d(2, 3, padding=1), (2, 3, 2, 4)),
    (nn.MaxPool3d(2, 3, padding=1), (2, 3, 2, 2, 4)),
    (nn.AvgPool3d(2, 3, padding=1), (4, 3, 2, 2, 4)),
    (nn.Conv2d(3, 4, 2, stride=3, padding=1), (2, 3, 2, 4)),
    (nn.Conv1d(8, 2, 3, stride=3, padding=1, groups=2), (2, 8, 3)),
    (nn.Conv1d(8, 4, 3, stride=3, padding=1, groups=4), (2, 8, 3)),
]


@pytest.mark.parametrize(("layer", "shape"), REACHING_A_PART, ids=lambda each: str(each))
def test_a_window_over_one_row_of_a_padded_image(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """The other rows are never read: the part is cut out and reshaped before it is padded."""
    x = torch.randn(shape)
    flow(layer, (x,)).assert_matches_eager(x)
