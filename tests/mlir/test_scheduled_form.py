"""The scheduled form: a good module passes, and each planted violation is named at its line."""

import pytest

from workbench.ground.errors import MlirSyntaxError, ScheduledFormError
from workbench.mlir.scheduled_form import verify_scheduled

GOOD = """
func.func @k(%x: memref<100x8xf32, strided<[8, 1]>>, %out: memref<100x8xf32, strided<[8, 1], offset: 16>>) {
  %c0 = arith.constant 0 : index
  %c100 = arith.constant 100 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %buf = memref.alloc() {npu.slots = 2 : i64} : memref<2x32x8xf32, 1>
  scf.for %i = %c0 to %c100 step %c32 {
    %rows = affine.min affine_map<(d0) -> (32, -d0 + 100)>(%i)
    %slot = affine.apply affine_map<(d0) -> ((d0 floordiv 32) mod 2)>(%i)
    %src = memref.subview %x[%i, 0] [%rows, 8] [1, 1]
      : memref<100x8xf32, strided<[8, 1]>> to memref<?x8xf32, strided<[8, 1], offset: ?>>
    %t = memref.subview %buf[%slot, 0, 0] [1, %rows, 8] [1, 1, 1]
      : memref<2x32x8xf32, 1> to memref<?x8xf32, strided<[8, 1], offset: ?>, 1>
    linalg.copy ins(%src : memref<?x8xf32, strided<[8, 1], offset: ?>>)
      outs(%t : memref<?x8xf32, strided<[8, 1], offset: ?>, 1>)
    linalg.exp ins(%t : memref<?x8xf32, strided<[8, 1], offset: ?>, 1>)
      outs(%t : memref<?x8xf32, strided<[8, 1], offset: ?>, 1>)
    %dst = memref.subview %out[%i, 0] [%rows, 8] [1, 1]
      : memref<100x8xf32, strided<[8, 1], offset: 16>> to memref<?x8xf32, strided<[8, 1], offset: ?>>
    linalg.copy ins(%t : memref<?x8xf32, strided<[8, 1], offset: ?>, 1>)
      outs(%dst : memref<?x8xf32, strided<[8, 1], offset: ?>>)
  }
  memref.dealloc %buf : memref<2x32x8xf32, 1>
  return
}
"""


def test_good_module_passes() -> None:
    verify_scheduled(GOOD)


def kernel(body: str, arguments: str = "%x: memref<4x8xf32>, %y: memref<4x8xf32>") -> str:
    return f"func.func @k({arguments}) {{\n{body}\nreturn\n}}"


