"""A fill with zero is no work where a product starts from it, and work wherever else its zeros are read."""

from __future__ import annotations

import pytest

from simulator.tileprogram.program import Opcode
from tests.extraction.reading import read

KERNEL = """func.func @k(%a: memref<8x8xf32>, %b: memref<8x8xf32>, %y: memref<8x8xf32>) {{
  %zero = arith.constant 0.0 : f32
  %ta = memref.alloc() : memref<8x8xf32, 1>
  %tb = memref.alloc() : memref<8x8xf32, 1>
  %tc = memref.alloc() : memref<8x8xf32, 1>
  linalg.copy ins(%a : memref<8x8xf32>) outs(%ta : memref<8x8xf32, 1>)
  linalg.copy ins(%b : memref<8x8xf32>) outs(%tb : memref<8x8xf32, 1>)
  linalg.fill ins(%zero : f32) outs(%tc : memref<8x8xf32, 1>)
{product}
  linalg.copy ins(%tc : memref<8x8xf32, 1>) outs(%y : memref<8x8xf32>)
  return
}}"""

WHOLE = """  linalg.matmul ins(%ta, %tb : memref<8x8xf32, 1>, memref<8x8xf32, 1>) outs(%tc : memref<8x8xf32, 1>)"""
UPPER_ROWS = """
  %ra = memref.subview %ta[0, 0] [4, 8] [1, 1] : memref<8x8xf32, 1> to memref<4x8xf32, strided<[8, 1]>, 1>
  %rc = memref.subview %tc[0, 0] [4, 8] [1, 1] : memref<8x8xf32, 1> to memref<4x8xf32, strided<[8, 1]>, 1>
  linalg.matmul ins(%ra, %tb : memref<4x8xf32, strided<[8, 1]>, 1>, memref<8x8xf32, 1>)
    outs(%rc : memref<4x8xf32, strided<[8, 1]>, 1>)"""


@pytest.mark.parametrize(("product", "fills", "accumulates"), [(WHOLE, 0, 0), (UPPER_ROWS, 1, 1)])
def test_only_a_fill_of_the_very_box_that_is_accumulated_is_folded(product: str, fills: int, accumulates: int):
    program = read(KERNEL.format(product=product))
    assert (program.opcode == Opcode.VECTOR).sum() == fills
    assert set(program.accumulates[program.opcode == Opcode.MATMUL].tolist()) == {accumulates}
