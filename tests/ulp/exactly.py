"""True results of doubles, from mpmath with many digits: one function for each operator that is not exact already.

Where an argument is no number or infinite, or the result is zero, PyTorch's own answer stands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from mpmath import libmp, mp, mpf

from tests.ulp.measure import Exact

mp.prec = 240
_FAR = mpf(2) ** 12
"""Beyond this the exponential of a number is beyond all doubles, or below."""

Real = Any
Function = Callable[..., Real]


def _exp(x: Real) -> Real:
    return mp.exp(max(min(x, _FAR), -_FAR))


def _expm1(x: Real) -> Real:
    return mp.expm1(max(min(x, _FAR), -_FAR))


def _erfc(x: Real) -> Real:
    return mp.erfc(max(min(x, mpf(60)), mpf(-60)))


def _power(x: Real, y: Real) -> Real:
    if x == 0 or y == 0:
        raise ValueError
    whole = y == mp.floor(y)
    if x < 0 and not whole:
        raise ValueError
    size = _exp(y * mp.log(abs(x)))
    return -size if x < 0 and int(y) % 2 else size


def _softplus(x: Real, beta: float = 1, threshold: float = 20) -> Real:
    return x if x * beta > min(threshold, _FAR) else mp.log1p(_exp(x * beta)) / beta


def _tanh(x: Real) -> Real:
    return mp.tanh(max(min(x, _FAR), -_FAR))


def _sigmoid(x: Real) -> Real:
    return 1 / (1 + _exp(-x))


def _log_of_sum(x: Real, y: Real, base: Real = mp.e) -> Real:
    large, small = max(x, y), min(x, y)
    return large + mp.log1p(_exp((small - large) * mp.log(base))) / mp.log(base)


def _gelu(x: Real, approximate: str = "none") -> Real:
    if approximate == "tanh":
        return x / 2 * (1 + _tanh(mp.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3)))
    return x / 2 * _erfc(-x / mp.sqrt(2))


def _elu(x: Real, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Real:
    return scale * x if x > 0 else scale * alpha * _expm1(x * input_scale)


def _celu(x: Real, alpha: float = 1) -> Real:
    return x if x > 0 else alpha * _expm1(x / alpha)


def _logit(x: Real, eps: float | None = None) -> Real:
    x = x if eps is None else min(max(x, mpf(eps)), 1 - mpf(eps))
    return mp.log(x / (1 - x))


def _sinc(x: Real) -> Real:
    return mpf(1) if x == 0 else mp.sinpi(x) / (mp.pi * x)


def _remainder(x: float, y: float) -> float:
    """With the divisor's sign; exact, unless a tiny negative one is taken from a large divisor."""
    left = math.fmod(x, y)
    return left + y if left and (left < 0) != (y < 0) else left


_SELU = mpf("1.0507009873554804934193349852946"), mpf("1.6732632423543772848170429916717")

