"""Compares two tensors: the arithmetic behind `j.check()`.

An element of a float result agrees if it lies no farther from the reference than rounding explains
(`workbench.checking.rounding_allowance`), or if it is PyTorch's own answer to the last place. So if a choice depends on
rounding (a comparison, an argmax, a number that just overflows or just does not), PyTorch's answer in the given types
is right as well, and so is an answer that comes up when roundings are drawn by lot. Whole numbers and booleans have to
be one of these answers exactly.

NaN agrees only with NaN, an infinity only with the same infinity. A wrong shape or element type is a failure of its
own, whatever the values say. Tolerances that the user gives take the place of all this: `|got - reference| <= atol +
rtol * |reference|`; in place of an omitted tolerance stands the error that rounding explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from workbench.checking.rounding_allowance import DRAWS, numbers_of, one_unit, own_errors, spread
from workbench.checking.wide_reference import Answers
from workbench.ground.errors import OtherResults
from workbench.ir import TensorType
from workbench.operators.tensors.element_types import dtype_name

EXACT: Final = "exact"
UNIT: Final = "one unit"
OWN: Final = "4 x PyTorch's error"
NATIVE: Final = "PyTorch's answer"
GIVEN: Final = "given"
HOPELESS: Final = 10.0
"""The factor of the allowance beyond which more draws cannot explain an element."""
TELLING: Final = 8
"""The number of draws that shows what roundings can do. A number that was rounded to 16 bits on the way is one of two
numbers, and the lot decides between them: if half of all draws take the other one, so many draws miss it once in 256
times."""


@dataclass(frozen=True, slots=True)
class Bad:
    """The first element that does not agree, in the output's order in memory."""

    output: str
    index: tuple[int, ...]
    got: float
    expected: float
    native: float
    """PyTorch's value in the given types."""
    bound: float

    def __str__(self) -> str:
        near = f", PyTorch has {self.native:g}" if self.native != self.expected else ""
        within = f", within {self.bound:.2g}" if self.bound and math.isfinite(self.bound) else ""
        return f"{self.output}{list(self.index)} is {self.got:g}, expected {self.expected:g}{within}{near}"


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The comparison of one output or one mutated input."""

    name: str
    type: str
    elements: int
    mismatches: int
    max_abs: float
    """Our largest error: the distance from the reference, or 0 where ours is PyTorch's infinity, NaN or whole
    number."""
    max_rel: float
    """The largest relative error, over the elements whose expected value is larger than their bound."""
    pytorch: float
    """PyTorch's own largest error, among finite errors."""
    bound: float
    """The bound at the element where our error is largest; each element has a bound of its own."""
    used: float
    """The largest part of its bound that an element uses: above 1 there is a mismatch."""
    rule: str
    """The origin of `bound`: exact, one unit, four times PyTorch's error, a spread of roundings, or given."""
    reference: str
    """The type that the reference is computed in."""
    rtol: float | None
    atol: float | None
    first_bad: Bad | None = None
    problem: str = ""
    """A difference of shape or element type, in words."""

    @property
    def ok(self) -> bool:
        return not self.mismatches and not self.problem


