# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""Index arithmetic of hand-written kernels, evaluated while the tile program is extracted.

Every function takes integers or arrays of integers: the innermost loop of unstaged accesses is evaluated for all its
iterations at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir

Number: TypeAlias = Any
"""An `int`, a `bool`, or an array of either."""


def _truncated_divide(left: Number, right: Number) -> Number:
    quotient: Number = abs(left) // abs(right)
    return _select((left < 0) != (right < 0), -quotient, quotient)


def _truncated_remainder(left: Number, right: Number) -> Number:
    return left - _truncated_divide(left, right) * right


def smaller(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):  # the usual case, and much faster
        return min(left, right)
    return np.minimum(left, right)


def larger(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return np.maximum(left, right)


def _select(condition: Number, then: Number, otherwise: Number) -> Number:
    return np.where(condition, then, otherwise) if np.ndim(condition) else (then if condition else otherwise)


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    **dict.fromkeys(("addi", "add"), operator.add),
    **dict.fromkeys(("subi", "sub"), operator.sub),
    **dict.fromkeys(("muli", "mul"), operator.mul),
    **dict.fromkeys(("floordivsi", "floordivs", "divui", "divu"), operator.floordiv),
    **dict.fromkeys(("ceildivsi", "ceildivui", "ceildivs", "ceildivu"), lambda left, right: -(-left // right)),
    **dict.fromkeys(("divsi", "divs"), _truncated_divide),
    **dict.fromkeys(("remsi", "rems"), _truncated_remainder),
    **dict.fromkeys(("remui", "remu"), operator.mod),
    **dict.fromkeys(("minsi", "minui", "mins", "minu"), smaller),
    **dict.fromkeys(("maxsi", "maxui", "maxs", "maxu"), larger),
    **dict.fromkeys(("andi", "and"), operator.and_),
    **dict.fromkeys(("ori", "or"), operator.or_),
    **dict.fromkeys(("xori", "xor"), operator.xor),
    **dict.fromkeys(("shli", "shl"), operator.lshift),
    **dict.fromkeys(("shrsi", "shrs"), operator.rshift),
    **dict.fromkeys(("index_cast", "index_castui", "casts", "castu", "extsi", "extui", "trunci"), lambda value: value),
    "select": _select,
}

_COMPARISONS: tuple[Callable[[Number, Number], Number], ...] = (
    *(operator.eq, operator.ne),
    *(operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.lt, operator.le, operator.gt, operator.ge),
)
"""`arith.cmpi`'s predicates by number: equal, not equal, four signed, four unsigned. Indices are never negative."""


def scalar_function(op: ir.Operation) -> Callable[..., Number] | None:
    """The function that an index or arith op applies to its operands' values; None for an op on other types."""
    if op.name == "arith.cmpi":
        return _COMPARISONS[ir.IntegerAttr(op.attributes["predicate"]).value]
    dialect, _, name = op.name.partition(".")
    if dialect not in ("arith", "index") or not _whole(op):
        return None
    return _FUNCTIONS.get(name)


def _whole(op: ir.Operation) -> bool:
    """True if every result is an index or an integer."""
    return all(isinstance(result.type, (ir.IndexType, ir.IntegerType)) for result in op.results)
