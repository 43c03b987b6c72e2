"""Runs of ops strip by strip: the same bits, fewer passes, and none where a row needs another."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch.nn import functional

import workbench as wb
from tests.mlir.examples import row_softmax
from workbench.mlir.bindings import named
from workbench.mlir.context import new_context, parse, run_passes
from workbench.running import jit
from workbench.running.row_strips import cut_into_strips


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def cut(text: str) -> int:
    """Number of loops over strips that the pass adds."""
    module = parse(text, new_context(torch_dialect=True))
    run_passes(module, "func.func(linalg-generalize-named-ops)")
    before = len(named(module, "scf.for"))
    cut_into_strips(module)
    assert module.operation.verify()
    return len(named(module, "scf.for")) - before


PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: torch.softmax(x, -1), (random(512, 300),)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), (random(300, 512),)),
    "norm": (lambda x, w: functional.layer_norm(x, (300,), w), (random(512, 300), random(300))),
    "arithmetic": (lambda x, y: torch.tanh(x * y + x).exp() - y, (random(700, 256), random(700, 256))),
    "three axes": (lambda x: torch.softmax(x, -1), (random(12, 128, 128),)),
    "rows that no number divides": (lambda x: torch.softmax(x, -1), (random(509, 300),)),
    "a product and what follows": (lambda x, w: torch.relu(x @ w).sum(-1), (random(256, 128), random(128, 512))),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_bit_stays(name: str) -> None:
    function, inputs = PROGRAMS[name]
    texts = [(each.mlir, each.name) for each in wb.trace(function, *inputs).scheduled.kernels]
    for text, kernel in texts:
        cutting = jit.compile_scheduled(text, kernel)
        with mock.patch.object(jit, "cut_into_strips"):
            plain = jit.compile_scheduled(text, kernel)
        given = [torch.rand(each.shape).as_strided(each.shape, each.strides) for each in cutting.layouts]
        again = [each.clone() for each in given]
        cutting(given)
        plain(again)
        for one, other in zip(given, again, strict=True):
            assert torch.equal(one.nan_to_num(7), other.nan_to_num(7))


def test_a_tile_of_many_rows_is_one_loop() -> None:
    assert cut(static_softmax(512, 300)) == 1


def test_a_tile_that_is_a_strip_itself_is_left_alone() -> None:
    assert cut(static_softmax(8, 100)) == 0


def static_softmax(rows: int, columns: int) -> str:
    """A softmax of one tile, as scheduled."""
    (kernel,) = wb.trace(lambda x: torch.softmax(x, -1), random(rows, columns)).scheduled.kernels
    return kernel.mlir


def test_unknown_rows_are_left_alone() -> None:
    assert cut(row_softmax(100, 77, 32)) == 0


CHAIN = """
func.func @k(%in: memref<256x256xf32, strided<[256, 1]>>, %out: memref<256x256xf32, strided<[256, 1]>>) {{
  %a = memref.alloc() : memref<256x256xf32>
  linalg.copy ins(%in : memref<256x256xf32, strided<[256, 1]>>) outs(%a : memref<256x256xf32>)
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> ({read})>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}}
    ins(%a : memref<256x256xf32>) outs(%out : memref<256x256xf32, strided<[256, 1]>>) {{
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  }}
  memref.dealloc %a : memref<256x256xf32>
  return
}}"""


def test_a_row_that_needs_a_column_waits_for_all_rows() -> None:
    assert cut(CHAIN.format(read="i, j")) == 1
    assert cut(CHAIN.format(read="j, i")) == 0


def test_a_buffer_that_others_read_keeps_its_rows() -> None:
    """The second copy comes after a load, so it is in no run with the first ops."""
    text = CHAIN.format(read="i, j").replace(
        "  memref.dealloc",
        "  %c0 = arith.constant 0 : index\n  %y = memref.load %a[%c0, %c0] : memref<256x256xf32>\n"
        "  memref.store %y, %out[%c0, %c0] : memref<256x256xf32, strided<[256, 1]>>\n  memref.dealloc",
    )
    module = parse(text, new_context(torch_dialect=True))
    run_passes(module, "func.func(linalg-generalize-named-ops)")
    cut_into_strips(module)
    assert [str(each.results[0].type) for each in named(module, "memref.alloc")] == ["memref<256x256xf32>"]


def test_an_op_may_read_one_tensor_by_rows_and_as_a_whole():
    """The places of rows and those of columns are one tensor here."""
    j = wb.trace(
        lambda: torch.ones(400, 400, dtype=torch.bool).triu(1), machine="tpu-v3", mapping={"*": {"tile": {"d0": 400}}}
    )
    assert j.check().ok
