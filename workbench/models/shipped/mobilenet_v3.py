"""MobileNetV3-Small: inverted bottlenecks with depthwise convolutions, some with squeeze and excitation."""

from __future__ import annotations

import torch
from torch import nn

from workbench.models.example import Example
from workbench.models.seeded import with_statistics

BLOCKS = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)
"""For each block: window, channels inside, channels out, squeeze and excitation, hardswish in place of ReLU, stride."""


class SqueezeExcite(nn.Module):
    """Scales each channel by a factor that is computed from the means of all channels."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))
        return x * nn.functional.hardsigmoid(self.excite(scale))


class InvertedBottleneck(nn.Module):
    """Widens, convolves each channel by itself, narrows; the input is added if the sizes are the same."""

    def __init__(
        self, channels: int, window: int, inside: int, out: int, *, squeezes: bool, swish: bool, stride: int
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if inside != channels:
            layers += [*_convolution(channels, inside, 1), _activation(swish)]
        layers += [*_convolution(inside, inside, window, stride, groups=inside), _activation(swish)]
        if squeezes:
            layers.append(SqueezeExcite(inside, _in_eights(inside / 4)))
        self.layers = nn.Sequential(*layers, *_convolution(inside, out, 1))
        self.adds = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def _convolution(channels: int, out: int, window: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, out, window, stride, window // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out, eps=1e-3)]


def _in_eights(channels: float) -> int:
    """The nearest multiple of eight, or the next one if the nearest is less than nine tenths of `channels`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


def _activation(swish: bool) -> nn.Module:
    return nn.Hardswish() if swish else nn.ReLU()


def mobilenet_v3(classes: int = 1000, share: float = 1.0) -> nn.Module:
    """MobileNetV3-Small with a `share` of the published channels, in multiples of eight."""

    def channels_of(published: int) -> int:
        return _in_eights(published * share)

    channels = channels_of(16)
    layers: list[nn.Module] = [*_convolution(3, channels, 3, 2), nn.Hardswish()]
    for window, inside, out, squeezes, swish, stride in BLOCKS:
        wide, narrow = channels_of(inside), channels_of(out)
        layers.append(InvertedBottleneck(channels, window, wide, narrow, squeezes=squeezes, swish=swish, stride=stride))
        channels = narrow
    last, hidden = channels_of(576), channels_of(1024)
    layers += [*_convolution(channels, last, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(last, hidden), nn.Hardswish(), nn.Linear(hidden, classes))


def example(*, full: bool) -> Example:
    if full:
        return Example(with_statistics(mobilenet_v3()), (torch.randn(1, 3, 224, 224),))
    return Example(with_statistics(mobilenet_v3(10, share=0.25)), (torch.randn(1, 3, 64, 64),))
