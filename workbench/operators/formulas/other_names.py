"""Aliases: overloads that call another overload with the same, or nearly the same, arguments."""

from __future__ import annotations

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import is_float, renamed
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.moving import FORMULAS as MOVING
from workbench.operators.formulas.reductions import Dims, logsumexp, vector_norm

_NAMES = """
    absolute.default abs.default, arccos.default acos.default, arccosh.default acosh.default,
    arcsin.default asin.default, arcsinh.default asinh.default, arctan.default atan.default,
    arctanh.default atanh.default, arctan2.default atan2.default, negative.default neg.default,
    divide.Scalar div.Scalar, divide.Tensor div.Tensor, divide.Scalar_mode div.Scalar_mode,
    divide.Tensor_mode div.Tensor_mode, true_divide.Scalar div.Scalar, true_divide.Tensor div.Tensor,
    multiply.Scalar mul.Scalar, multiply.Tensor mul.Tensor, subtract.Scalar sub.Scalar, subtract.Tensor sub.Tensor,
    greater.Scalar gt.Scalar, greater.Tensor gt.Tensor, greater_equal.Scalar ge.Scalar, greater_equal.Tensor ge.Tensor,
    less.Scalar lt.Scalar, less.Tensor lt.Tensor, less_equal.Scalar le.Scalar, less_equal.Tensor le.Tensor,
    not_equal.Scalar ne.Scalar, not_equal.Tensor ne.Tensor, max.other maximum.default, min.other minimum.default,
    clamp_min.Tensor maximum.default, clamp_max.Tensor minimum.default,
    special_erf.default erf.default, special_exp2.default exp2.default, special_expm1.default expm1.default,
    special_expit.default sigmoid.default, special_log1p.default log1p.default, special_logit.default logit.default,
    special_softmax.default softmax.int, special_log_softmax.default log_softmax.int,
    linalg_matmul.default matmul.default
"""
"""Pairs of overloads: an alias, and the overload that PyTorch calls for it with the same arguments."""


def special_round(b: Builder, x: Ref, *, decimals: int = 0) -> Ref:
    if not decimals:
        return b("aten.round.default", x) if is_float(b, x) else x
    return b("aten.round.decimals", x, decimals=decimals)


def adjoint(b: Builder, x: Ref) -> Ref:
    """Swaps the last two dims, which is the adjoint of a real matrix."""
    return b("aten.transpose.int", x, -2, -1) if b.rank(x) > 1 else x


def reshape_as(b: Builder, x: Ref, other: Ref) -> Ref:
    return reshape(b, x, b.shape(other))


def frobenius_norm(b: Builder, x: Ref, dim: list[int], keepdim: bool = False) -> Ref:
    return vector_norm(b, x, 2, dim, keepdim)


def linalg_norm(
    b: Builder, x: Ref, ord: float | None = None, dim: Dims = None, keepdim: bool = False,
    *, dtype: torch.dtype | None = None,
) -> Ref | None:  # fmt: skip
    """The norm of all elements as a vector if there is no order, or of each vector along one dim. None for norms of
    matrices."""
    if ord is not None and not (b.rank(x) == 1 if dim is None else isinstance(dim, int) or len(dim) == 1):
        return None
    return vector_norm(b, x, ord, dim, keepdim, dtype=dtype)


def isreal(b: Builder, x: Ref) -> Ref:
    return b("aten.ones_like.default", x, dtype=torch.bool)


_PAIRS = [pair.split() for pair in _NAMES.split(",")]

FORMULAS: dict[str, Formula] = {f"aten.{alias}": renamed(f"aten.{name}") for alias, name in _PAIRS} | {
    "aten.special_round.default": special_round,
    "aten.special_logsumexp.default": logsumexp,
    "aten.adjoint.default": adjoint,
    "aten.mH.default": adjoint,
    "aten.matrix_H.default": adjoint,
    "aten.ravel.default": renamed("aten.view.default", [-1]),
    "aten.reshape_as.default": reshape_as,
    "aten.row_stack.default": MOVING["aten.vstack.default"],
    "aten.frobenius_norm.dim": frobenius_norm,
    "aten.linalg_norm.default": linalg_norm,
    "aten.isreal.default": isreal,
}
