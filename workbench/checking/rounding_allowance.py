"""The bound on a float's error against the reference: the error that rounding explains, element by element.

Three things are allowed, whichever is the largest:

* **one unit** in the last place of the result's type at the reference's value: the type has no number between;
* **four times PyTorch's own error**, at its largest among the elements of about the same size;
* **six times the spread** of the same function with its roundings drawn by lot (`workbench.checking.drawn_roundings`):
  of random errors two in a billion exceed six standard deviations. Or three times the largest of these errors, which is
  about the same for normal errors and more for squares and quotients of roundings. This spread is computed only if the
  other two do not suffice, and with more draws only while elements beyond the bound are left.

A result may have parts of very different size (rows that were scaled, two results side by side), and a rounding error
in one may exceed all values in another. So errors are compared within groups of about the same size: the largest
elements and those down to an eighth of them, then the next group, ten or more elements at a time; no group reaches over
a gap. Within a group, errors are either about equal (a product of matrices) or about the same part of each value (a
softmax). The check assumes the description that fits PyTorch's errors better. A few elements for which PyTorch is on
the other side of a jump do not raise the bound of the others: PyTorch's largest error counts as at most three times the
error that one element in ten exceeds, which is the expected largest of some hundred thousand random errors. Those few
elements themselves may be off as much as PyTorch is, for example where a result nearly cancels and the reference has
only its own rounding left. An element whose few draws happen to be close together gets the usual spread of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch

from workbench.checking.drawn_roundings import spacing

OWN_ERRORS: Final = 4.0
DEVIATIONS: Final = 6.0
LARGEST: Final = 3.0
"""The factor of the largest drawn error: the largest of 32 normal errors is a little more than two deviations."""
TAIL: Final = 3.0
"""The largest of 100,000 normal errors, divided by the error that one in ten exceeds: 4.4 by 1.6 standard
deviations."""
DRAWS: Final = (2, 4, 8, 16, 32)
"""The numbers of answers with roundings drawn by lot: each next number only if the draws before do not explain all
elements."""
ALIKE: Final = 8.0
"""Elements are of about the same size if the largest is at most so many times the smallest."""
TOGETHER: Final = 10
"""The fewest elements in a group of one size, unless gaps enclose fewer: the largest of fewer errors says little."""
GAP: Final = 64.0
"""The ratio between neighbours in size above which a gap separates them. Among numbers that cancel by chance, the
smallest is so far below the next once in sixty-four results."""
_LOOKED_AT: Final = 1 << 16
"""The number of evenly spaced elements of a large result from which typical errors are computed."""


def numbers_of(tensor: torch.Tensor) -> torch.Tensor:
    """The values in 64 bits; for a complex number both parts, along one more axis."""
    tensor = tensor.detach().cpu()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).to(torch.float64)


def one_unit(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One unit in the last place of each value; for the parts of a complex number, of its absolute value."""
    if dtype.is_complex:
        size = (values * values).sum(-1, keepdim=True).sqrt().expand_as(values)
        return spacing(size, dtype.to_real())
    return spacing(values, dtype)


def own_errors(native: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Four times PyTorch's largest error among elements of about the same size, or PyTorch's error at the element
    itself if that is larger."""
    error = (native - reference).abs()
    allowed = OWN_ERRORS * _by_size(error, reference, _largest_accident)
    everywhere = OWN_ERRORS * _largest(error)
    here = torch.where(error.isfinite(), error, 0.0)
    return torch.maximum(allowed.clamp(max=everywhere), here)


def _largest_accident(errors: torch.Tensor) -> float:
    """The largest random error: the few errors that are far larger do not count."""
    largest = float(errors.max())
    return min(TAIL * _exceeded_by(errors, 0.1), largest) if len(errors) >= TOGETHER else largest


def spread(runs: Sequence[torch.Tensor], reference: torch.Tensor, unit: torch.Tensor) -> torch.Tensor:
    """Six times the root mean square of the runs' errors, or three times the largest. Numbers of runs that are not
    finite do not count.

    If no run is off by more than a unit anywhere, the result is rounded once, and the spread is 0: a larger error is
    not rounding.
    """
    if all(bool((~((run - reference).abs() > unit)).all()) for run in runs):
        return torch.zeros_like(reference)
    total, count, largest = (torch.zeros_like(reference) for _ in range(3))
    for run in runs:
        off = run - reference
        known = off.isfinite()
        total += torch.where(known, off * off, 0.0)
        count += known
        largest = torch.maximum(largest, torch.where(known, off.abs(), 0.0))
    own = (total / count.clamp(min=1)).sqrt()
    usual = _by_size(own, reference, lambda found: _exceeded_by(found[found > 0], 0.5))
    within = DEVIATIONS * torch.where(own > 0, torch.maximum(own, usual.clamp(max=_largest(own))), 0.0)
    return torch.maximum(within, LARGEST * largest)


def _by_size(errors: torch.Tensor, reference: torch.Tensor, typical: Callable[[torch.Tensor], float]) -> torch.Tensor:
    """Returns for each element the error that is typical for its size."""
    found, size = errors.flatten(), reference.abs().flatten()
    step = max(-(-found.numel() // _LOOKED_AT), 1)
    found, size = found[::step], size[::step]
    known = found.isfinite() & size.isfinite()
    size, order = size[known].sort(descending=True)
    found = found[known][order]
    everywhere, made = reference.abs(), torch.zeros_like(reference)
    above = math.inf
    for first, end in _sizes(size):
        inside = (everywhere >= float(size[end - 1]) / (GAP if end == len(size) else 1.0)) & (everywhere < above)
        parts = found[first:end] / size[first:end]
        if float(size[end - 1]) > 0 and _scatter(parts) < _scatter(found[first:end]):
            made = torch.where(inside, typical(parts) * everywhere, made)
        else:
            made = torch.where(inside, typical(found[first:end]), made)
        above = float(size[end - 1])
    return made


def _sizes(size: torch.Tensor) -> list[tuple[int, int]]:
    """The ranges of elements of about the same size; `size` is sorted, the largest first."""
    made, first, zeros = list[tuple[int, int]](), 0, int((size > 0).sum())
    after_gap = [int(place) + 1 for place in (size[:-1] > GAP * size[1:]).nonzero()] if len(size) else []
    for gap in [*after_gap, zeros, len(size)]:
        while first < gap:
            alike = int((size[first:gap] >= size[first] / ALIKE).sum())
            end = first + max(alike, TOGETHER)
            end = end if gap - end >= TOGETHER else gap
            made.append((first, end))
            first = end
    return made


def _exceeded_by(values: torch.Tensor, share: float) -> float:
    """The value that this share of the values exceeds."""
    return float(values.kthvalue(max(math.ceil((1 - share) * len(values)), 1)).values) if len(values) else 0.0


def _scatter(values: torch.Tensor) -> float:
    """Measures how much values differ: the value that one in ten exceeds, divided by the middle one. Zeros do not
    count."""
    found = values[values > 0]
    return _exceeded_by(found, 0.1) / _exceeded_by(found, 0.5) if len(found) else math.inf


def _largest(values: torch.Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0
