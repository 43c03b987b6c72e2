"""The element type in which a pointwise call computes, where the importer would choose another type than PyTorch.

PyTorch promotes the operands of a call to one type, wraps whole numbers to that type, and computes with 16-bit floats
in float32, rounding once. torch-mlir mostly does the same. The exceptions become explicit casts, so that every kernel
shows the type in which it computes:

u8        unsigned, while MLIR's `i8` has a sign: computed in i16, whose low 8 bits are the right ones
i8        beside a number that is no tensor, the importer ends the process, except in comparisons: computed in i16
bool      compared with whole numbers: the importer would take True for -1
f16, bf16 in an op that is made of several, each step would round; the importer would compare f16 with bf16 in bf16
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

import torch

from workbench.ir import Ref
from workbench.operators.aten.automatic_route import COMPARISONS, POINTWISE, names
from workbench.operators.formulas.formula_builder import HALF, Builder, cast, common_type

AS_THEY_ARE: Final = names(
    "aten.where.self aten.logical_and.default aten.logical_or.default aten.logical_not.default aten._to_copy.default"
)
"""Ops whose operands keep their types: the result does not depend on a common type."""

SEVERAL_STEPS: Final = names(
    """
    aten.sigmoid.default aten.softplus.default aten.elu.default aten.hardswish.default aten.hardsigmoid.default
    aten.leaky_relu.default aten.expm1.default aten.log1p.default aten.rsqrt.default aten.pow.Tensor_Scalar
    """
)
"""Ops that the importer computes in several steps, each of which would round."""

SCALED: Final = names("aten.mul.Tensor aten.mul.Scalar aten.div.Tensor aten.div.Scalar")
"""Ops in which PyTorch keeps a number in float32 if the tensor has 16 bits."""

BITWISE: Final = names(
    "aten.bitwise_and.Tensor aten.bitwise_or.Tensor aten.bitwise_xor.Tensor aten.bitwise_not.default"
)
"""Ops that treat the sign like any other bit."""

CLAMPS: Final = names("aten.clamp.default aten.clamp_min.default aten.clamp_max.default")


def in_one_type(
    b: Builder, op: str, args: list[object], kwargs: Mapping[str, object], result: torch.dtype
) -> Ref | None:
    """The call with its operands cast to the type that it computes in; None if the importer chooses this type by
    itself."""
    if op not in POINTWISE or op in AS_THEY_ARE:
        return None
    operands: list[Any] = args
    common = common_type(b, *operands) if op in COMPARISONS else result
    found = [b.dtype(arg) for arg in args if isinstance(arg, Ref)]
    numbers = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, int | float)]
    wanted = _computed_in(op, common, found, numbers, float_needed=_loses(op, common, numbers, kwargs))
    wrapped = [_wrapped(arg, common) for arg in args]
    if all(dtype == wanted for dtype in found) and all(map(operator.is_, wrapped, args)):
        return None
    if not _odd(op, common, wanted, found) and all(map(operator.is_, wrapped, args)):
        return None
    if op in COMPARISONS and not all(isinstance(arg, Ref) for arg in args):
        op = op.replace(".Tensor", ".Scalar")
    return b(op, *(cast(b, cast(b, arg, common), wanted) if isinstance(arg, Ref) else arg for arg in wrapped), **kwargs)


def _computed_in(
    op: str, common: torch.dtype, found: list[torch.dtype], numbers: list[int | float], *, float_needed: bool
) -> torch.dtype:
    if common == torch.uint8 and (op not in BITWISE or numbers):
        return torch.int16
    beside_number = bool(numbers) and op not in COMPARISONS
    if common == torch.int8 and (beside_number or any(dtype != common for dtype in found)):
        return torch.int16
    return torch.float32 if common in HALF and (op in SEVERAL_STEPS or float_needed) else common


def _odd(op: str, common: torch.dtype, wanted: torch.dtype, found: list[torch.dtype]) -> bool:
    """True if the importer would not compute in the wanted type by itself."""
    mixed = [dtype for dtype in found if dtype != wanted]
    return (
        wanted != common
        or bool(mixed and {torch.uint8, torch.int8} & {common, *mixed})
        or bool(mixed and op in CLAMPS)
        or (op in COMPARISONS and (torch.bool in mixed or {*HALF} <= {*found}))
    )


def _loses(op: str, common: torch.dtype, numbers: list[int | float], kwargs: Mapping[str, object]) -> bool:
    """True if a 16-bit float cannot hold a number of the call exactly, or if the call has a factor `alpha`."""
    if op in SCALED:
        return common in HALF and any(float(torch.tensor(number, dtype=common)) != number for number in numbers)
    return kwargs.get("alpha", 1) != 1


def _wrapped(arg: object, common: torch.dtype) -> object:
    """An integer wrapped to the range of an integer type, as PyTorch does silently.

    A bool beside other numbers becomes 0 or 1; the importer would not convert it. Other arguments stay.
    """
    if isinstance(arg, bool) and common != torch.bool:
        return int(arg)
    if not isinstance(arg, int) or isinstance(arg, bool) or common.is_floating_point or common == torch.bool:
        return arg
    info = torch.iinfo(common)
    if info.min <= arg <= info.max:
        return arg
    return (arg - info.min) % (info.max - info.min + 1) + info.min
