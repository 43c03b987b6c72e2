"""One operator in one type: its kernel's results and PyTorch's, beside the true ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch

import workbench as wb
from tests.ulp import points
from tests.ulp.exactly import exact
from tests.ulp.exceptions import allowed, ignores_zeros, rows_left_out
from tests.ulp.measure import Error, Exact, error, unit
from tests.ulp.overload_calls import Call, calls
from workbench.ground.errors import HostRoute, WorkbenchError

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
ALL = 2**16
"""Points of each operator; a 16-bit type has no more than 65,536."""
EXACT = 1_500
"""Points in f64, where each true result takes a computation with many digits."""


@dataclass(frozen=True)
class Found:
    """The result of sweeping one operator in one type."""

    overload: str
    dtype: str
    points: int
    ours: float
    native: float
    """The largest errors, in units."""
    classes: int
    """Number of results whose NaN, infinity or sign of zero is neither the true result's nor PyTorch's."""
    worst: str
    """The call at which ours is furthest off, or of another class."""

    @property
    def bound(self) -> float:
        return 4 * self.native + 1

    @property
    def within(self) -> bool:
        return self.ours <= self.bound and not self.classes

    @property
    def excepted(self) -> bool:
        """True if it is beyond the bound, and the reason is known."""
        return not self.within and allowed(self.overload, self.dtype)

    @property
    def ok(self) -> bool:
        return self.within or self.excepted


def inputs(call: Call, dtype: torch.dtype, count: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """The points of a call."""
    if call.reduces:
        return tuple(points.rows(dtype, seed + turn) for turn in range(call.tensors))
    if dtype == torch.float64:
        count = min(count, EXACT)
    if call.tensors == 1:
        return (points.single(dtype, count, seed),)
    return points.several(dtype, call.tensors, count, seed)


def sweep(call: Call, dtype: str, count: int = ALL, seed: int = 0) -> Found | None:
    """None where PyTorch does not take the type, or computes it on the host."""
    given = inputs(call, DTYPES[dtype], count, seed)
    try:
        with torch.no_grad():
            native = call(*given)
    except (RuntimeError, NotImplementedError):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", HostRoute)
        if call.of_everything:  # one kernel, run on each row
            journey = wb.trace(call.once, *(each[0].clone() for each in given), machine="tpu-v3")
            made = call.by_row(lambda *rows: journey.run(*(row.clone() for row in rows)), given)
        else:
            made = wb.trace(call, *given, machine="tpu-v3").run(*given)
    return compared(call, dtype, given, made, native)


def swept(asked: tuple[str, str]) -> Found | None:
    """The sweep of an overload and a type by their names."""
    overload, dtype = asked
    (call,) = calls([overload])
    try:
        return sweep(call, dtype)
    except (WorkbenchError, HostRoute) as error:
        return Found(overload, dtype, 0, math.inf, 0.0, 0, f"it has no result: {error}")


def compared(
    call: Call, dtype: str, given: Sequence[torch.Tensor], made: Sequence[torch.Tensor], native: Sequence[torch.Tensor]
) -> Found:
    ours = theirs = Error(0.0, 0)
    said, other = "", 0
    for place, (mine, own) in enumerate(zip(made, native, strict=True)):
        true = _true(call, given, place, native)
        mine, own = (_without(each, true, rows_left_out(call.overload)) for each in (mine, own))
        if ignores_zeros(call.overload):
            mine = torch.where((mine == 0) & (own == 0), own, mine)
        units = _units(call, given, place, mine, true)
        found, beside = error(mine, own, true, units), error(own, own, true, units)
        if found.worst > ours.worst or (found.classes and not other):
            where = found.class_place if found.classes else found.place
            said = _said(call, given, place, where, mine, own, true)
        other += found.classes
        ours = max(ours, found, key=lambda each: each.worst)
        theirs = max(theirs, beside, key=lambda each: each.worst)
    return Found(call.overload, dtype, given[0].numel(), ours.worst, theirs.worst, other, said)


def _without(made: torch.Tensor, true: Exact, rows: Sequence[int]) -> torch.Tensor:
    """The results with the true ones for these rows; a leading dim of one is that of a batch."""
    if not rows:
        return made
    kept, rounded = made.clone(), true.high.to(made.dtype)
    by_row, other = (kept, rounded) if made.shape[0] != 1 else (kept[0], rounded[0])
    by_row[list(rows)] = other[list(rows)]
    return kept


def _true(call: Call, given: Sequence[torch.Tensor], place: int, native: Sequence[torch.Tensor]) -> Exact:
    if given[0].dtype == torch.float64:
        per_variant = len(native) // len(call.variants)
        variant, result = divmod(place, per_variant)
        made = exact(call.overload, given, call.variants[variant], native[place], result)
        if made is not None:
            return made
        return Exact(native[place].double())
    with torch.no_grad():
        return Exact(call(*(each.double() for each in given))[place].double())


def _units(call: Call, given: Sequence[torch.Tensor], place: int, mine: torch.Tensor, true: Exact) -> torch.Tensor:
    if not mine.is_floating_point():
        return torch.ones(())
    size = true.high.abs()
    if call.unit == "row":
        x = given[0].double()
        largest = x.abs().amax(-1, keepdim=True)
        size = (largest / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()).expand_as(x).reshape(size.shape)
    elif call.unit == "terms":
        with torch.no_grad():
            size = torch.maximum(call(*(each.double().abs() for each in given))[place].double(), size)
    return unit(mine.dtype, size)


def _said(
    call: Call,
    given: Sequence[torch.Tensor],
    place: int,
    where: int,
    mine: torch.Tensor,
    own: torch.Tensor,
    true: Exact,
) -> str:
    variant = call.variants[place * len(call.variants) // max(1, _results(call, given))]
    numbers = ", ".join(f"{key}={value}" for key, value in variant.items() if key not in ("dim",))
    if call.reduces:
        row = where // max(1, mine.numel() // given[0].shape[0])
        at = f"row {row}"
    else:
        spot = where % given[0].numel()
        at = ", ".join(repr(float(each.flatten()[spot])) for each in given)
    values = [float(each.flatten()[where]) for each in (mine, own, true.high)]
    shown = [f"{value:.9g}" if math.isfinite(value) else str(value) for value in values]
    return f"({at}{', ' if numbers else ''}{numbers}): {shown[0]}, PyTorch {shown[1]}, true {shown[2]}"


def _results(call: Call, given: Sequence[torch.Tensor]) -> int:
    with torch.no_grad():
        return len(call(*(each[:2] for each in given)))
