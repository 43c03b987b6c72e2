"""Convolutions, pools and norms over space."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.operators.entry import Case, Operator, channels_last, positive

T = torch.Tensor

# Images and weights: one element, primes, one more than two tiles of 8, more than 128 channels in, and out.
IMAGES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 1, 3, 3), (1, 1, 3, 3)),
    ((2, 3, 13, 11), (5, 3, 3, 2)),
    ((1, 17, 9, 8), (9, 17, 3, 3)),
    ((1, 130, 4, 7), (3, 130, 3, 3)),
    ((3, 7, 3, 19), (131, 7, 1, 3)),
)
ROWS: tuple[Case, ...] = (
    ((1, 1, 3), (1, 1, 3), (1,)),
    ((2, 3, 31), (5, 3, 4), (5,)),
    ((1, 17, 9), (9, 17, 3), (9,)),
    ((1, 130, 8), (3, 130, 1), (3,)),
    ((3, 7, 133), (129, 7, 5), (129,)),
)
GROUPS: tuple[Case, ...] = (
    ((1, 3, 3, 3), (3, 1, 3, 3)),
    ((2, 6, 7, 11), (9, 2, 2, 3)),
    ((1, 27, 5, 8), (3, 9, 3, 3)),
    ((1, 132, 4, 3), (6, 44, 1, 1)),
    ((3, 3, 1, 19), (33, 1, 1, 5)),
)
APART: tuple[Case, ...] = (
    ((1, 1, 3, 3), (1, 1, 3, 3)),
    ((2, 6, 7, 11), (12, 1, 2, 3)),
    ((1, 9, 5, 8), (9, 1, 3, 3)),
    ((1, 130, 4, 3), (130, 1, 1, 3)),
    ((3, 3, 1, 19), (3, 1, 1, 5)),
)
BACK: tuple[Case, ...] = (
    ((1, 1, 1, 1), (1, 1, 1, 1), (1,)),
    ((2, 3, 5, 4), (3, 5, 3, 2), (5,)),
    ((1, 9, 3, 7), (9, 2, 2, 2), (2,)),
    ((1, 33, 2, 1), (33, 17, 1, 3), (17,)),
    ((3, 2, 1, 9), (2, 3, 4, 1), (3,)),
)
BACK_ROWS: tuple[Case, ...] = (
    ((1, 1, 1), (1, 1, 1)),
    ((2, 3, 5), (3, 5, 3)),
    ((1, 9, 7), (9, 2, 2)),
    ((1, 33, 2), (33, 17, 3)),
    ((3, 2, 19), (2, 3, 4)),
)
SEEN: tuple[Case, ...] = (((1, 1, 3, 3),), ((2, 3, 13, 11),), ((1, 17, 9, 8),), ((1, 130, 4, 7),), ((3, 1, 3, 131),))
HEARD: tuple[Case, ...] = (((1, 1, 3),), ((2, 3, 31),), ((1, 17, 9),), ((1, 130, 7),), ((3, 1, 257),))


def _with(*more: str) -> tuple[Case, ...]:
    """The images with arguments for each channel of the result, or with one like the result."""
    found: list[Case] = []
    for x, w in IMAGES:
        channels, result = (w[0],), (x[0], w[0], x[2] - w[2] + 1, x[3] - w[3] + 1)
        known: dict[str, Any] = {"channel": channels, "variance": positive(*channels), "result": result}
        found.append((x, w, *(known[name] for name in more)))
    return tuple(found)


def _normalised(x: T, w: T, mean: T, variance: T, weight: T, bias: T) -> T:
    return F.batch_norm(F.conv2d(x, w), mean, variance, weight, bias)


def _per_channel(*shapes: tuple[int, ...]) -> tuple[Case, ...]:
    return tuple((x, (x[1],), positive(x[1]), (x[1],), (x[1],)) for x in shapes)


OPERATORS: dict[str, Operator] = {
    "conv2d": Operator(F.conv2d, IMAGES),
    "conv2d stride": Operator(lambda x, w: F.conv2d(x, w, stride=(2, 3)), IMAGES),
    "conv2d padding": Operator(lambda x, w: F.conv2d(x, w, padding=(2, 1)), IMAGES),
    "conv2d dilation": Operator(lambda x, w: F.conv2d(x, w, padding=2, dilation=2), IMAGES),
    "conv2d groups": Operator(lambda x, w: F.conv2d(x, w, padding=1, groups=3), GROUPS),
    "conv2d depthwise": Operator(lambda x, w: F.conv2d(x, w, groups=x.shape[1]), APART),
    "conv2d channels last": Operator(F.conv2d, tuple((channels_last(*x), channels_last(*w)) for x, w in IMAGES)),
    "conv2d bias": Operator(F.conv2d, _with("channel")),
    "conv2d batch norm": Operator(_normalised, _with("channel", "variance", "channel", "channel")),
    "conv2d relu": Operator(lambda x, w, b: torch.relu(F.conv2d(x, w, b)), _with("channel")),
    "conv2d residual": Operator(lambda x, w, r: torch.relu(F.conv2d(x, w) + r), _with("result")),
    "conv1d": Operator(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), ROWS),
    "conv transpose 2d": Operator(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), BACK),
    "conv transpose 1d": Operator(lambda x, w: F.conv_transpose1d(x, w, stride=3, output_padding=1), BACK_ROWS),
    "max pool 2d": Operator(lambda x: F.max_pool2d(x, 3, 2, 1), SEEN),
    "max pool 1d": Operator(lambda x: F.max_pool1d(x, 2, 3), HEARD),
    "avg pool 2d": Operator(lambda x: F.avg_pool2d(x, 3, 2, 1), SEEN),
    "avg pool 1d": Operator(lambda x: F.avg_pool1d(x, 3, 1, 1, count_include_pad=False), HEARD),
    "adaptive avg pool 2d": Operator(lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (2, 3))), SEEN),
    "adaptive max pool 2d": Operator(lambda x: F.adaptive_max_pool2d(x, (3, 2)), SEEN),
    "batch norm": Operator(
        F.batch_norm, _per_channel((1, 1), (5, 7), (2, 3, 31), (1, 17, 9, 8), (1, 130, 3, 1), (3, 9, 1, 131))
    ),
    "group norm": Operator(
        lambda x, w, b: F.group_norm(x, 3, w, b),
        tuple((x, (x[1],), (x[1],)) for x in ((1, 6), (2, 3, 31), (1, 27, 9, 8), (1, 132, 3, 1), (3, 9, 1, 131))),
    ),
}
