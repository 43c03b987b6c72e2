"""Views of a storage in another order: the same elements, or none."""

from __future__ import annotations

import math
import random
from itertools import permutations

import pytest
import torch

from workbench.ir import TensorType
from workbench.ir.dram_blocks import dense_in
from workbench.ir.moved_views import moved, overlaps_itself
from workbench.operators.tensors.torch_literals import to_type


def places(kind: TensorType) -> torch.Tensor:
    """The place of each element in memory."""
    return torch.arange(kind.offset + kind.span).as_strided(kind.shape, kind.strides, kind.offset)


def some_view(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """A view of a view of it."""
    for _ in range(rng.randint(1, 4)):
        axis = rng.randrange(tensor.dim())
        extent = tensor.shape[axis]
        way = rng.randrange(6)
        if way == 0:
            tensor = tensor.transpose(axis, rng.randrange(tensor.dim()))
        elif way == 1 and extent > 1:
            tensor = tensor.narrow(axis, 1, extent - 1)
        elif way == 2 and tensor.dim() > 1:
            tensor = tensor.select(axis, extent - 1)
        elif way == 3:
            tensor = tensor.unsqueeze(axis)
        elif way == 4 and extent % 2 == 0:
            tensor = tensor.unflatten(axis, (2, -1))
        elif way == 5 and axis and tensor.stride(axis - 1) == tensor.stride(axis) * extent:
            tensor = tensor.flatten(axis - 1, axis)
    return tensor


@pytest.mark.parametrize("seed", range(300))
def test_a_moved_view_has_the_same_elements(seed: int):
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4)))
    before = TensorType.dense(shape, "f32")
    after = dense_in(before, rng.sample(range(len(shape)), len(shape)))
    view = to_type(some_view(torch.empty(shape), rng))
    found = moved(view, before, after)
    element_at = places(after).flatten()  # by its place before
    wanted = element_at[places(view)]
    if found is not None:
        assert (found.shape, found.dtype) == (view.shape, view.dtype)
        assert torch.equal(places(found), wanted)
        assert moved(found, after, before) == view
    else:
        assert not evenly_spaced(wanted), f"{view} of {before} could be one of {after}"


def evenly_spaced(wanted: torch.Tensor) -> bool:
    """True if some strides and an offset give these places."""
    first = int(wanted.flatten()[0])
    steps = [int(wanted.select(axis, 1).flatten()[0]) - first if n > 1 else 0 for axis, n in enumerate(wanted.shape)]
    return min(steps, default=0) >= 0 and torch.equal(
        places(TensorType(tuple(wanted.shape), "f32", tuple(steps), first)), wanted
    )


def test_a_reshape_over_axes_that_no_longer_follow_each_other_is_no_view():
    before = TensorType.dense((4, 6, 2), "f32")
    rows = TensorType.dense((24, 2), "f32")
    verdicts = {axes: moved(rows, before, dense_in(before, axes)) is not None for axes in permutations(range(3))}
    assert [axes for axes, is_view in verdicts.items() if is_view] == [(0, 1, 2), (2, 0, 1)]


def test_an_extent_of_one_keeps_its_stride():
    before = TensorType((4, 1, 3), "f32", (3, 77, 1))
    view = TensorType((1, 4), "f32", (55, 3))
    after = dense_in(before, (2, 1, 0))
    found = moved(view, before, after)
    assert found == TensorType((1, 4), "f32", (55, 1)) and moved(found, after, before) == view


def test_what_looks_between_or_beyond_the_elements_is_no_view():
    before = TensorType((4, 3), "f32", (8, 2))  # every second element of rows of eight
    after = dense_in(before, (1, 0))
    assert moved(TensorType((4,), "f32", (8,), 2), before, after) == TensorType((4,), "f32", (1,), 4)
    assert moved(TensorType((4,), "f32", (8,), 1), before, after) is None
    assert moved(TensorType((5,), "f32", (2,)), before, after) is None
    assert moved(TensorType((2,), "f32", (2,), -2), before, after) is None


@pytest.mark.parametrize(
    ("kind", "overlaps"),
    [
        (TensorType((3, 4), "f32", (0, 1)), True),
        (TensorType((3, 4), "f32", (2, 1)), True),
        (TensorType((3, 4), "f32", (1, 3)), False),
        (TensorType((3, 1), "f32", (1, 0)), False),
        (TensorType((3, 4), "f32", (100, 1)), False),
    ],
)
def test_elements_that_share_memory_are_seen(kind: TensorType, overlaps: bool):
    assert overlaps_itself(kind) == overlaps
    assert (len(places(kind).unique()) < math.prod(kind.shape)) == overlaps
