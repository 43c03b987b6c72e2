"""Concatenations, shuffles, repetition, padding: to the bit, on odd shapes and every dtype, without the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.moving_programs import MACHINES, assert_same, tensor

Shapes = tuple[tuple[int, ...], ...]

ANY: Shapes = ((1,), (7, 5), (1, 9), (3, 1, 4), (2, 3, 5, 4))
IMAGES: Shapes = ((1, 4, 2, 2), (2, 8, 4, 6), (1, 4, 6, 2), (3, 4, 4, 2), (4, 2, 10))

CASES: dict[str, tuple[Callable[[torch.Tensor], object], Shapes]] = {
    "cat of what lies elsewhere": (lambda x: torch.cat([x, x[..., :1], x], -1), ANY),
    "cat of what is made": (lambda x: torch.cat([x.neg(), x.abs()], 0), ANY),
    "cat of a cat": (lambda x: torch.cat([torch.cat([x, -x], -1), torch.cat([-x, x], -1)], 0), ANY),
    "cat of two dtypes": (lambda x: torch.cat([x, x > 0], -1), ANY),
    "stack": (lambda x: (torch.stack([x, -x], -1), torch.stack([-x, x, x], 0)), ANY),
    "stacks by name": (
        lambda x: (torch.hstack([x, -x]), torch.vstack([x, x]), torch.dstack([x, x]), torch.column_stack([x, -x])),
        ANY,
    ),
    "parts": (lambda x: [part.neg() for part in (*x.split(2, -1), *x.chunk(3, 0), *x.unbind(-1)[:2])], ANY),
    "a slice replaced": (lambda x: torch.slice_scatter(x, -x[..., :1], -1, 0, 1), ANY),
    "every other one replaced": (lambda x: torch.slice_scatter(x, -x[..., ::2], x.dim() - 1, 0, None, 2), ANY),
    "one replaced": (lambda x: torch.select_scatter(x, -x[0], 0, -1), ANY),
    "a diagonal replaced": (
        lambda x: torch.diagonal_scatter(x, -x.diagonal(1, 0, -1), 1, 0, -1),
        ((2, 2), (4, 7), (9, 3), (2, 3, 4), (3, 2, 2, 5)),
    ),
    "rolled": (lambda x: (x.roll(3), x.roll(-1, 0), x.roll((1, 2), (0, -1)), x.roll(0, 0)), ANY),
    "repeated": (lambda x: (x.repeat(2, *[1] * (x.dim() - 1), 3), x.tile(2)), ANY),
    "repeated each": (lambda x: (x.repeat_interleave(3), x.repeat_interleave(2, -1)), ANY),
    "made contiguous": (lambda x: (x.transpose(0, -1).contiguous(), x.flatten()[::2].clone()), ANY),
    "strides given": (lambda x: x.as_strided((1, x.numel()), (1, 1)).neg(), ANY),
    "channels last": (
        lambda x: x.contiguous(memory_format=torch.channels_last),
        ((1, 1, 1, 1), (2, 3, 4, 5), (1, 8, 3, 1), (3, 1, 2, 2), (2, 16, 1, 7)),
    ),
    "pixels shuffled": (lambda x: F.pixel_shuffle(x, 2), ((4, 1, 1), (1, 4, 2, 3), (2, 8, 3, 1), (2, 3, 12, 2, 2))),
    "pixels gathered": (lambda x: F.pixel_unshuffle(x, 2), ((1, 2, 2), (1, 2, 4, 6), (2, 3, 2, 8), (2, 1, 3, 6, 4))),
    "channels shuffled": (lambda x: F.channel_shuffle(x, 2), IMAGES),
    "grids": (lambda x: torch.meshgrid(x.flatten(), x.flatten()[:2], indexing="xy"), ANY),
    "padded": (lambda x: (F.pad(x, (1, 2), value=3), F.pad(x, (-1, 2)), F.pad(x, (0, 3)).neg()), ANY),
    "padded in all dims": (lambda x: F.pad(x, [2, 1] * x.dim(), value=1), ANY),
    "padded by its edge": (lambda x: F.pad(x, (1, 3, 2, 0), mode="replicate"), IMAGES),
    "padded by its mirror": (lambda x: F.pad(x, (1, 1, 1, 0), mode="reflect"), IMAGES),
    "flipped": (lambda x: (x.flip(0), x.flip(-1), x.transpose(0, -1).flip(0), -x.neg().flip(0)), ANY),
    "turned": (
        lambda x: (x.rot90(), x.rot90(2, (1, 0)), x.rot90(-1, (0, -1)), x.fliplr(), x.flipud()),
        ((1, 1), (7, 5), (1, 9), (3, 1, 4), (2, 3, 5, 4)),
    ),
    "written to strides given": (
        lambda x: torch.as_strided_scatter(x, -x.flatten()[:2], (2,), (x.numel() // 2,), 1),
        ((4,), (3, 2), (1, 9), (2, 1, 3), (2, 2, 2, 2)),
    ),
    "padded around": (lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), IMAGES),
}


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_moves_what_eager_moves(name: str, machine: str):
    function, shapes = CASES[name]
    inputs = [tensor(shape) for shape in shapes]
    assert_same(lambda *given: [function(x) for x in given], inputs, machines=(machine,))


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bfloat16], ids=str)
def test_moves_every_size_of_element(dtype: torch.dtype):
    def moved(x: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.cat([x, x[:, :1]], 1), torch.stack([x, x]), x.roll(1, -1), x.repeat(1, 2, 1, 1)]
        found += [F.pixel_shuffle(x, 2), F.pad(x, (1, -1, 0, 2), value=1), x.transpose(0, 1).contiguous()]
        return [
            *found,
            x.flip(1, -1),
            torch.slice_scatter(x, x[..., :2], -1, 0, None, 2),
            torch.select_scatter(x, x[:, 1], 1, 0),
        ]

    assert_same(moved, [tensor((1, 4, 3, 3), dtype)], machines=MACHINES[:1])
