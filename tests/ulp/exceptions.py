"""Kernels with errors above the bound, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """A reason; and the types or the kinds of rows that it is one for, without which it holds for all."""

    reason: str
    dtypes: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """Of `points.rows`: these are left out, and all others must keep the bound."""
    zeros: bool = False
    """Only the sign of zero may differ."""

    def text(self) -> str:
        where = [f"in {', '.join(self.dtypes)}"] if self.dtypes else []
        return f"{', '.join([self.reason, *where])}."


def _each(names: str, allowed: Allowed) -> dict[str, Allowed]:
    return {f"aten.{name}": allowed for name in names.split()}


_HUGE = (7, 8)
_OVERFLOW = "rows whose sum or sum of squares is beyond the largest number: PyTorch adds up in float64"

EXCEPTIONS: dict[str, Allowed] = (
    _each(
        "maximum.default minimum.default clamp.Tensor clip.Tensor fmax.default fmin.default clamp.default clip.default"
        " clamp_max.default clamp_min.default amax.default amin.default max.default min.default max.dim min.dim"
        " aminmax.default cummax.default cummin.default hardtanh.default"
        " relu.default relu6.default",
        Allowed("PyTorch leaves open whether -0.0 or 0.0 is the larger", zeros=True),
    )
    | _each(
        "softshrink.default",
        Allowed("near zero PyTorch gives 0.0, but -0.0 for the last negative elements of a tensor", zeros=True),
    )
    | _each(
        "batch_norm.default _native_batch_norm_legit_no_training.default",
        Allowed(
            "x*f - mean*f is rounded twice, PyTorch's formula once; this shows if the terms nearly cancel or overflow"
        ),
    )
    | _each(
        "_native_batch_norm_legit.no_stats _native_batch_norm_legit_functional.default group_norm.default"
        " instance_norm.default layer_norm.default",
        Allowed(f"{_OVERFLOW}, or by a running mean", rows=_HUGE),
    )
    | _each(
        "var.correction var.default var.dim std.correction std.default std.dim var_mean.correction var_mean.default"
        " var_mean.dim std_mean.correction std_mean.default std_mean.dim",
        Allowed(
            f"{_OVERFLOW}, and rows of tiny numbers, whose squares are denormal. The mean of a row with infinities"
            " is that infinity, as for `mean`; PyTorch's running mean is NaN",
            rows=(5, 6, *_HUGE, 13, 14, 18),
        ),
    )
    | _each(
        "cumsum.default",
        Allowed("rows whose partial sums are beyond the largest number: PyTorch adds them up in float64", rows=_HUGE),
    )
    | _each(
        "cosine_similarity.default",
        Allowed("rows whose products overflow before the division: PyTorch gives 0", rows=_HUGE),
    )
    | _each(
        "cumprod.default",
        Allowed(
            "the scan goes up and down the row by powers of two and rounds each product to the type; PyTorch goes"
            " from left to right, for f32 in float64"
        ),
    )
    | _each(
        "lerp.Scalar addcdiv.default logaddexp2.default",
        Allowed("a result that underflows to zero loses its sign; PyTorch keeps it", zeros=True),
    )
)
"""By overload."""


def ignores_zeros(overload: str) -> bool:
    return overload in EXCEPTIONS and EXCEPTIONS[overload].zeros


def rows_left_out(overload: str) -> tuple[int, ...]:
    return EXCEPTIONS[overload].rows if overload in EXCEPTIONS else ()


def allowed(overload: str, dtype: str) -> bool:
    """True if the bound need not hold at all."""
    found = EXCEPTIONS.get(overload)
    return found is not None and not found.rows and not found.zeros and dtype in (found.dtypes or (dtype,))
