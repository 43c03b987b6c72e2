"""Are two tensors the same? The arithmetic behind `j.check()`.

A value agrees when `|got - expected| <= atol + rtol * |expected|`. NaN agrees with NaN and an infinity with the same
infinity, and with nothing else. A wrong shape or element type is a failure of its own, whatever the values say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import torch

from workbench.ir import TensorType
from workbench.torch_types import dtype_name

TOLERANCES: Final[Mapping[str, float]] = MappingProxyType(
    {"f64": 1e-7, "f32": 1e-4, "f16": 1e-2, "bf16": 3e-2, "c64": 1e-4, "c128": 1e-7}
)
"""Default rtol and atol by the result's element type; every other type must agree exactly."""


@dataclass(frozen=True, slots=True)
class Bad:
    """The first element, in memory order of the output, that does not agree."""

    output: str
    index: tuple[int, ...]
    got: float
    expected: float

    def __str__(self) -> str:
        return f"{self.output}{list(self.index)} is {self.got:g}, expected {self.expected:g}"


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output, or one mutated input, compared."""

    name: str
    type: str
    elements: int
    mismatches: int
    max_abs: float
    max_rel: float
    """Over the elements whose expected value is not zero."""
    rtol: float
    atol: float
    first_bad: Bad | None = None
    problem: str = ""
    """A difference of shape or element type, in words."""

    @property
    def ok(self) -> bool:
        return not self.mismatches and not self.problem


@dataclass(frozen=True, slots=True)
class Pair:
    """What to compare: the tensor that was computed, and the one it should be. `type` is what was recorded."""

    name: str
    got: torch.Tensor
    expected: torch.Tensor
    type: TensorType


def compare(pairs: Sequence[Pair], *, rtol: float | None = None, atol: float | None = None) -> tuple[OutputCheck, ...]:
    """Every pair compared with the given tolerances, or with those of its element type."""
    return tuple(_compare(pair, rtol, atol) for pair in pairs)


def _compare(pair: Pair, rtol: float | None, atol: float | None) -> OutputCheck:
    default = TOLERANCES.get(pair.type.dtype, 0.0)
    relative, absolute = (default if given is None else given for given in (rtol, atol))
    elements = pair.type.numel
    problem = _difference_of_type(pair)
    if problem:
        return OutputCheck(
            pair.name, str(pair.type), elements, elements, math.inf, math.inf, relative, absolute, None, problem
        )
    got, expected = (_numbers(tensor) for tensor in (pair.got, pair.expected))
    same = (got == expected) | (got.isnan() & expected.isnan())
    distance = torch.where(same, 0.0, (got - expected).abs())
    distance = torch.where(distance.isnan(), math.inf, distance)
    bad = ~same & ~(distance <= absolute + relative * expected.abs())
    bad |= ~same & ~(got.isfinite() & expected.isfinite())
    nonzero = torch.where(same, 0.0, distance / expected.abs())[expected != 0]
    nonzero = torch.where(nonzero.isnan(), math.inf, nonzero)
    return OutputCheck(
        name=pair.name,
        type=str(pair.type),
        elements=elements,
        mismatches=int(bad.sum()),
        max_abs=_largest(distance),
        max_rel=_largest(nonzero),
        rtol=relative,
        atol=absolute,
        first_bad=_first(pair.name, bad, got, expected),
    )


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The values in 64 bits; of a complex number both parts, along one more axis."""
    tensor = tensor.detach().cpu()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).to(torch.float64)


def _difference_of_type(pair: Pair) -> str:
    shape, dtype = tuple(pair.got.shape), dtype_name(pair.got.dtype)
    if shape != tuple(pair.expected.shape):
        return f"its shape is {shape}, expected {tuple(pair.expected.shape)}"
    if dtype != pair.type.dtype:
        return f"its element type is {dtype}, expected {pair.type.dtype}"
    return ""


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _first(name: str, bad: torch.Tensor, got: torch.Tensor, expected: torch.Tensor) -> Bad | None:
    if not bool(bad.any()):
        return None
    flat = int(bad.flatten().to(torch.uint8).argmax())
    index: list[int] = []
    for extent in reversed(bad.shape):
        flat, place = divmod(flat, extent)
        index.insert(0, place)
    where = tuple(index)
    return Bad(name, where, float(got[where]), float(expected[where]))
