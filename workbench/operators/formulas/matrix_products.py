"""Products of matrices, through `mm` and `bmm`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from workbench.ir import Ref
from workbench.operators.aten import extra_ops
from workbench.operators.formulas.formula_builder import Builder, Formula, cast
from workbench.operators.formulas.layout_changes import contiguous, reshape
from workbench.operators.tensors.element_types import to_dtype

SUMS: Mapping[str, torch.dtype] = {
    "f16": torch.float32,
    "bf16": torch.float32,
    "i8": torch.int32,
    "u8": torch.int32,
}
"""The type of a product's sums where it is not that of its factors. PyTorch rounds, or cuts off, the last one only."""


def product(b: Builder, x: Ref, y: Ref) -> Ref:
    """The product of two matrices, or of two batches, in the type of its sums."""
    sums = SUMS.get(b.type(x).dtype)
    if sums is not None:
        return b(extra_ops.MATMUL, x, y, sums)
    return b("aten.bmm.default" if b.rank(x) == 3 else "aten.mm.default", x, y)


def mm(b: Builder, x: Ref, y: Ref) -> Ref | None:
    return product(b, x, y) if b.type(x).dtype in SUMS else None


def mm_as(b: Builder, x: Ref, y: Ref, dtype: torch.dtype) -> Ref:
    return b(extra_ops.MATMUL, x, y, dtype)


def int_mm(b: Builder, x: Ref, y: Ref) -> Ref:
    return mm_as(b, x, y, torch.int32)


def linear(b: Builder, x: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    """Rows times the transposed weight; more than one leading dim is flattened around the product."""
    if b.rank(weight) == 1:
        made = matmul(b, x, weight)
        return made if bias is None else b("aten.add.Tensor", made, bias)
    lead, flat = list(b.type(x).shape[:-1]), x
    if b.rank(x) != 2:
        flat = b("aten.view.default", contiguous(b, x), [math.prod(lead), b.type(x).shape[-1]])
    made = product(b, flat, b("aten.permute.default", weight, [1, 0]))
    if bias is not None:
        made = b("aten.add.Tensor", made, bias)
    made = cast(b, made, to_dtype(b.type(x).dtype))  # before a view, behind which nothing fuses
    return made if b.rank(x) == 2 else b("aten.view.default", made, [*lead, b.type(made).shape[-1]])


def addmm(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    """Of two matrices, or of a batch of pairs."""
    return _plus(b, c, product(b, x, y), beta, alpha)


def addbmm(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    """The products of a batch, added up: one product of the matrices beside each other."""
    batch, rows, inner = b.type(x).shape
    x = reshape(b, b("aten.permute.default", x, [1, 0, 2]), [rows, batch * inner])
    return addmm(b, c, x, reshape(b, y, [batch * inner, b.type(y).shape[2]]), beta=beta, alpha=alpha)


def trace(b: Builder, x: Ref) -> Ref:
    return b("aten.sum.dim_IntList", b("aten.diagonal.default", x), [0], False)


def factors(b: Builder, c: Ref, *numbers: float) -> list[float]:
    """Factors of a product as its type holds them: PyTorch cuts the fraction off beside whole numbers."""
    return list(numbers) if to_dtype(b.type(c).dtype).is_floating_point else list(map(int, numbers))


def _plus(b: Builder, c: Ref, product: Ref, beta: float, alpha: float) -> Ref:
    beta, alpha = factors(b, c, beta, alpha)
    if alpha != 1:
        product = b("aten.mul.Tensor", product, alpha)
    if beta == 0:
        return product
    return b("aten.add.Tensor", product, c if beta == 1 else b("aten.mul.Tensor", c, beta))


def matmul(b: Builder, x: Ref, y: Ref) -> Ref:
    """`mm` for two matrices; vectors become matrices of one row or column; batches are broadcast and flattened."""
    x_rank, y_rank = b.rank(x), b.rank(y)
    left = b("aten.unsqueeze.default", x, 0) if x_rank == 1 else x
    right = b("aten.unsqueeze.default", y, 1) if y_rank == 1 else y
    made = _matrices(b, left, right)
    if y_rank == 1:
        made = b("aten.squeeze.dim", made, -1)
    return b("aten.squeeze.dim", made, -2 if y_rank > 1 else -1) if x_rank == 1 else made


def _matrices(b: Builder, x: Ref, y: Ref) -> Ref:
    x_shape, y_shape = b.type(x).shape, b.type(y).shape
    if len(x_shape) == 2 and len(y_shape) == 2:
        return b("aten.mm.default", x, y)
    if len(y_shape) == 2:  # one matrix for the whole batch: its rows can all go through one product
        flat = b("aten.view.default", contiguous(b, x), [math.prod(x_shape[:-1]), x_shape[-1]])
        return b("aten.view.default", b("aten.mm.default", flat, y), [*x_shape[:-1], y_shape[-1]])
    batch = broadcast(x_shape[:-2], y_shape[:-2])
    left = _batched(b, x, batch)
    made = b("aten.bmm.default", left, _batched(b, y, batch))
    return made if len(batch) == 1 else b("aten.view.default", made, [*batch, x_shape[-2], y_shape[-1]])


def broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> list[int]:
    """Two shapes aligned at their ends, extents of one giving way."""
    rank = max(len(x), len(y))
    pairs = zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True)
    return [n if m == 1 else m for m, n in pairs]


def _batched(b: Builder, x: Ref, batch: list[int]) -> Ref:
    """`x` broadcast to `batch`, its batch dims flattened into one: a view where strides allow, else a copy."""
    rows, columns = b.type(x).shape[-2:]
    if list(b.type(x).shape) != [*batch, rows, columns]:
        x = b("aten.expand.default", x, [*batch, rows, columns])
    return x if len(batch) == 1 else reshape(b, x, [math.prod(batch), rows, columns])


def mv(b: Builder, x: Ref, y: Ref) -> Ref:
    return matmul(b, x, y)


FORMULAS: dict[str, Formula] = {
    "aten.mm.default": mm,
    "aten.mm.dtype": mm_as,
    "aten.bmm.default": mm,
    "aten.bmm.dtype": mm_as,
    "aten._int_mm.default": int_mm,
    "aten.linear.default": linear,
    "aten.addmm.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.addbmm.default": addbmm,
    "aten.trace.default": trace,
    "aten.matmul.default": matmul,
    "aten.mv.default": mv,
    "aten.dot.default": mv,
}
