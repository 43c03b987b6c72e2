"""Ops of a person's own for patterns, computed by the very functions that the patterns are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import workbench as wb


def scaled_relu(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.relu(x * scale)


def both(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + y
    return total, torch.tanh(total * z)


def diamond(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + y) * (x - y)


def below_largest(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x - x.amax(-1, keepdim=True))


def folded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.maximum(x.reshape(x.shape[0] * x.shape[1]), y)


@torch.library.custom_op("rewriting_tests::scaled_relu", mutates_args=())
def scaled_relu_op(x: torch.Tensor, scale: float) -> torch.Tensor:
    return scaled_relu(x, scale)


@torch.library.custom_op("rewriting_tests::both", mutates_args=())
def both_op(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return both(x, y, z)


@torch.library.custom_op("rewriting_tests::diamond", mutates_args=())
def diamond_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return diamond(x, y)


@torch.library.custom_op("rewriting_tests::below_largest", mutates_args=())
def below_largest_op(x: torch.Tensor) -> torch.Tensor:
    return below_largest(x)


@torch.library.custom_op("rewriting_tests::folded", mutates_args=())
def folded_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return folded(x, y)


for _op, _function in (
    (scaled_relu_op, scaled_relu),
    (both_op, both),
    (diamond_op, diamond),
    (below_largest_op, below_largest),
    (folded_op, folded),
):
    _op.register_fake(_function)

SQUARE = torch.empty(4, 8)
EXAMPLES = {
    scaled_relu_op: (scaled_relu, (SQUARE, 2.0)),
    both_op: (both, (SQUARE, SQUARE, SQUARE)),
    diamond_op: (diamond, (SQUARE, SQUARE)),
    below_largest_op: (below_largest, (SQUARE,)),
    folded_op: (folded, (SQUARE, torch.empty(32))),
}
"""Op -> the function of its pattern, and an example."""


def traced(function: Callable[..., object], *shapes: tuple[int, ...], **options: Any) -> wb.Journey:
    return wb.trace(function, *map(torch.randn, shapes), **options)


def ops(j: wb.Journey) -> list[str]:
    """The ops that are lowered, without namespaces and overloads."""
    return [each.partition(".")[2].rpartition(".")[0] for each in j.lowered.table.op]
