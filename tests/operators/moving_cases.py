"""Attention, places that tensors say, parts put together and taken apart, images resized."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.operators.entry import Case, Operator, indices, places, truth

T = torch.Tensor
Shape = tuple[int, ...]

ANY: tuple[Case, ...] = (((1, 1),), ((7, 13),), ((3, 1, 9),), ((2, 3, 5, 4),), ((17, 131),))
PAIRS: tuple[Case, ...] = tuple((*case, *case) for case in ANY)
SEEN: tuple[Case, ...] = (((1, 1, 1, 1),), ((2, 3, 7, 5),), ((1, 17, 3, 2),), ((1, 2, 9, 1),), ((3, 1, 2, 33),))

# Queries, and keys with values: one element, primes, one key, batches of heads, more than 128 keys.
HEADS: tuple[tuple[Shape, Shape], ...] = (
    ((1, 1, 1), (1, 1, 1)),
    ((2, 3, 13, 7), (2, 3, 11, 7)),
    ((2, 2, 33, 9), (2, 2, 1, 9)),
    ((5, 8), (17, 8)),
    ((1, 3, 17), (1, 131, 17)),
)


def _masked(make: type[tuple[int, ...]] | None = None) -> tuple[Case, ...]:
    """Queries, keys, values and a mask of all pairs of places: truth, or numbers to add."""
    masks = [((*q[:-1], k[-2]), q, k) for q, k in HEADS]
    return tuple((q, k, k, mask if make else truth(*mask)) for mask, q, k in masks)


TABLES: tuple[Case, ...] = (
    ((1, 1), indices(1, 1)),
    ((37, 13), indices(37, 5, 7)),
    ((131, 9), indices(131, 17)),
    ((5, 129), indices(5, 3, 1, 2)),
    ((19, 1), indices(19, 33)),
)
SELECTED: tuple[Case, ...] = (
    ((1, 1), indices(1, 1)),
    ((7, 13), indices(13, 5)),
    ((3, 17, 9), indices(9, 17)),
    ((131, 3), indices(3, 1)),
    ((2, 3, 5, 129), indices(129, 7)),
)
GATHERED: tuple[Case, ...] = (
    ((1, 1), indices(1, 1, 1)),
    ((7, 13), indices(7, 11, 5)),
    ((17, 1, 9), indices(17, 3, 1, 7)),
    ((131, 3), indices(131, 9, 3)),
    ((2, 3, 5, 4), indices(2, 5, 2, 3, 4)),
)
SCATTERED: tuple[Case, ...] = (
    ((1, 1), places(1, 1, 1), (1, 1)),
    ((7, 13), places(7, 5, 11), (5, 11)),
    ((17, 1, 9), places(17, 3, 1, 7), (3, 1, 9)),
    ((131, 3), places(131, 9, 3), (9, 3)),
    ((5, 3, 5, 4), places(5, 2, 2, 3, 4), (2, 2, 3, 4)),
)

OPERATORS: dict[str, Operator] = {
    "attention": Operator(F.scaled_dot_product_attention, tuple((q, k, k) for q, k in HEADS)),
    "attention masked": Operator(F.scaled_dot_product_attention, _masked()),
    "attention mask added": Operator(F.scaled_dot_product_attention, _masked(tuple)),
    "attention causal": Operator(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), tuple((q, q, q) for q, _ in HEADS)
    ),
    "embedding": Operator(lambda w, i: F.embedding(i, w), TABLES),
    "gather": Operator(lambda x, i: x.gather(0, i), GATHERED),
    "index_select": Operator(lambda x, i: x.index_select(-1, i), SELECTED),
    "scatter": Operator(lambda x, i, s: x.scatter(0, i, s), SCATTERED),
    "scatter_add": Operator(lambda x, i, s: x.scatter_add(0, i, s), SCATTERED),
    "cat": Operator(lambda x, y: torch.cat([x, y[..., :1], x], -1), PAIRS),
    "stack": Operator(lambda x, y: torch.stack([x, y], -1), PAIRS),
    "split": Operator(lambda x: [part.contiguous() for part in (*x.split(2, -1)[-2:], *x.chunk(3)[:2])], ANY),
    "slice": Operator(lambda x: (x[..., ::2].contiguous(), x[-3:].contiguous(), x[0].contiguous()), ANY),
    "pad": Operator(lambda x: F.pad(x, (2, 1, 1, -1), value=3), ANY),
    "flip": Operator(lambda x: x.flip(0, -1), ANY),
    "roll": Operator(lambda x: x.roll((1, -2), (0, -1)), ANY),
    "permute": Operator(lambda x: x.permute(*reversed(range(x.dim()))).contiguous(), ANY),
    "contiguous": Operator(lambda x: (x.transpose(0, -1).contiguous(), x.expand(3, *x.shape).contiguous()), ANY),
    "upsample nearest": Operator(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 3))), SEEN),
    "upsample bilinear": Operator(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        SEEN,
        hosted=(torch.uint8,),  # computed by PyTorch with weights in fixed point
    ),
}