POINTWISE: dict[str, Function] = {
    "exp": _exp, "exp2": lambda x: _exp(x * mp.ln2), "expm1": _expm1, "log": mp.log, "log2": lambda x: mp.log(x, 2),
    "log10": lambda x: mp.log(x, 10), "log1p": mp.log1p, "sqrt": mp.sqrt, "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin, "acos": mp.acos, "atan": mp.atan,
    "sinh": lambda x: (_exp(x) - _exp(-x)) / 2 if abs(x) > 1 else mp.sinh(x),
    "cosh": lambda x: (_exp(x) + _exp(-x)) / 2,
    "tanh": _tanh, "asinh": mp.asinh, "acosh": mp.acosh, "atanh": mp.atanh, "atan2": mp.atan2,
    "erf": lambda x: mp.erf(max(min(x, mpf(60)), mpf(-60))), "erfc": _erfc, "special_erfc": _erfc,
    "sigmoid": _sigmoid, "silu": lambda x: x * _sigmoid(x), "softplus": _softplus,
    "mish": lambda x: x * _tanh(_softplus(x, threshold=math.inf)),
    "log_sigmoid": lambda x: -_softplus(-x, threshold=math.inf),
    "gelu": _gelu, "elu": _elu, "celu": _celu, "selu": lambda x: _SELU[0] * _elu(x, alpha=_SELU[1]),
    "logit": _logit, "sinc": _sinc, "special_sinc": _sinc, "glu": lambda x, y: x * _sigmoid(y),
    "logaddexp": _log_of_sum, "logaddexp2": lambda x, y: _log_of_sum(x, y, mpf(2)),
    "hypot": mp.hypot, "xlogy": lambda x, y: x * mp.log(y), "special_xlogy": lambda x, y: x * mp.log(y),
    "pow": lambda *x, exponent=None, base=None: _power(*([mpf(base)] if base is not None else []), *x, *(
        [mpf(exponent)] if exponent is not None else [])),
    "addcmul": lambda x, y, z: x + y * z, "addcdiv": lambda x, y, z: x + y / z, "add": lambda x, other: x + other,
    "lerp": lambda x, y, weight: x + mpf(weight) * (y - x), "reciprocal": lambda x: 1 / x, "square": lambda x: x * x,
    "deg2rad": lambda x: x * mp.pi / 180, "rad2deg": lambda x: x * 180 / mp.pi,
    "fmod": lambda x, other: math.fmod(float(x), float(other)),
    "remainder": lambda x, other=None, dividend=None: (
        _remainder(dividend, float(x)) if other is None else _remainder(float(x), float(other))
    ),
    "batch_norm": lambda x, mean, var: (x - mean) / mp.sqrt(var + mpf(1e-5)),
    "_native_batch_norm_legit_no_training": lambda x, mean, var: (x - mean) / mp.sqrt(var + mpf(1e-5)),
    "hardsigmoid": lambda x: min(max(x + 3, mpf(0)), mpf(6)) / 6,
    "hardswish": lambda x: x * min(max(x + 3, mpf(0)), mpf(6)) / 6,
}  # fmt: skip
"""By the name of the operator; of its tensors' numbers, and its plain arguments by name."""


def _mean(row: Sequence[Real]) -> Real:
    return mp.fsum(row) / len(row)


def _variance(row: Sequence[Real], correction: float = 1) -> Real:
    middle = _mean(row)
    return mp.fsum((x - middle) ** 2 for x in row) / (len(row) - correction)


def _norm(row: Sequence[Real], order: float | None = 2) -> Real:
    order = 2 if order is None else order
    if order in (math.inf, -math.inf, 0):
        raise ValueError
    total = mp.fsum(abs(x) ** mpf(order) for x in row)
    return mp.root(total, 2) if order == 2 else total ** (1 / mpf(order))


def _logsumexp(row: Sequence[Real]) -> Real:
    largest = max(row)
    return largest + mp.log(mp.fsum(_exp(x - largest) for x in row))


REDUCTIONS: dict[str, Function] = {
    "sum": mp.fsum, "nansum": mp.fsum, "mean": _mean, "prod": mp.fprod, "logsumexp": _logsumexp,
    "var": lambda row, correction=1: _variance(row, correction),
    "std": lambda row, correction=1: mp.sqrt(_variance(row, correction)),
    "linalg_vector_norm": lambda row, ord=2: _norm(row, ord), "norm": lambda row, p=2: _norm(row, p),
}  # fmt: skip


def _distance(left: Sequence[Real], right: Sequence[Real], p: float = 2) -> Real:
    return _norm([x - y for x, y in zip(left, right, strict=True)], p)


def _pairwise(left: Sequence[Real], right: Sequence[Real], p: float = 2) -> Real:
    return _norm([x - y + mpf(1e-6) for x, y in zip(left, right, strict=True)], p)


def _cosine(left: Sequence[Real], right: Sequence[Real]) -> Real:
    lengths = [max(_norm(each), mpf(1e-8)) for each in (left, right)]
    return mp.fsum(x * y for x, y in zip(left, right, strict=True)) / (lengths[0] * lengths[1])


OF_TWO: dict[str, Function] = {"dist": _distance, "pairwise_distance": _pairwise, "cosine_similarity": _cosine}
"""Reductions of two rows."""


def _softmax(row: Sequence[Real]) -> list[Real]:
    largest = max(row)
    parts = [_exp(x - largest) for x in row]
    total = mp.fsum(parts)
    return [part / total for part in parts]


def _log_softmax(row: Sequence[Real]) -> list[Real]:
    total = _logsumexp(row)
    return [x - total for x in row]


def _running(join: Function) -> Function:
    return lambda row: list(itertools.accumulate(row, join))


