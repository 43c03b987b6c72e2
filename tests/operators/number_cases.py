"""Scans, orders, choices, comparisons, casts and products of whole numbers."""

from __future__ import annotations

import operator

import torch

from tests.operators.entry import OTHERS, SINGLE, Case, Operator, distinct, positive, truth

T = torch.Tensor
Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = ((1, 1), (7, 13), (3, 1, 9), (2, 3, 5, 4), (17, 131))
ANY: tuple[Case, ...] = tuple((shape,) for shape in SHAPES)
PAIRS: tuple[Case, ...] = tuple((shape, shape) for shape in SHAPES)
CHOSEN: tuple[Case, ...] = tuple((truth(*shape), shape, shape) for shape in SHAPES)

# Rows times columns: one element, primes, more than a tile of 8 and of 128 each way.
MATRICES: tuple[Case, ...] = (
    ((1, 1), (1, 1)),
    ((13, 7), (7, 11)),
    ((17, 131), (131, 9)),
    ((1, 33), (33, 129)),
    ((130, 3), (3, 1)),
)

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def _compared(x: T, y: T) -> T:
    """A bit for each comparison: one kernel instead of many."""
    return _bits([*(compare(x, y) for compare in COMPARISONS), x > 1, x != 0])


def _logical(x: T, y: T) -> T:
    return _bits([x.logical_and(y), x.logical_or(y), x.logical_xor(y), x.logical_not()])


def _bits(truths: list[T]) -> T:
    made = truths[0].to(torch.int32)
    for place, truth_ in enumerate(truths[1:], 1):
        made = made + truth_.to(torch.int32) * 2**place
    return made


def _cast(x: T) -> tuple[T, ...]:
    """To each whole type and on to f32, with a weight that tells which is wrong; to both halves, and one more."""
    made = x.to(SINGLE)
    for weight, to in enumerate(OTHERS[2:], 2):
        made = made + x.to(to).to(SINGLE) * weight
    return made, x.to(torch.float16), x.to(torch.bfloat16), x.to(OTHERS[2 + x.dim()])


OPERATORS: dict[str, Operator] = {
    "cumsum": Operator(lambda x: (x.cumsum(0), x.cumsum(-1)), ANY),
    "topk": Operator(lambda x: tuple(x.topk((x.shape[-1] + 1) // 2)), tuple((distinct(*s),) for s in SHAPES)),
    "sort": Operator(lambda x: tuple(torch.sort(x, dim=-1, stable=True)), ANY),
    "sort descending": Operator(lambda x: tuple(torch.sort(x, dim=0, stable=True, descending=True)), ANY),
    "argmax": Operator(lambda x: (x.argmax(-1), x.argmax(0, keepdim=True), x.argmax()), ANY),
    "where": Operator(torch.where, CHOSEN),
    "masked_fill": Operator(lambda m, x, y: x.masked_fill(m, 1) + y.masked_fill(~m, 0), CHOSEN),
    "comparisons": Operator(_compared, PAIRS),
    "logical": Operator(_logical, PAIRS),
    "casts": Operator(_cast, tuple((positive(*s),) for s in SHAPES)),
    "matmul": Operator(torch.matmul, MATRICES),
    "_int_mm": Operator(torch._int_mm, MATRICES, only=(torch.int8,)),
}
