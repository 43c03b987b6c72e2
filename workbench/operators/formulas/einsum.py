"""Sums of products by letters: einsum, and the products that are cases of it."""

from __future__ import annotations

import math

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.matrix_products import addmm, factors, linear, mv


def einsum(b: Builder, equation: str, operands: list[Ref], *, path: list[int] | None = None) -> Ref | None:
    """From left to right, two operands at a time. None for dots, and for a letter twice in one operand."""
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
    value, have = _summed(b, value, have, result)
    return b("aten.permute.default", value, [have.index(letter) for letter in result])


def _summed(b: Builder, x: Ref, letters: str, wanted: str) -> tuple[Ref, str]:
    """`x` without the unwanted letters."""
    gone = [dim for dim, letter in enumerate(letters) if letter not in wanted]
    kept = "".join(letter for letter in letters if letter in wanted)
    return (b("aten.sum.dim_IntList", x, gone, False) if gone else x), kept


def _contracted(b: Builder, x: Ref, xs: str, y: Ref, ys: str, wanted: str) -> tuple[Ref, str]:
    """Two operands as one: batch letters are shared and wanted, k letters shared only, m and n of one operand."""
    (x, xs), (y, ys) = _summed(b, x, xs, ys + wanted), _summed(b, y, ys, xs + wanted)
    sizes = dict(zip(xs, b.type(x).shape, strict=True)) | dict(zip(ys, b.type(y).shape, strict=True))
    batch = [letter for letter in xs if letter in ys and letter in wanted]
    k = [letter for letter in xs if letter in ys and letter not in wanted]
    m, n = ([letter for letter in own if letter not in other] for own, other in ((xs, ys), (ys, xs)))
    shape = [math.prod(sizes[letter] for letter in group) for group in (batch, m, k, n)]
    left = reshape(b, b("aten.permute.default", x, [xs.index(e) for e in batch + m + k]), shape[:3])
    right = reshape(
        b, b("aten.permute.default", y, [ys.index(e) for e in batch + k + n]), [shape[0], shape[2], shape[3]]
    )
    made = [*batch, *m, *n]
    product = b("aten.bmm.default", left, right)
    return b("aten.view.default", product, [sizes[letter] for letter in made]), "".join(made)


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
        return mv(b, x, y)
    lead = [*b.type(x).shape[:-1], *b.type(y).shape[:-1]]
    rows, columns = (reshape(b, each, [-1, b.type(each).shape[-1]]) for each in (x, y))
    return b("aten.view.default", linear(b, rows, columns), lead)


FORMULAS: dict[str, Formula] = {
    "aten.einsum.default": einsum,
    "aten.outer.default": outer,
    "aten.ger.default": outer,
    "aten.addmv.default": addmv,
    "aten.addr.default": addr,
    "aten.inner.default": inner,
}
