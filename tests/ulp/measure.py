"""Errors in units of the last place, against a reference that is known to more digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch


class Exact(NamedTuple):
    """True results as the sum of two doubles."""

    high: torch.Tensor
    low: torch.Tensor | float = 0.0


@dataclass(frozen=True)
class Error:
    """Largest error of some results, and its place."""

    worst: float
    """In units of the last place."""
    place: int
    classes: int = 0
    """Results that are another NaN, infinity or sign of zero than the true one, rounded, and than PyTorch's."""
    class_place: int = 0


def unit(dtype: torch.dtype, size: torch.Tensor) -> torch.Tensor:
    """The distance of neighbouring numbers of a type at numbers of this size; of denormal ones below them."""
    limits = torch.finfo(dtype)
    smallest = limits.smallest_normal
    bounded = size.double().abs().clamp(smallest, limits.max)
    bounded = torch.where(bounded.isnan(), smallest, bounded)
    exponent = torch.frexp(bounded)[1] - 1
    return torch.ldexp(torch.full_like(bounded, limits.eps), exponent)


def distances(made: torch.Tensor, true: Exact, units: torch.Tensor) -> torch.Tensor:
    """In units; infinity counts as the number that would follow the largest. NaN where either is none."""
    limits = torch.finfo(made.dtype)
    if made.dtype == torch.float64:
        known = made.isfinite() & true.high.isfinite()
        apart = torch.where(known, (made - true.high) / units - true.low / units, math.inf)
        apart = torch.where((made == true.high) & ~known, 0.0, apart)
        overflows = (made.isinf() != true.high.isinf()) & (torch.minimum(made.abs(), true.high.abs()) > limits.max / 2)
        return torch.where(overflows, 1.0, torch.where(made.isnan() | true.high.isnan(), math.nan, apart)).abs()
    after_largest = math.ldexp(1.0, math.frexp(limits.max)[1])
    ours, theirs = made.double().clamp(-after_largest, after_largest), true.high.clamp(-after_largest, after_largest)
    return ((ours - theirs) / units).abs()


def classes(values: torch.Tensor) -> torch.Tensor:
    """Which kind of number each is: NaN, an infinity, a zero with its sign, or a plain one."""
    kinds = torch.zeros(values.shape, dtype=torch.int64)
    kinds[values == 0] = 1
    kinds[(values == 0) & values.signbit()] = 2
    kinds[values == math.inf] = 3
    kinds[values == -math.inf] = 4
    kinds[values.isnan()] = 5
    return kinds


def error(made: torch.Tensor, native: torch.Tensor, true: Exact, units: torch.Tensor) -> Error:
    """Of `made`; `native` is PyTorch's own result, whose kind of number is right too."""
    if not made.is_floating_point():
        wrong = (made != true.high.to(made.dtype)) & (made != native)
        return Error(0.0, 0, int(wrong.sum()), _first(wrong))
    apart = distances(made, true, units)
    rounded = true.high.to(made.dtype)
    mine = classes(made)
    wrong = (mine != classes(rounded)) & (mine != classes(native))
    plain = (mine == 0) | (classes(rounded) == 0)
    wrong &= ~(plain & ~made.isnan() & ~rounded.isnan())  # what is finite on one side is measured in units
    known = torch.where(apart.isnan(), 0.0, apart)
    worst = int(known.flatten().argmax()) if known.numel() else 0
    return Error(float(known.flatten()[worst]), worst, int(wrong.sum()), _first(wrong))


def _first(wrong: torch.Tensor) -> int:
    found = wrong.flatten().nonzero()
    return int(found[0]) if len(found) else 0
