"""Tiles of other extents over the same memory, and tiles of as many axes as there may be, as they are read off."""

from __future__ import annotations

from simulator.tileprogram.program import MAX_RANK, Opcode
from tests.extraction.reading import read

FLAT = """func.func @k(%x: memref<6x8xf32>, %y: memref<32xf32>) {
  %t = memref.alloc() : memref<6x8xf32, 1>
  linalg.copy ins(%x : memref<6x8xf32>) outs(%t : memref<6x8xf32, 1>)
  %rows = memref.subview %t[2, 0] [4, 8] [1, 1] : memref<6x8xf32, 1> to memref<4x8xf32, strided<[8, 1], offset: 16>, 1>
  %flat = memref.collapse_shape %rows [[0, 1]]
    : memref<4x8xf32, strided<[8, 1], offset: 16>, 1> into memref<32xf32, strided<[1], offset: 16>, 1>
  linalg.copy ins(%flat : memref<32xf32, strided<[1], offset: 16>, 1>) outs(%y : memref<32xf32>)
  return
}"""


MANY = """func.func @k(%x: memref<2x2x2x2x8xf32>, %y: memref<2x2x2x2x8xf32>) {
  %t = memref.alloc() : memref<2x2x2x2x8xf32, 1>
  linalg.copy ins(%x : memref<2x2x2x2x8xf32>) outs(%t : memref<2x2x2x2x8xf32, 1>)
  linalg.exp ins(%t : memref<2x2x2x2x8xf32, 1>) outs(%t : memref<2x2x2x2x8xf32, 1>)
  linalg.copy ins(%t : memref<2x2x2x2x8xf32, 1>) outs(%y : memref<2x2x2x2x8xf32>)
  return
}"""


def test_rows_laid_end_to_end_are_stored_from_where_they_begin():
    program = read(FLAT)
    (store,) = (program.opcode == Opcode.STORE).nonzero()[0]
    source = program.operand_start[store]
    assert (program.target[source], program.offset[source]) == (0, 16)
    assert (program.shape[source, 0], program.strides[source, 0]) == (32, 1)


def test_a_pass_over_the_most_axes_says_which_lies_along_the_lanes():
    program = read(MANY)
    (number,) = (program.opcode == Opcode.VECTOR).nonzero()[0]
    assert program.rank[number] == MAX_RANK
    made = program.ops[program.op[number]]
    assert (made.walks, made.contiguous) == ((31, 31), (4, 4))
