"""Tensors with known contents: one number everywhere, or numbers that depend on their places.

All are made of `full` and `arange`, which are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import Number, renamed
from workbench.operators.formulas.formula_builder import Builder, Formula, cast
from workbench.operators.formulas.layout_changes import expanded

CPU = torch.device("cpu")
"""The recorded device of created tensors, whatever computes them."""


def full(b: Builder, shape: list[int], value: Number, *, dtype: torch.dtype | None = None, **_: object) -> Ref:
    return b("aten.full.default", shape, value, dtype=dtype or torch.full((), value).dtype, device=CPU)


def counted(b: Builder, end: int, dtype: torch.dtype = torch.int32) -> Ref:
    """0, 1, 2, ... below `end`."""
    return b("aten.arange.start_step", 0, end, 1, dtype=dtype, device=CPU)


def _of_shape(value: Number) -> Formula:
    """The formula of `zeros`, `ones` or `empty`: `value` everywhere. `empty` may hold anything, so it gets zeros."""

    def formula(b: Builder, shape: list[int], *_: object, dtype: torch.dtype | None = None, **__: object) -> Ref:
        return full(b, shape, value, dtype=dtype or torch.get_default_dtype())

    return formula


def full_like(b: Builder, x: Ref, value: Number, *, dtype: torch.dtype | None = None, **_: object) -> Ref:
    return full(b, b.shape(x), value, dtype=dtype or b.dtype(x))


def new_full(
    b: Builder, x: Ref, shape: list[int], value: Number, *, dtype: torch.dtype | None = None, **_: object
) -> Ref:
    return full(b, shape, value, dtype=dtype or b.dtype(x))


def _new(value: Number) -> Formula:
    def formula(
        b: Builder, x: Ref, shape: list[int], *_: object, dtype: torch.dtype | None = None, **__: object
    ) -> Ref:
        return new_full(b, x, shape, value, dtype=dtype)

    return formula


def scalar_tensor(b: Builder, value: Number, *, dtype: torch.dtype | None = None, **_: object) -> Ref:
    return full(b, [], value, dtype=dtype or torch.get_default_dtype())


def fill(b: Builder, x: Ref, value: Ref | Number) -> Ref:
    """A tensor with the shape and type of `x` and `value` everywhere."""
    return copied(b, x, value) if isinstance(value, Ref) else full(b, b.shape(x), value, dtype=b.dtype(x))


def copied(b: Builder, x: Ref, source: Ref | Number, _: bool = False) -> Ref:
    """The source, converted to the type of `x` and broadcast to its shape."""
    shape, dtype = b.shape(x), b.dtype(x)
    if not isinstance(source, Ref):
        return b("aten.full.default", shape, source, dtype=dtype)
    return b("aten.clone.default", expanded(b, cast(b, source, dtype), shape))


def linspace(
    b: Builder, start: float, end: float, steps: int, *, dtype: torch.dtype | None = None, **_: object
) -> Ref | None:
    """Counts up from the start in the first half and down from the end in the second, so that both ends are exact. None
    for integers."""
    kind = dtype or torch.get_default_dtype()
    if not kind.is_floating_point or steps < 2:
        return full(b, [steps], start, dtype=kind) if steps < 2 else None
    wide = torch.float64 if kind == torch.float64 else torch.float32
    place, step = counted(b, steps, wide), (end - start) / (steps - 1)
    rising = b("aten.add.Scalar", b("aten.mul.Scalar", place, step), start)
    left = b("aten.rsub.Scalar", place, steps - 1)
    falling = b("aten.rsub.Scalar", b("aten.mul.Scalar", left, step), end)
    result = b("aten.where.self", b("aten.lt.Scalar", place, steps // 2), rising, falling)
    return cast(b, result, kind)


def eye(b: Builder, rows: int, columns: int | None = None, *, dtype: torch.dtype | None = None, **_: object) -> Ref:
    on_diagonal = b("aten.eq.Scalar", _right_of_diagonal(b, rows, rows if columns is None else columns), 0)
    return b("aten._to_copy.default", on_diagonal, dtype=dtype or torch.get_default_dtype())


def _right_of_diagonal(b: Builder, rows: int, columns: int) -> Ref:
    """Column minus row of each element of a matrix: its distance to the right of the diagonal."""
    return b("aten.sub.Tensor", counted(b, columns), b("aten.unsqueeze.default", counted(b, rows), 1))


def _triangle(keep: str) -> Callable[..., Ref]:
    def formula(b: Builder, x: Ref, diagonal: int = 0) -> Ref:
        rows, columns = b.type(x).shape[-2:]
        inside = b(f"aten.{keep}.Scalar", _right_of_diagonal(b, rows, columns), diagonal)
        return b("aten.where.self", inside, x, full(b, [], 0, dtype=b.dtype(x)))

    return formula


def one_hot(b: Builder, x: Ref, classes: int = -1) -> Ref | None:
    """Compares each element with every class; None without a number of classes, since a kernel's result cannot have a
    shape that depends on data."""
    if classes < 1:
        return None
    named = counted(b, classes, b.dtype(x))
    return b("aten._to_copy.default", b("aten.eq.Tensor", b("aten.unsqueeze.default", x, -1), named), dtype=torch.int64)


def diag_embed(b: Builder, x: Ref, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Ref:
    """Zeros with `x` written to their diagonal."""
    *lead, extent = b.type(x).shape
    side, rank = extent + abs(offset), len(lead) + 2
    order = {dim1 % rank, dim2 % rank}
    rest = iter(lead)
    shape = [side if axis in order else next(rest) for axis in range(rank)]
    zeros = full(b, shape, 0, dtype=b.dtype(x))
    return b("aten.diagonal_scatter.default", zeros, x, offset, dim1, dim2)


def diag(b: Builder, x: Ref, diagonal: int = 0) -> Ref:
    if b.rank(x) == 1:
        return diag_embed(b, x, diagonal)
    return b("aten.clone.default", b("aten.diagonal.default", x, diagonal))


_NUMBERS: dict[str, Number] = {"zeros": 0, "ones": 1, "empty": 0}

FORMULAS: dict[str, Formula] = {
    **{f"aten.{name}.default": _of_shape(value) for name, value in _NUMBERS.items() if name != "empty"},
    "aten.empty.memory_format": _of_shape(0),
    "aten.empty_strided.default": _of_shape(0),
    **{f"aten.{name}_like.default": partial(full_like, value=value) for name, value in _NUMBERS.items()},
    **{f"aten.new_{name}.default": _new(value) for name, value in _NUMBERS.items()},
    "aten.new_empty_strided.default": _new(0),
    "aten.zero.default": partial(full_like, value=0),
    "aten.full_like.default": full_like,
    "aten.new_full.default": new_full,
    "aten.scalar_tensor.default": scalar_tensor,
    "aten.fill.Scalar": fill,
    "aten.fill.Tensor": fill,
    "aten.copy.default": copied,
    "aten.linspace.default": linspace,
    "aten.eye.default": eye,
    "aten.eye.m": eye,
    "aten.tril.default": _triangle("le"),
    "aten.triu.default": _triangle("ge"),
    "aten.one_hot.default": one_hot,
    "aten.diag_embed.default": diag_embed,
    "aten.diag.default": diag,
    "aten.lift_fresh_copy.default": renamed("aten.clone.default"),
}
