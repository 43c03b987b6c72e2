"""Ops that move a window over space, in the ways that the table of all operators does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[Callable[[], Callable[..., Any]], tuple[int, ...]]

_1D, _2D, _3D = (2, 6, 31), (2, 6, 13, 11), (2, 4, 5, 6, 7)


def _case(make: Callable[..., nn.Module], *args: Any, shape: tuple[int, ...] = _2D, **kwargs: Any) -> Case:
    return lambda: make(*args, **kwargs), shape


CONVOLUTIONS: dict[str, Case] = {
    "conv1d": _case(nn.Conv1d, 6, 9, 3, padding=1, shape=_1D),
    "conv1d_far_apart": _case(nn.Conv1d, 6, 5, 5, stride=2, padding=6, dilation=3, shape=_1D),
    "conv1d_groups": _case(nn.Conv1d, 6, 9, 4, groups=3, shape=_1D),
    "conv1d_depthwise": _case(nn.Conv1d, 6, 6, 5, groups=6, padding="same", shape=_1D),
    "conv1d_whole": _case(nn.Conv1d, 6, 4, 31, shape=_1D),
    "conv2d_stride_beyond_kernel": _case(nn.Conv2d, 6, 5, 3, stride=4),
    "conv2d_one_point": _case(nn.Conv2d, 6, 20, 1),
    "conv2d_one_point_stride": _case(nn.Conv2d, 6, 20, 1, stride=(2, 3)),
    "conv2d_whole": _case(nn.Conv2d, 6, 7, (13, 11)),
    "conv2d_stands": _case(nn.Conv2d, 6, 7, (12, 3), 3),
    "conv2d_one_column": _case(nn.Conv2d, 6, 7, (5, 1), padding=(2, 0)),
    "conv2d_same": _case(nn.Conv2d, 6, 7, 5, padding="same"),
    "conv2d_valid": _case(nn.Conv2d, 6, 7, 5, padding="valid"),
    "conv2d_depthwise_twice": _case(nn.Conv2d, 6, 12, 3, groups=6),
    "conv2d_groups_to_one_column": _case(nn.Conv2d, 5, 10, 3, stride=2, padding=1, groups=5, shape=(7, 5, 9, 2)),
    "conv2d_one_channel": _case(nn.Conv2d, 1, 6, 5, padding=2, shape=(1, 1, 12, 12)),
    "conv2d_no_batch": _case(nn.Conv2d, 6, 5, 3, shape=(6, 9, 8)),
    "conv3d": _case(nn.Conv3d, 4, 6, 3, padding=1, shape=_3D),
    "conv3d_depthwise": _case(nn.Conv3d, 4, 8, (1, 3, 2), groups=4, stride=2, shape=_3D),
    "conv3d_groups": _case(nn.Conv3d, 4, 6, (1, 3, 2), groups=2, stride=2, shape=_3D),
}

TRANSPOSED: dict[str, Case] = {
    "conv_transpose1d": _case(nn.ConvTranspose1d, 6, 5, 4, 3, 1, shape=(2, 6, 9)),
    "conv_transpose2d": _case(nn.ConvTranspose2d, 6, 4, 3, 2, 1, 1, shape=(2, 6, 5, 4)),
    "conv_transpose2d_groups": _case(
        nn.ConvTranspose2d, 6, 4, (3, 2), (3, 2), groups=2, dilation=2, bias=False, shape=(1, 6, 4, 5)
    ),
    "conv_transpose2d_steps_of_one": _case(nn.ConvTranspose2d, 6, 4, 2, shape=(1, 6, 4, 5)),
    "conv_transpose2d_cropped": _case(nn.ConvTranspose2d, 4, 3, 2, 2, 2, shape=(4, 5, 4)),
}

POOLS: dict[str, Case] = {
    "max_pool1d": _case(nn.MaxPool1d, 3, 2, 1, shape=_1D),
    "max_pool1d_dilation": _case(nn.MaxPool1d, 3, 1, 1, dilation=2, shape=_1D),
    "max_pool2d": _case(nn.MaxPool2d, 2),
    "max_pool2d_ceil": _case(nn.MaxPool2d, 3, 2, 1, ceil_mode=True),
    "max_pool2d_stride_beyond_kernel": _case(nn.MaxPool2d, 2, 3, dilation=2),
    "max_pool2d_whole": _case(nn.MaxPool2d, (13, 11)),
    "max_pool2d_relu": (lambda: lambda x: torch.relu(F.max_pool2d(x, 3, 1) - 0.5), _2D),
    "max_pool2d_stands": _case(nn.MaxPool2d, (13, 11), 20, 5),
    "max_pool2d_stands_in_a_column": _case(nn.MaxPool2d, (9, 4), 5),
    "max_pool3d": _case(nn.MaxPool3d, 2, shape=_3D),
    "avg_pool1d": _case(nn.AvgPool1d, 3, 2, 1, shape=_1D),
    "avg_pool1d_inside_only": _case(nn.AvgPool1d, 3, 2, 1, count_include_pad=False, ceil_mode=True, shape=_1D),
    "avg_pool2d_ceil": _case(nn.AvgPool2d, 3, 2, 1, ceil_mode=True),
    "avg_pool2d_inside_only": _case(nn.AvgPool2d, 3, 2, 1, count_include_pad=False),
    "avg_pool2d_inside_only_ceil": _case(nn.AvgPool2d, (2, 3), 2, (1, 0), ceil_mode=True, count_include_pad=False),
    "avg_pool2d_divisor": _case(nn.AvgPool2d, 3, 2, 1, ceil_mode=True, divisor_override=5),
    "avg_pool2d_whole": _case(nn.AvgPool2d, (13, 11)),
}

ADAPTIVE: dict[str, Case] = {
    "adaptive_avg_pool1d": _case(nn.AdaptiveAvgPool1d, 4, shape=(2, 6, 10)),
    "adaptive_avg_pool2d_even": _case(nn.AdaptiveAvgPool2d, (6, 4), shape=(2, 3, 12, 12)),
    "adaptive_avg_pool2d": _case(nn.AdaptiveAvgPool2d, (None, 4)),
    "adaptive_avg_pool2d_larger": _case(nn.AdaptiveAvgPool2d, (3, 4), shape=(3, 2, 3)),
    "adaptive_max_pool1d": _case(nn.AdaptiveMaxPool1d, 5, shape=(2, 6, 20)),
    "adaptive_max_pool2d": _case(nn.AdaptiveMaxPool2d, (3, 1)),
    "max_pool2d_without_its_indices": (lambda: lambda x: F.max_pool2d(x, 3, 2, return_indices=True)[0], _2D),
}

NORMS: dict[str, Case] = {
    "batch_norm2d_plain": _case(nn.BatchNorm2d, 6, affine=False),
    "group_norm_plain": _case(nn.GroupNorm, 2, 6, affine=False, shape=_1D),
    "instance_norm": _case(nn.InstanceNorm2d, 6, affine=True),
}

CASES = CONVOLUTIONS | TRANSPOSED | POOLS | ADAPTIVE | NORMS
