"""The order of axes with the least padding."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from simulator.machine.tile_form import Tile
from workbench.ir import TensorType
from workbench.ir.dram_blocks import axes_of, dense_in, less_padded, padded_elements

BLOCK = Tile(8, 128)


def least_padded(kind: TensorType, block: Tile) -> tuple[int, ...]:
    return (*less_padded(kind, block), axes_of(kind))[0]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((8, 16, 64), (0, 1, 2)),  # (0, 2, 1) and (1, 2, 0) have no fewer blocks
        ((40, 8, 24), (2, 1, 0)),
        ((192, 64), (1, 0)),
        ((128, 64, 32, 32), (1, 3, 2, 0)),
        ((64, 3, 7, 7), (1, 3, 2, 0)),
        ((200, 1, 24), (1, 2, 0)),
        ((4096,), (0,)),
        ((1, 5, 1), (0, 1, 2)),
        ((), ()),
    ],
)
def test_the_order_with_the_least_padding(shape: tuple[int, ...], axes: tuple[int, ...]):
    assert least_padded(TensorType.dense(shape, "f32"), BLOCK) == axes


@pytest.mark.parametrize("seed", range(200))
def test_no_order_has_less_padding_and_none_as_little_is_nearer(seed: int):
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 7, 8, 9, 20]) for _ in range(rng.randint(0, 4)))
    kind = dense_in(TensorType.dense(shape, "f32"), rng.sample(range(len(shape)), len(shape)))
    block = Tile(rng.choice([1, 2, 8]), rng.choice([4, 8, 16]))
    given, found = axes_of(kind), least_padded(kind, block)
    sizes = {axes: padded_elements(shape, axes, block) for axes in permutations(range(len(shape)))}
    assert sizes[found] == min(sizes.values())
    if sizes[given] == sizes[found]:
        assert found == given
    long = [axis for axis in given if shape[axis] != 1]
    if any(size == sizes[found] and [a for a in axes if a in long][-1:] == long[-1:] for axes, size in sizes.items()):
        assert [axis for axis in found if axis in long][-1:] == long[-1:]  # the innermost axis stays, if it may


def test_orders_come_by_their_padding():
    kind = TensorType.dense((400, 80, 24), "f32")
    orders = less_padded(kind, BLOCK)
    sizes = [padded_elements(kind.shape, axes, BLOCK) for axes in orders]
    assert sizes == sorted(sizes) and orders == ((2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1))
    assert all(size < padded_elements(kind.shape, (0, 1, 2), BLOCK) for size in sizes)


def test_bytes_of_blocks():
    assert padded_elements((40, 8, 24), (0, 1, 2), BLOCK) == 40 * 8 * 128
    assert padded_elements((40, 8, 24), (2, 1, 0), BLOCK) == 24 * 8 * 128
    assert padded_elements((40, 8, 24), (2, 1, 0), None) == 40 * 8 * 24
    assert padded_elements((1, 100), (0, 1), BLOCK) == 100
    assert padded_elements((3, 1, 100), (1, 0, 2), BLOCK) == 8 * 128


def test_a_type_in_another_order_is_dense():
    kind = TensorType((4, 3, 2), "f16", (100, 10, 1), 7)
    assert dense_in(kind, (2, 0, 1)) == TensorType((4, 3, 2), "f16", (3, 1, 12))
    assert axes_of(dense_in(kind, (2, 0, 1))) == (2, 0, 1)
