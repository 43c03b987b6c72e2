"""Products of matrices, through `mm` and `bmm`, and `einsum`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from workbench.ir import Ref
from workbench.operators.aten import extra_ops
from workbench.operators.formulas.arithmetic import renamed
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.operators.formulas.layout_changes import contiguous, expanded, reshape

SUMS: Mapping[str, torch.dtype] = {
    "f16": torch.float32,
    "bf16": torch.float32,
    "i8": torch.int32,
    "u8": torch.int32,
}
"""The type of a product's sums where it differs from the type of the factors. PyTorch rounds or truncates only the
final sum."""


def product(b: Builder, x: Ref, y: Ref) -> Ref:
    """The product of two matrices, or of two batches, in the type of its sums."""
    sums = SUMS.get(b.type(x).dtype)
    if sums is not None:
        return b(extra_ops.MATMUL, x, y, sums)
    return b("aten.bmm.default" if b.rank(x) == 3 else "aten.mm.default", x, y)


def mm(b: Builder, x: Ref, y: Ref) -> Ref | None:
    return product(b, x, y) if b.type(x).dtype in SUMS else None


def linear(b: Builder, x: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    """Rows times the transposed weight; more than one leading dim is flattened around the product."""
    if b.rank(weight) == 1:
        result = matmul(b, x, weight)
        return result if bias is None else b("aten.add.Tensor", result, bias)
    lead, flat = b.shape(x)[:-1], x
    if b.rank(x) != 2:
        flat = b("aten.view.default", contiguous(b, x), [math.prod(lead), b.type(x).shape[-1]])
    result = product(b, flat, b("aten.permute.default", weight, [1, 0]))
    if bias is not None:
        result = b("aten.add.Tensor", result, bias)
    result = cast(b, result, b.dtype(x))  # before the view: nothing behind a view fuses with the product
    return result if b.rank(x) == 2 else b("aten.view.default", result, [*lead, b.type(result).shape[-1]])


def addmm(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    """`beta * c + alpha * (x @ y)`, for two matrices or two batches."""
    return _plus(b, c, product(b, x, y), beta, alpha)


def addbmm(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    """`beta * c + alpha *` the sum of all products of a batch, as one product of the matrices laid side by side."""
    batch, rows, inner = b.type(x).shape
    x = reshape(b, b("aten.permute.default", x, [1, 0, 2]), [rows, batch * inner])
    return addmm(b, c, x, reshape(b, y, [batch * inner, b.type(y).shape[2]]), beta=beta, alpha=alpha)


def trace(b: Builder, x: Ref) -> Ref:
    return b("aten.sum.dim_IntList", b("aten.diagonal.default", x), [0], False)


def factors(b: Builder, c: Ref, *numbers: float) -> list[float]:
    """The factors in the type of `c`: with integers PyTorch drops their fractions."""
    return list(numbers) if b.dtype(c).is_floating_point else list(map(int, numbers))


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
    result = _matrices(b, left, right)
    if y_rank == 1:
        result = b("aten.squeeze.dim", result, -1)
    return b("aten.squeeze.dim", result, -2 if y_rank > 1 else -1) if x_rank == 1 else result


def _matrices(b: Builder, x: Ref, y: Ref) -> Ref:
    x_shape, y_shape = b.type(x).shape, b.type(y).shape
    if len(x_shape) == 2 and len(y_shape) == 2:
        return b("aten.mm.default", x, y)
    if len(y_shape) == 2:  # one matrix for the whole batch: one product takes all rows of the batch
        flat = b("aten.view.default", contiguous(b, x), [math.prod(x_shape[:-1]), x_shape[-1]])
        return b("aten.view.default", b("aten.mm.default", flat, y), [*x_shape[:-1], y_shape[-1]])
    batch = broadcast(x_shape[:-2], y_shape[:-2])
    left = _batched(b, x, batch)
    result = b("aten.bmm.default", left, _batched(b, y, batch))
    return result if len(batch) == 1 else b("aten.view.default", result, [*batch, x_shape[-2], y_shape[-1]])


def broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> list[int]:
    """The shape to which two shapes broadcast: aligned at their ends, an extent of 1 becomes the other's extent."""
    rank = max(len(x), len(y))
    pairs = zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True)
    return [n if m == 1 else m for m, n in pairs]


def _batched(b: Builder, x: Ref, batch: list[int]) -> Ref:
    """`x` broadcast to `batch`, its batch dims flattened into one: a view where strides allow, else a copy."""
    rows, columns = b.type(x).shape[-2:]
    x = expanded(b, x, [*batch, rows, columns])
    return x if len(batch) == 1 else reshape(b, x, [math.prod(batch), rows, columns])


