"""The functions of `arith` and `math` ops in numpy: an independent reading of the bodies that run natively.

Values of MLIR types are numpy arrays: floats and integers of the same width, `i1` as bool, `index` as int64, and
`bf16` as float32 that is rounded to bf16 after every op, because numpy has no such type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Element:
    """An MLIR scalar type, with the numpy types of its values in computations and in memory."""

    name: str
    values: np.dtype[Any]
    memory: np.dtype[Any]

    def from_memory(self, raw: Array) -> Array:
        if self.name == "bf16":
            return (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(self.values)

    def to_memory(self, values: Array) -> Array:
        if self.name == "bf16":
            return (self.rounded(values).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(self.memory)

    def rounded(self, values: Array) -> Array:
        """Values as this type can hold them; bf16 keeps the upper half of a float, rounded to nearest even."""
        held = np.asarray(values, self.values)
        if self.name != "bf16":
            return held
        bits = held.view(np.uint32)
        even = bits + 0x7FFF + ((bits >> 16) & 1)
        return np.where(np.isnan(held), held, (even & 0xFFFF0000).astype(np.uint32).view(np.float32))


def _element(name: str, values: npt.DTypeLike, memory: npt.DTypeLike | None = None) -> Element:
    return Element(name, np.dtype(values), np.dtype(values if memory is None else memory))


ELEMENTS: dict[str, Element] = {
    "f64": _element("f64", np.float64),
    "f32": _element("f32", np.float32),
    "f16": _element("f16", np.float16),
    "bf16": _element("bf16", np.float32, np.uint16),
    "i64": _element("i64", np.int64),
    "i32": _element("i32", np.int32),
    "i16": _element("i16", np.int16),
    "i8": _element("i8", np.int8),
    "i1": _element("i1", np.bool_),
    "index": _element("index", np.int64),
}


def _signed(values: Array) -> Array:
    """Integers as signed ones: a true i1 is -1, since its one bit is a sign."""
    return -values.astype(np.int8) if values.dtype == np.bool_ else values


def _unsigned(values: Array) -> Array:
    return values.astype(np.uint8) if values.dtype == np.bool_ else values.view(f"u{values.dtype.itemsize}")


def _on(view: Callable[[Array], Array], function: Function) -> Function:
    def converted(*operands: Array) -> Array:
        return function(*(view(operand) for operand in operands))

    return converted


def _divide(a: Array, b: Array) -> Array:
    """Integer division that rounds towards zero."""
    return (a - np.fmod(a, b)) // b


def _wrapping(function: Function) -> Function:
    """Makes the addition or subtraction of one-bit integers wrap, since numpy's bools would saturate."""

    def wrapped(a: Array, b: Array) -> Array:
        return np.logical_xor(a, b) if a.dtype == np.bool_ else function(a, b)

    return wrapped


def _one_by_one(function: Callable[[float], float]) -> Function:
    over_objects = np.frompyfunc(function, 1, 1)

    def over_array(values: Array) -> Array:
        return np.asarray(over_objects(values.astype(np.float64)), np.float64)

    return over_array


def _same(values: Array) -> Array:
    return values


def _divide_up(a: Array, b: Array) -> Array:
    return -np.floor_divide(-a, b)


def _round_half_away(values: Array) -> Array:
    return np.trunc(values + np.copysign(0.5, values))


def _reciprocal_root(values: Array) -> Array:
    return 1 / np.sqrt(values)


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


FUNCTIONS: dict[str, Function] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.negf": np.negative,
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.addi": _wrapping(np.add), "arith.subi": _wrapping(np.subtract), "arith.muli": np.multiply,
    "arith.divsi": _on(_signed, _divide), "arith.divui": _on(_unsigned, np.floor_divide),
    "arith.remsi": _on(_signed, np.fmod), "arith.remui": _on(_unsigned, np.remainder),
    "arith.floordivsi": _on(_signed, np.floor_divide),
    "arith.ceildivsi": _on(_signed, _divide_up),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift, "arith.shrui": _on(_unsigned, np.right_shift),
    "arith.maxsi": _on(_signed, np.maximum), "arith.minsi": _on(_signed, np.minimum),
    "arith.maxui": _on(_unsigned, np.maximum), "arith.minui": _on(_unsigned, np.minimum),
    "arith.select": np.where,
    "arith.extf": _same, "arith.truncf": _same,
    "arith.sitofp": _signed, "arith.uitofp": _unsigned, "arith.fptosi": np.trunc, "arith.fptoui": np.trunc,
    "arith.extsi": _signed, "arith.extui": _unsigned, "arith.trunci": _same,
    "arith.index_cast": _signed, "arith.index_castui": _unsigned,
    "math.absf": np.abs, "math.absi": np.abs, "math.ceil": np.ceil, "math.floor": np.floor, "math.trunc": np.trunc,
    "math.roundeven": np.rint, "math.round": _round_half_away,
    "math.copysign": np.copysign, "math.fma": _multiply_add,
    "math.exp": np.exp, "math.exp2": np.exp2, "math.expm1": np.expm1, "math.log": np.log, "math.log2": np.log2,
    "math.log10": np.log10, "math.log1p": np.log1p, "math.sqrt": np.sqrt, "math.rsqrt": _reciprocal_root,
    "math.cbrt": np.cbrt, "math.powf": np.power, "math.fpowi": np.power, "math.ipowi": np.power,
    "math.sin": np.sin, "math.cos": np.cos, "math.tan": np.tan, "math.asin": np.arcsin, "math.acos": np.arccos,
    "math.atan": np.arctan, "math.atan2": np.arctan2, "math.sinh": np.sinh, "math.cosh": np.cosh,
    "math.tanh": np.tanh, "math.asinh": np.arcsinh, "math.acosh": np.arccosh, "math.atanh": np.arctanh,
    "math.erf": _one_by_one(math.erf), "math.erfc": _one_by_one(math.erfc),
    "math.isnan": np.isnan, "math.isinf": np.isinf, "math.isfinite": np.isfinite,
}  # fmt: skip
"""Each op's function on arrays; the caller converts the result to the op's result type."""


def _beside_nan(answer: bool, relation: Function) -> Function:
    """A comparison of floats that returns `answer` if an operand is NaN."""

    def compared(a: Array, b: Array) -> Array:
        return np.where(np.isnan(a) | np.isnan(b), answer, relation(a, b))

    return compared


def _always(answer: bool) -> Function:
    def compared(a: Array, b: Array) -> Array:
        return np.full(np.broadcast_shapes(a.shape, b.shape), answer)

    return compared


_RELATIONS: tuple[Function, ...] = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)

FLOAT_COMPARISONS: tuple[Function, ...] = (
    _always(False),
    *(_beside_nan(False, relation) for relation in (*_RELATIONS, _always(True))),
    *(_beside_nan(True, relation) for relation in (*_RELATIONS, _always(False))),
    _always(True),
)
"""The comparison for each predicate number of `arith.cmpf`."""

INTEGER_COMPARISONS: tuple[Function, ...] = (
    np.equal,
    np.not_equal,
    *(_on(_signed, function) for function in (np.less, np.less_equal, np.greater, np.greater_equal)),
    *(_on(_unsigned, function) for function in (np.less, np.less_equal, np.greater, np.greater_equal)),
)
"""The comparison for each predicate number of `arith.cmpi`."""

COMBINERS: dict[str, np.ufunc] = {
    "arith.addf": np.add, "arith.mulf": np.multiply,
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.addi": np.add, "arith.muli": np.multiply, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
}  # fmt: skip
"""Ops that may fold a reduction in any grouping, each with the numpy function that reduces a whole axis."""
