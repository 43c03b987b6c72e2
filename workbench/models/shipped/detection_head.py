"""The head of a detector without anchors, as in FCOS: it predicts a class and a box for every place of a feature
pyramid."""

from __future__ import annotations

import torch
from torch import nn

from workbench.models.example import Example


class DetectionHead(nn.Module):
    """Predicts classes, boxes and the centrality of each place in its box, level by level of a feature pyramid."""

    def __init__(self, channels: int, classes: int, depth: int = 4) -> None:
        super().__init__()
        self.class_tower, self.box_tower = _tower(channels, depth), _tower(channels, depth)
        self.classes = nn.Conv2d(channels, classes, 3, padding=1)
        self.boxes = nn.Conv2d(channels, 4, 3, padding=1)
        self.centrality = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, levels: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        scores: list[torch.Tensor] = []
        boxes: list[torch.Tensor] = []
        for place, level in enumerate(levels):
            stride = 8 * 2**place
            of_boxes = self.box_tower(level)
            central = torch.sigmoid(self.centrality(of_boxes))
            scores.append((torch.sigmoid(self.classes(self.class_tower(level))) * central).flatten(2))
            boxes.append(_corners(torch.relu(self.boxes(of_boxes)) * stride, stride).flatten(2))
        return {"scores": torch.cat(scores, 2).mT, "boxes": torch.cat(boxes, 2).mT}


def _tower(channels: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(8, channels), nn.ReLU()]
    return nn.Sequential(*layers)


def _corners(distances: torch.Tensor, stride: int) -> torch.Tensor:
    """Boxes as two corners, from the distances of each place to the four sides of its box."""
    height, width = distances.shape[-2:]
    y = ((torch.arange(height) + 0.5) * stride).view(1, 1, height, 1)
    x = ((torch.arange(width) + 0.5) * stride).view(1, 1, 1, width)
    left, top, right, bottom = distances.chunk(4, 1)
    return torch.cat([x - left, y - top, x + right, y + bottom], 1)


def example(*, full: bool) -> Example:
    channels, sizes = (256, (64, 32, 16)) if full else (16, (16, 8))
    levels = [torch.randn(1, channels, size, size) for size in sizes]
    return Example(DetectionHead(channels, 80 if full else 5, 4 if full else 2).eval(), (levels,))
