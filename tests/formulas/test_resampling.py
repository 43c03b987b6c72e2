"""Images made larger or smaller: neighbours to the bit, interpolation within the dtype's tolerance, no host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.moving_programs import MACHINES, assert_same, tensor

Shapes = tuple[tuple[int, ...], ...]

IMAGES: Shapes = ((1, 1, 1, 1), (1, 3, 4, 6), (2, 1, 5, 3), (1, 2, 7, 1), (3, 2, 2, 2))
ROWS: Shapes = ((1, 1, 1), (1, 3, 6), (2, 1, 5), (1, 2, 7), (3, 2, 2))

resized = F.interpolate

NEAREST: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Shapes]] = {
    "twice": (partial(resized, scale_factor=2), IMAGES),
    "three and two times": (partial(resized, scale_factor=(3, 2)), IMAGES),
    "one and a half times": (partial(resized, scale_factor=1.5), IMAGES),
    "to a size": (partial(resized, size=(7, 3)), IMAGES),
    "half": (partial(resized, scale_factor=0.5), ((1, 3, 4, 6), (2, 1, 5, 3), (3, 2, 2, 2))),
    "middles": (partial(resized, size=(5, 9), mode="nearest-exact"), IMAGES),
    "rows": (partial(resized, scale_factor=3), ROWS),
    "rows to a size": (partial(resized, size=4), ROWS),
}

LINEAR: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Shapes]] = {
    "twice": (partial(resized, scale_factor=2, mode="bilinear"), IMAGES),
    "corner to corner": (partial(resized, size=(7, 9), mode="bilinear", align_corners=True), IMAGES),
    "to a size": (partial(resized, size=(3, 1), mode="bilinear"), IMAGES),
    "by a fraction": (
        partial(resized, scale_factor=1.3, mode="bilinear", recompute_scale_factor=False),
        IMAGES,
    ),
    "rows": (partial(resized, size=8, mode="linear", align_corners=True), ROWS),
}


@pytest.mark.test_all(but=1)
@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", NEAREST)
def test_nearest_neighbours_are_those_of_eager(name: str, machine: str):
    function, shapes = NEAREST[name]
    inputs, replay = [tensor(shape) for shape in shapes], name == "half"
    assert_same(lambda *given: [function(x) for x in given], inputs, machines=(machine,), replay=replay)


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", LINEAR)
def test_interpolation_agrees_with_eager(name: str, machine: str):
    function, shapes = LINEAR[name]
    inputs, replay = [tensor(shape) for shape in shapes], name == "rows"

    def every(*given: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for x in given]

    assert_same(every, inputs, machines=(machine,), tolerance=1e-5, replay=replay)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.uint8], ids=str)
def test_other_dtypes(dtype: torch.dtype):
    def several(x: torch.Tensor) -> list[torch.Tensor]:
        found = [resized(x, scale_factor=2), resized(x, size=(3, 5))]
        return [*found, resized(x, scale_factor=2, mode="bilinear")] if dtype.is_floating_point else found

    assert_same(several, [tensor((1, 2, 4, 6), dtype)], machines=MACHINES[:1], tolerance=1e-2)


@pytest.mark.test_all
def test_three_dims():
    assert_same(partial(resized, scale_factor=2, mode="trilinear"), [tensor((1, 2, 3, 2, 4))], tolerance=1e-5)
