"""Tests that the price of vector passes before scheduling equals the program's cycles on the vector unit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.tileprogram.program import Opcode
from simulator.units.vector import vector_cycles
from workbench.mlir.named_dims import Payload
from workbench.scheduling import heuristic
from workbench.scheduling.vector_price import tile_cycles

KERNELS: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "pointwise": (lambda x, y: torch.exp(x) * y + 1, ((256, 96), (256, 96))),
    "rows spread over all lanes": (lambda x, row, column: x * row + column, ((128, 64), (64,), (128, 1))),
    "softmax": (lambda x: torch.softmax(x, 1), ((256, 200),)),
    "norm": (lambda x, w, b: F.layer_norm(x, (96,), w, b), ((64, 96), (96,), (96,))),
    "turned": (lambda x, y: x.t() + y, ((64, 48), (48, 64))),
    "columns summed": (lambda x: x.sum(0), ((128, 64),)),
    "halves": (lambda x, y: x.half() + y.half(), ((128, 64), (128, 64))),
}


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", KERNELS)
def test_as_the_program_takes(name: str, machine: str, nothing_kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    priced = list[Payload]()
    choose = heuristic.choose

    def seen(payload: Payload, *rest: object) -> object:
        priced.append(payload)
        return choose(payload, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(heuristic, "choose", seen)
    function, shapes = KERNELS[name]
    made = wb.trace(function, *(torch.randn(shape) for shape in shapes), machine=machine)
    kernels = made.scheduled.kernels
    assert len(kernels) == 1 and len(priced) == 1
    passes = kernels[0].program.opcode == Opcode.VECTOR
    taken = vector_cycles(kernels[0].program, made.machine)[passes].sum()
    tile = kernels[0].mapping.tile
    tiles = math.prod(-(-extent // tile[dim]) for dim, extent in priced[0].dims.items())
    assert taken <= tiles * tile_cycles(priced[0], made.machine, tile) <= 1.05 * taken  # the last tile may be short
