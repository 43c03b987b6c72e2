"""Long sums: as close to the right one as PyTorch's own, whichever loop is innermost and however it is tiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import workbench as wb
from workbench.running.jit import compile_rendered

SUMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "of all": (lambda a: a.sum(), (3_000_000,)),
    "of all, in short rows": (lambda a: a.sum(), (300_000, 3)),
    "of rows": (lambda a: a.sum(1), (2, 500_000)),
    "of columns": (lambda a: a.sum(0), (300_000, 8)),
    "in the middle": (lambda a: a.sum(1), (2, 100_000, 5)),
    "of products": (lambda a: a @ a, (1_000_000,)),
}


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3"])
@pytest.mark.parametrize("name", SUMS)
def test_a_long_sum_keeps_its_digits(name: str, machine: str):
    """One after the other they round to 1e-4 of the result, and the check fails."""
    function, shape = SUMS[name]
    a = 1000 + 2 * torch.rand(shape, generator=torch.Generator().manual_seed(0))
    journey = wb.trace(function, a, machine=machine)
    right = function(a.double())
    assert ((journey.run(a).double() - right) / right).abs().max() < 2e-6
    assert journey.check().ok


def summed(kind: str, body: str, indexing: str, out: str = "f32", loops: str = '"parallel", "reduction"') -> str:
    return f"""func.func @k(%x: memref<{kind}>, %out: memref<{out}>) {{
      linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> {indexing}>],
                       iterator_types = [{loops}]}}
        ins(%x : memref<{kind}>) outs(%out : memref<{out}>) {{
      ^bb0(%in: f32, %old: f32):
        {body}
        %new = arith.addf %old, %term : f32
        linalg.yield %new : f32
      }}
      return
    }}"""


WEIGHED = """%place = linalg.index 0 : index
        %other = linalg.index 1 : index
        %number = arith.addi %place, %other : index
        %whole = arith.index_cast %number : index to i32
        %weight = arith.sitofp %whole : i32 to f32
        %term = arith.mulf %in, %weight : f32"""


@pytest.mark.parametrize("shape", [(3, 20_000), (20_000, 3), (1, 40), (2_000, 1_500)])
@pytest.mark.parametrize("rows", [True, False])
def test_an_element_s_place_is_that_in_the_whole(shape: tuple[int, int], rows: bool):
    loops = '"parallel", "reduction"' if rows else '"reduction", "parallel"'
    kept = shape[0] if rows else shape[1]
    text = summed(f"{shape[0]}x{shape[1]}xf32", WEIGHED, "(d0)" if rows else "(d1)", f"{kept}xf32", loops)
    x, out = torch.rand(shape), torch.ones(kept)
    weights = torch.arange(shape[0])[:, None] + torch.arange(shape[1])
    compile_rendered(text, "k")([x, out])
    expected = 1 + (x.double() * weights).sum(1 if rows else 0)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=0)


def test_what_a_block_begins_with_changes_nothing():
    """A sum of -0.0 and nothing else is -0.0."""
    text = summed("1x40xf32", "%term = arith.mulf %in, %in : f32", "(d0)", "1xf32")
    x, out = torch.full((1, 40), -0.0), torch.full((1,), -0.0)
    compile_rendered(text.replace("arith.mulf %in, %in", "arith.maximumf %in, %in"), "k")([x, out])
    assert torch.signbit(out).all()


def test_a_reduction_that_is_no_sum_stays_as_it_is():
    """`old * 2 + x` is not something added to what is there."""
    body = "%twice = arith.addf %old, %old : f32\n        %term = arith.addf %twice, %in : f32"
    text = summed("1x40xf32", body, "(d0)", "1xf32").replace("arith.addf %old, %term", "arith.maximumf %term, %term")
    x, out = torch.rand(1, 40), torch.rand(1)
    expected = out.double()
    for each in x[0].double():
        expected = 2 * expected + each
    compile_rendered(text, "k")([x, out])
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=0)