def _log_of_sums(row: Sequence[Real]) -> list[Real]:
    """Of each beginning of the row."""
    largest, total, found = max(row), mpf(0), list[Real]()
    for x in row:
        total += _exp(x - largest)
        found.append(largest + mp.log(total))
    return found


def _normalised(row: Sequence[Real]) -> list[Real]:
    middle, spread = _mean(row), mp.sqrt(_variance(row, 0) + mpf(1e-5))
    return [(x - middle) / spread for x in row]


def _rms(row: Sequence[Real]) -> list[Real]:
    spread = mp.sqrt(_mean([x * x for x in row]) + mpf(torch.finfo(torch.float64).eps))
    return [x / spread for x in row]


ROWS: dict[str, Function] = {
    "softmax": _softmax, "_softmax": _softmax, "log_softmax": _log_softmax, "_log_softmax": _log_softmax,
    "logcumsumexp": _log_of_sums,
    "cumsum": _running(lambda total, x: total + x),
    "cumprod": _running(lambda total, x: total * x),
    "layer_norm": _normalised, "group_norm": _normalised, "instance_norm": _normalised,
    "_native_batch_norm_legit": _normalised, "_native_batch_norm_legit_functional": _normalised, "rms_norm": _rms,
}  # fmt: skip

_IGNORED = ("dim", "half_to_float", "normalized_shape")


PAIRS = {"var_mean": ("var", "mean"), "std_mean": ("std", "mean"), "aminmax": ("", "")}
"""Which reductions the two results of some are."""


def exact(
    overload: str, tensors: Sequence[torch.Tensor], numbers: Any, native: torch.Tensor, result: int = 0
) -> Exact | None:
    """The true results of one call, or None where mpmath is not asked; `result` counts those of one call."""
    name = overload.split(".")[1]
    if name in PAIRS:
        name = PAIRS[name][result]
        numbers = numbers if result == 0 else {}
    numbers = {key: value for key, value in numbers.items() if key not in _IGNORED}
    if name in POINTWISE and native.numel() == tensors[0].numel():
        given = zip(*(each.flatten().tolist() for each in tensors), strict=True)
        return _exact([_or_native(POINTWISE[name], values, numbers) for values in given], native)
    if name in OF_TWO:
        pairs = zip(*(each.tolist() for each in tensors), strict=True)
        given = [_or_native(_of_halves(OF_TWO[name]), [*left, *right], numbers, whole=True) for left, right in pairs]
        return _exact(given, native)
    if name in REDUCTIONS and len(tensors) == 1:
        return _exact([_or_native(REDUCTIONS[name], row, numbers, whole=True) for row in tensors[0].tolist()], native)
    if name in ROWS and len(tensors) == 1:
        found: list[Real] = []
        for row in tensors[0].tolist():
            made = _or_native(ROWS[name], row, {}, whole=True)
            found += [None] * len(row) if made is None else made
        return _exact(found, native)
    return None


def _of_halves(function: Function) -> Function:
    """A function of two rows as one of both, one behind the other."""
    return lambda row, **numbers: function(row[: len(row) // 2], row[len(row) // 2 :], **numbers)


def _or_native(function: Function, values: Sequence[float], numbers: Any, *, whole: bool = False) -> Real:
    """The function's value; None where it is PyTorch's that stands."""
    if not all(map(math.isfinite, values)):
        return None
    given = [mpf(value) for value in values]
    try:
        return function(given, **numbers) if whole else function(*given, **numbers)
    except (ValueError, ZeroDivisionError, OverflowError, libmp.ComplexResult, TypeError):
        return None


def _exact(found: Sequence[Real], native: torch.Tensor) -> Exact:
    high, low = native.double().flatten().clone(), torch.zeros(native.numel(), dtype=torch.float64)
    for place, value in enumerate(found):
        if isinstance(value, float):  # exact, and a zero has its sign
            high[place] = value
        if value == 0 and high[place] != 0:  # else the sign is PyTorch's
            high[place] = 0.0
        elif isinstance(value, mpf) and value != 0 and mp.isfinite(value):
            high[place] = float(value)
            low[place] = float(value - mpf(float(high[place]))) if math.isfinite(high[place]) else 0.0
    return Exact(high.reshape(native.shape), low.reshape(native.shape))