def einsum(b: Builder, equation: str, operands: list[Ref], *, path: list[int] | None = None) -> Ref | None:
    """Contracts the operands from left to right, two at a time. None if the equation has dots, or a letter twice in one
    operand."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    letters = left.split(",")
    if "." in equation or any(len(set(each)) != len(each) for each in letters):
        return None
    if not arrow:
        result = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    value, have = operands[0], letters[0]
    for place, (other, own) in enumerate(zip(operands[1:], letters[1:], strict=True), start=2):
        later = "".join(letters[place:]) + result
        value, have = _contracted(b, value, have, other, own, later)
    value, have = _without(b, value, have, result)
    return b("aten.permute.default", value, [have.index(letter) for letter in result])


def _without(b: Builder, x: Ref, letters: str, wanted: str) -> tuple[Ref, str]:
    """Sums `x` over the dims whose letters are not wanted; returns the sum and its letters."""
    gone = [dim for dim, letter in enumerate(letters) if letter not in wanted]
    kept = "".join(letter for letter in letters if letter in wanted)
    return (b("aten.sum.dim_IntList", x, gone, False) if gone else x), kept


def _contracted(b: Builder, x: Ref, xs: str, y: Ref, ys: str, wanted: str) -> tuple[Ref, str]:
    """Multiplies two operands. Batch letters are in both and wanted, k letters in both and not wanted, m and n letters
    in one only."""
    (x, xs), (y, ys) = _without(b, x, xs, ys + wanted), _without(b, y, ys, xs + wanted)
    sizes = dict(zip(xs, b.type(x).shape, strict=True)) | dict(zip(ys, b.type(y).shape, strict=True))
    batch = [letter for letter in xs if letter in ys and letter in wanted]
    k = [letter for letter in xs if letter in ys and letter not in wanted]
    m, n = ([letter for letter in own if letter not in other] for own, other in ((xs, ys), (ys, xs)))
    shape = [math.prod(sizes[letter] for letter in group) for group in (batch, m, k, n)]
    left = reshape(b, b("aten.permute.default", x, [xs.index(e) for e in batch + m + k]), shape[:3])
    right = reshape(
        b, b("aten.permute.default", y, [ys.index(e) for e in batch + k + n]), [shape[0], shape[2], shape[3]]
    )
    result = [*batch, *m, *n]
    product = b("aten.bmm.default", left, right)
    return b("aten.view.default", product, [sizes[letter] for letter in result]), "".join(result)


def outer(b: Builder, x: Ref, y: Ref) -> Ref:
    return b("aten.mul.Tensor", b("aten.unsqueeze.default", x, 1), y)


def addmv(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    column = b("aten.unsqueeze.default", c, -1) if b.rank(c) else c
    return b("aten.squeeze.dim", addmm(b, column, x, b("aten.unsqueeze.default", y, 1), beta=beta, alpha=alpha), 1)


def addr(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    product, (beta, alpha) = outer(b, x, y), factors(b, c, beta, alpha)
    if alpha != 1:
        product = b("aten.mul.Tensor", product, alpha)
    if beta == 0:
        return product
    return b("aten.add.Tensor", c if beta == 1 else b("aten.mul.Tensor", c, beta), product)


def inner(b: Builder, x: Ref, y: Ref) -> Ref:
    if not b.rank(x) or not b.rank(y):
        return b("aten.mul.Tensor", x, y)
    if b.rank(x) == b.rank(y) == 1:
        return matmul(b, x, y)
    lead = [*b.type(x).shape[:-1], *b.type(y).shape[:-1]]
    rows, columns = (reshape(b, each, [-1, b.type(each).shape[-1]]) for each in (x, y))
    return b("aten.view.default", linear(b, rows, columns), lead)


def of_three(
    b: Builder, x: Ref, y: Ref, z: Ref, expand_x: Sequence[int], expand_y: Sequence[int], expand_z: Sequence[int],
    summed: list[int], unrolled: int = 1,
) -> Ref:  # fmt: skip
    """The product of three tensors, each with dims of 1 inserted, summed over some dims. `bilinear` decomposes into
    this op."""
    rank = b.rank(x) + len(expand_x)
    wide: list[Ref] = []
    for tensor, dims in ((x, expand_x), (y, expand_y), (z, expand_z)):
        result = compute(b, tensor)
        for dim in sorted(dim % rank for dim in dims):  # dims of the product, in any order
            result = b("aten.unsqueeze.default", result, dim)
        wide.append(result)
    product = b("aten.mul.Tensor", b("aten.mul.Tensor", wide[0], wide[1]), wide[2])
    return b("aten.sum.dim_IntList", product, summed, False) if summed else product


def bilinear(b: Builder, x: Ref, y: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    """result[k] is the sum of x[i] * weight[k, i, j] * y[j]: a matrix product sums over i, then a multiplication and a
    sum over j."""
    outer, (results, inside, other) = b.shape(x)[:-1], b.type(weight).shape
    count = math.prod(outer)
    matrix = reshape(b, b("aten.permute.default", weight, [1, 0, 2]), [inside, results * other])
    result = b("aten.mm.default", reshape(b, x, [count, inside]), matrix)
    result = compute(b, b("aten.view.default", result, [count, results, other]))
    rows = b("aten.unsqueeze.default", compute(b, reshape(b, y, [count, other])), 1)
    result = b("aten.sum.dim_IntList", b("aten.mul.Tensor", result, rows), [2], False)
    if bias is not None:
        result = b("aten.add.Tensor", result, compute(b, bias))
    return b("aten.view.default", result, [*outer, results])


FORMULAS: dict[str, Formula] = {
    "aten.mm.default": mm,
    "aten.mm.dtype": renamed(extra_ops.MATMUL),
    "aten.bmm.default": mm,
    "aten.bmm.dtype": renamed(extra_ops.MATMUL),
    "aten._int_mm.default": renamed(extra_ops.MATMUL, torch.int32),
    "aten.linear.default": linear,
    "aten.addmm.default": addmm,
    "aten.baddbmm.default": addmm,
    "aten.addbmm.default": addbmm,
    "aten.trace.default": trace,
    "aten.matmul.default": matmul,
    "aten.mv.default": matmul,
    "aten.dot.default": matmul,
    "aten.einsum.default": einsum,
    "aten.outer.default": outer,
    "aten.ger.default": outer,
    "aten.addmv.default": addmv,
    "aten.addr.default": addr,
    "aten.inner.default": inner,
    "aten.bilinear.default": bilinear,
    "aten._trilinear.default": of_three,
}