ALLOC = "%t = memref.alloc() : memref<4x8xf32, 1>\n"
VIOLATIONS = {
    "copy from DRAM to DRAM": (kernel("linalg.copy ins(%x : memref<4x8xf32>) outs(%y : memref<4x8xf32>)"), 2),
    "linalg.exp works on DRAM": (
        kernel(ALLOC + "linalg.exp ins(%x : memref<4x8xf32>) outs(%t : memref<4x8xf32, 1>)"), 3),
    "linalg.fill works on DRAM": (
        kernel("%z = arith.constant 0.0 : f32\nlinalg.fill ins(%z : f32) outs(%y : memref<4x8xf32>)"), 3),
    "a movement does not convert": (
        kernel("%h = memref.alloc() : memref<4x8xf16, 1>\n"
               "linalg.copy ins(%x : memref<4x8xf32>) outs(%h : memref<4x8xf16, 1>)"), 3),
    "allocates only in the scratchpad": (kernel("%t = memref.alloc() : memref<4x8xf32>"), 2),
    "a buffer's size is a number": (
        kernel("%n = arith.constant 4 : index\n%t = memref.alloc(%n) : memref<?x8xf32, 1>"), 3),
    "equals the leading dimension": (kernel("%t = memref.alloc() {npu.slots = 3 : i64} : memref<4x8xf32, 1>"), 2),
    "there is no other": (kernel("%t = memref.alloc() : memref<4x8xf32, 2>"), 2),
    "never aborts": (kernel('%b = arith.constant true\ncf.assert %b, "no"'), 3),
    "memref.copy is not part of": (kernel("memref.copy %x, %y : memref<4x8xf32> to memref<4x8xf32>"), 2),
    "memref.alloca is not part of": (kernel("%t = memref.alloca() : memref<4x8xf32, 1>"), 2),
    "memref.dim is not part of": (
        kernel("%n = arith.constant 0 : index\n%t = memref.dim %x, %n : memref<4x8xf32>"), 3),
    "tensor.empty is not part of": (kernel("%t = tensor.empty() : tensor<4xf32>"), 2),
    "arithmetic outside linalg ops is on scalars": (kernel("%t = arith.constant dense<0.0> : vector<4xf32>"), 2),
    "without calls": (kernel("func.call @k(%x, %y) : (memref<4x8xf32>, memref<4x8xf32>) -> ()"), 2),
    "kernel arguments are memrefs": (kernel("", "%n: index"), 1),
    "lie in DRAM": (kernel("", "%n: memref<4xf32, 1>"), 1),
    "of an argument are numbers": (kernel("", "%n: memref<4xf32, strided<[?]>>"), 1),
    "kernel returns nothing": ("func.func @k() -> index {\n%c = arith.constant 0 : index\nreturn %c : index\n}", 1),
    "is neither a gather nor a scatter": (
        kernel(ALLOC + "%n = arith.constant 0 : index\n"
               "linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = "
               "[\"parallel\", \"parallel\"]} outs(%t : memref<4x8xf32, 1>) {^bb0(%o: f32):\n"
               "%v = memref.load %x[%n, %n] : memref<4x8xf32>\nlinalg.yield %v : f32 }"), 4),
    "cannot stand in a linalg body": (
        kernel(ALLOC + "linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = "
               "[\"parallel\", \"parallel\"]} outs(%t : memref<4x8xf32, 1>) {^bb0(%o: f32):\n"
               "%p = memref.extract_aligned_pointer_as_index %x : memref<4x8xf32> -> index\n"
               "linalg.yield %o : f32 }"), 4),
}  # fmt: skip


@pytest.mark.parametrize("message", VIOLATIONS)
def test_planted_violation_is_found_at_its_line(message: str) -> None:
    text, line = VIOLATIONS[message]
    with pytest.raises(ScheduledFormError) as caught:
        verify_scheduled(text, "planted")
    assert message in str(caught.value)
    assert [problem.line for problem in caught.value.problems] == [line]
    assert text.splitlines()[line - 1].strip() in str(caught.value)


def test_all_violations_are_listed_at_once() -> None:
    body = "%t = memref.alloc() : memref<4x8xf32>\nlinalg.copy ins(%x : memref<4x8xf32>) outs(%y : memref<4x8xf32>)"
    with pytest.raises(ScheduledFormError) as caught:
        verify_scheduled(kernel(body))
    assert [problem.line for problem in caught.value.problems] == [2, 3]


def test_two_functions_are_refused() -> None:
    with pytest.raises(ScheduledFormError, match=r"exactly one func\.func, found 2"):
        verify_scheduled("func.func @a() {return}\nfunc.func @b() {return}")


def test_a_declaration_is_refused() -> None:
    with pytest.raises(ScheduledFormError, match="without calls"):
        verify_scheduled("func.func private @a()")


def test_text_that_is_no_mlir_names_the_line() -> None:
    with pytest.raises(MlirSyntaxError, match=r"(?s)kernel k is not valid MLIR.*line 2.*%a = arith.foo 1") as caught:
        verify_scheduled("func.func @k() {\n  %a = arith.foo 1\n return\n}", "kernel k")
    assert caught.value.problems[0].line == 2