@dataclass(frozen=True, slots=True)
class Pair:
    """A computed tensor with its shown name. `type` is the recorded type."""

    name: str
    got: torch.Tensor
    type: TensorType


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerances that the user gives; None stands for the error that rounding explains."""

    rtol: float | None
    atol: float | None

    def allowed(self, explained: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        if self.rtol is None and self.atol is None:
            return explained
        left = explained if self.rtol is None or self.atol is None else torch.zeros_like(explained)
        return left + (self.atol or 0.0) + (reference.abs() * self.rtol if self.rtol else 0.0)

    @property
    def given(self) -> bool:
        return self.rtol is not None or self.atol is not None

    @property
    def complete(self) -> bool:
        return self.rtol is not None and self.atol is not None


def compare(
    pairs: Sequence[Pair], answers: Answers, *, rtol: float | None = None, atol: float | None = None
) -> tuple[OutputCheck, ...]:
    """Compares every pair with PyTorch's result of the same call, within the given tolerances or the error that
    rounding explains."""
    tolerance = Tolerance(rtol, atol)
    if len(pairs) != len(answers.native):
        raise OtherResults(len(pairs), len(answers.native))
    found = [
        _Comparison(pair, wide, native, tolerance)
        for pair, wide, native in zip(pairs, answers.reference, answers.native, strict=True)
    ]
    for count in () if tolerance.complete else DRAWS:
        left = [place for place, each in enumerate(found) if each.open]
        if not left or any(each.hopeless for each in found):
            break
        runs = answers.rounded(count)
        for place in left:
            found[place].explain([run[place] for run in runs])
    return tuple(each.result(answers.arithmetic) for each in found)


class _Comparison:
    """One output beside its reference, and its allowance, which grows as more answers are drawn."""

    def __init__(self, pair: Pair, reference: torch.Tensor, native: torch.Tensor, tolerance: Tolerance) -> None:
        self.pair, self.tolerance, self.wide = pair, tolerance, reference
        self.problem = _difference_of_type(pair, native)
        if self.problem:
            return
        self.got, self.reference, self.native = (numbers_of(each) for each in (pair.got, reference, native))
        self.close = bool(pair.got.is_floating_point() or pair.got.is_complex())
        self.seen = _same(self.got, self.native)
        """True for elements that are one of PyTorch's answers, in the given types or with other roundings."""
        self.draws, self.rules = 0, [UNIT, OWN]
        if not self.close:
            self.seen = _exactly(pair.got, native)
            self.explained = [torch.zeros_like(self.reference)]
            self.rules = [EXACT]
        else:
            self.explained = [one_unit(self.reference, pair.got.dtype), own_errors(self.native, self.reference)]
            if tolerance.complete:
                self.seen &= ~self.native.isfinite()
            else:
                self.seen |= (self.got - self.native).abs() <= one_unit(self.native, pair.got.dtype)
        self._settle()

    @property
    def open(self) -> bool:
        """True if elements are left that more draws may explain."""
        return not self.problem and bool(self.bad.any())

    @property
    def hopeless(self) -> bool:
        """True if an element is so far beyond its bound that no number of draws will explain it."""
        if not self.open or self.draws < TELLING or not self.close:
            return False
        allowed = self.allowed[self.allowed.isfinite()]
        return bool((self.distance[self.bad] > HOPELESS * (allowed.max() if allowed.numel() else 0.0)).any())

    def explain(self, runs: Sequence[torch.Tensor]) -> None:
        """Adds the results of runs with other roundings to the allowance."""
        numbers = [numbers_of(run) for run in runs if run.shape == self.pair.got.shape]
        self.draws = len(numbers)
        for run, each in zip(runs, numbers, strict=False):
            self.seen |= _same(self.got, each) & ~each.isfinite() if self.close else _exactly(self.pair.got, run)
        if self.close and numbers:
            self.explained = [*self.explained[:2], spread(numbers, self.reference, self.explained[0])]
            self.rules = [UNIT, OWN, f"6 x the spread of {self.draws} roundings"]
        self._settle()

    def _settle(self) -> None:
        explained = torch.stack([each.expand_as(self.reference) for each in self.explained]).amax(0)
        self.allowed = self.tolerance.allowed(explained, self.reference)
        finite = self.got.isfinite() & self.reference.isfinite()
        same = _same(self.got, self.reference) if self.close else _exactly(self.pair.got, self.wide)
        away = torch.where(same, 0.0, (self.got - self.reference).abs())
        away = torch.where(self.seen & ~finite, 0.0, away) if self.close else torch.where(self.seen, 0.0, away)
        self.distance = torch.where(away.isnan(), math.inf, away)
        within = finite & (self.distance <= self.allowed) & (self.close or self.tolerance.given)
        self.bad = ~same & ~self.seen & ~within

    def result(self, arithmetic: str) -> OutputCheck:
        pair, elements = self.pair, self.pair.type.numel
        given = (arithmetic, self.tolerance.rtol, self.tolerance.atol)
        if self.problem:
            worst = (elements, math.inf, math.inf, 0.0, 0.0, math.inf, EXACT)
            return OutputCheck(pair.name, str(pair.type), elements, *worst, *given, problem=self.problem)
        theirs = (self.native - self.reference).abs()
        return OutputCheck(
            pair.name,
            str(pair.type),
            elements,
            int(self.bad.sum()),
            _largest(self.distance),
            _largest(_relative(self.distance, self.reference, self.allowed)),
            _largest(torch.where(theirs.isfinite(), theirs, 0.0)),
            *self._bound(),
            *given,
            self._first(),
        )

    def _bound(self) -> tuple[float, float, str]:
        """The bound where our error is largest, the largest part of a bound that any element uses, and its origin."""
        if not self.distance.numel():
            return 0.0, 0.0, self.rules[0]
        right = self.seen & ~self.bad  # an answer of PyTorch's is right however far it lies from the reference
        used = torch.where(
            (self.distance == 0) | right & (self.distance > self.allowed), 0.0, self.distance / self.allowed
        )
        place = int(self.distance.flatten().argmax())
        bound, away = float(self.allowed.flatten()[place]), float(self.distance.flatten()[place])
        if self.tolerance.given:
            return bound, _largest(used), GIVEN
        if bool(right.flatten()[place]) and away > bound:
            return away, _largest(used), NATIVE
        parts = [float(each.expand_as(self.distance).flatten()[place]) for each in self.explained]
        return bound, _largest(used), self.rules[parts.index(max(parts))]

    def _first(self) -> Bad | None:
        if not bool(self.bad.any()):
            return None
        where = tuple(
            int(each) for each in torch.unravel_index(self.bad.flatten().to(torch.uint8).argmax(), self.bad.shape)
        )
        values = (float(each[where]) for each in (self.got, self.reference, self.native, self.allowed))
        return Bad(self.pair.name, where, *values)


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _exactly(got: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Compares whole numbers as such: 64 bits of a float do not hold all of them."""
    return got.cpu() == other.cpu()


def _relative(distance: torch.Tensor, reference: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """The relative errors of the elements whose expected value exceeds the bound: others may be any multiple of the
    expected value."""
    found = torch.where(distance == 0, 0.0, distance / reference.abs())[reference.abs() > allowed]
    return torch.where(found.isnan(), math.inf, found)


def _difference_of_type(pair: Pair, native: torch.Tensor) -> str:
    shape, dtype = tuple(pair.got.shape), dtype_name(pair.got.dtype)
    if shape != tuple(native.shape):
        return f"its shape is {shape}, expected {tuple(native.shape)}"
    if dtype != dtype_name(native.dtype):
        return f"its element type is {dtype}, expected {dtype_name(native.dtype)}"
    return ""


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
