"""The numpy meaning of linalg ops, held against native code made from the same text, and against plain numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.mlir.modules import ELEMENT
from workbench.checking.replay.numpy_elementwise import ELEMENTS
from workbench.checking.replay.numpy_linalg import LinalgOp, read_ops
from workbench.ground.errors import ReplayError
from workbench.running.jit import compile_scheduled

FLOATS = torch.tensor([-2.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0, float("inf"), float("nan"), 0.75])
UNIT = torch.linspace(-0.99, 0.99, 12)
ABOVE = torch.linspace(0.01, 4.0, 12)
INTEGERS = torch.tensor([-7, -3, -1, 0, 1, 2, 3, 5, 8, 100, -100, 63], dtype=torch.int32)
DIVISORS = torch.tensor([2, -2, 3, 7, -7, 1, 2, -3, 5, 9, 11, 4], dtype=torch.int32)
BITS = torch.tensor([True, False] * 6)


def elementwise(body: str, inputs: list[torch.Tensor], result: torch.dtype) -> str:
    """A kernel of one `linalg.generic` over vectors: `body` makes %r from %v0, %v1, ..."""
    kinds = [ELEMENT[tensor.dtype] for tensor in inputs] + [ELEMENT[result]]
    size = inputs[0].numel()
    arguments = ", ".join(f"%x{i}: memref<{size}x{kind}>" for i, kind in enumerate(kinds))
    loads = "\n".join(
        f"%b{i} = memref.alloc() : memref<{size}x{kind}, 1>\n"
        f"linalg.copy ins(%x{i} : memref<{size}x{kind}>) outs(%b{i} : memref<{size}x{kind}, 1>)"
        for i, kind in enumerate(kinds)
    )
    last = len(inputs)
    names, types = ", ".join(f"%b{i}" for i in range(last)), ", ".join(f"memref<{size}x{k}, 1>" for k in kinds[:-1])
    head = ", ".join([*(f"%v{i}: {kind}" for i, kind in enumerate(kinds[:-1])), f"%o: {kinds[-1]}"])
    maps = ", ".join(["affine_map<(i) -> (i)>"] * len(kinds))
    out = f"memref<{size}x{kinds[-1]}, 1>"
    return f"""func.func @k({arguments}) {{
    {loads}
    linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({names} : {types}) outs(%b{last} : {out}) {{
    ^bb0({head}):
      {body}
      linalg.yield %r : {kinds[-1]}
    }}
    linalg.copy ins(%b{last} : {out}) outs(%x{last} : memref<{size}x{kinds[-1]}>)
    return
    }}"""


def the_generic(text: str) -> LinalgOp:
    ops = read_ops(text, "k")
    return next(ops[line] for line, content in enumerate(text.splitlines(), 1) if "linalg.generic" in content)


def raw(tensor: torch.Tensor) -> npt.NDArray[np.generic]:
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def both(body: str, inputs: list[torch.Tensor], result: torch.dtype) -> tuple[torch.Tensor, npt.NDArray[np.generic]]:
    """Runs one body in native code and in numpy."""
    text = elementwise(body, inputs, result)
    native = torch.zeros(inputs[0].numel(), dtype=result)
    compile_scheduled(text, "k")([*inputs, native])
    op = the_generic(text)
    tiles = [element.from_memory(raw(tensor)) for element, tensor in zip(op.elements, [*inputs, native], strict=True)]
    (values,) = op.execute(tiles, ())
    return native, op.elements[-1].to_memory(values)


F1 = [
    f"math.{name} %v0"
    for name in [
        "absf",
        "ceil",
        "floor",
        "trunc",
        "roundeven",
        "round",
        "exp",
        "exp2",
        "expm1",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "sinh",
        "cosh",
        "atan",
        "asinh",
        "cbrt",
    ]
] + ["arith.negf %v0"]
ON_UNIT = [f"math.{name} %v0" for name in ["asin", "acos", "atanh", "erfc", "log1p"]]
ON_POSITIVE = [f"math.{name} %v0" for name in ["log", "log2", "log10", "sqrt", "rsqrt"]]
F2 = [
    f"arith.{name} %v0, %v1"
    for name in ["addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf"]
]
I2 = [
    f"arith.{name} %v0, %v1"
    for name in [
        "addi",
        "subi",
        "muli",
        "divsi",
        "divui",
        "remsi",
        "remui",
        "floordivsi",
        "ceildivsi",
        "andi",
        "ori",
        "xori",
        "maxsi",
        "minsi",
        "maxui",
        "minui",
    ]
]
B2 = [
    f"arith.{name} %v0, %v1"
    for name in ["addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui"]
]
CMPF = [
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "false",
    "true",
]
CMPI = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]

CASES: dict[str, tuple[str, list[torch.Tensor], torch.dtype]] = {
    **{op: (f"%r = {op} : f32", [FLOATS], torch.float32) for op in F1},
    **{op: (f"%r = {op} : f32", [UNIT], torch.float32) for op in ON_UNIT},
    **{op: (f"%r = {op} : f32", [ABOVE], torch.float32) for op in ON_POSITIVE},
    **{op: (f"%r = {op} : f32", [FLOATS, FLOATS.flip(0)], torch.float32) for op in F2},
    "powf": ("%r = math.powf %v0, %v1 : f32", [ABOVE, UNIT], torch.float32),
    "atan2": ("%r = math.atan2 %v0, %v1 : f32", [ABOVE, UNIT], torch.float32),
    "copysign": ("%r = math.copysign %v0, %v1 : f32", [ABOVE, UNIT], torch.float32),
    "fma": ("%r = math.fma %v0, %v1, %v1 : f32", [ABOVE, UNIT], torch.float32),
    **{op: (f"%r = {op} : i32", [INTEGERS, DIVISORS], torch.int32) for op in I2},
    **{f"{op} of bits": (f"%r = {op} : i1", [BITS, BITS.roll(3)], torch.bool) for op in B2},
    "shli": ("%r = arith.shli %v0, %v1 : i32", [INTEGERS, DIVISORS.abs()], torch.int32),
    "shrsi": ("%r = arith.shrsi %v0, %v1 : i32", [INTEGERS, DIVISORS.abs()], torch.int32),
    "shrui": ("%r = arith.shrui %v0, %v1 : i32", [INTEGERS, DIVISORS.abs()], torch.int32),
    **{f"cmpf {p}": (f"%r = arith.cmpf {p}, %v0, %v1 : f32", [FLOATS, FLOATS.roll(1)], torch.bool) for p in CMPF},
    "cmpf of itself": ("%r = arith.cmpf oeq, %v0, %v0 : f32", [FLOATS], torch.bool),
    **{f"cmpi {p}": (f"%r = arith.cmpi {p}, %v0, %v1 : i32", [INTEGERS, DIVISORS], torch.bool) for p in CMPI},
    "cmpi slt of bits": ("%r = arith.cmpi slt, %v0, %v1 : i1", [BITS, BITS.roll(3)], torch.bool),
    "select": ("%r = arith.select %v0, %v1, %v2 : f32", [BITS, FLOATS, FLOATS.flip(0)], torch.float32),
    "extf": ("%r = arith.extf %v0 : f16 to f32", [FLOATS.half()], torch.float32),
    "truncf": ("%r = arith.truncf %v0 : f32 to f16", [FLOATS * 0.3], torch.float16),
    "truncf to bf16": ("%r = arith.truncf %v0 : f32 to bf16", [FLOATS * 0.3], torch.bfloat16),
    "extf of bf16": ("%r = arith.extf %v0 : bf16 to f32", [(FLOATS * 0.3).bfloat16()], torch.float32),
    "mulf of bf16": ("%r = arith.mulf %v0, %v0 : bf16", [UNIT.bfloat16()], torch.bfloat16),
    "sitofp": ("%r = arith.sitofp %v0 : i32 to f32", [INTEGERS], torch.float32),
    "uitofp": ("%r = arith.uitofp %v0 : i32 to f32", [INTEGERS], torch.float32),
    "sitofp of bits": ("%r = arith.sitofp %v0 : i1 to f32", [BITS], torch.float32),
    "uitofp of bits": ("%r = arith.uitofp %v0 : i1 to f32", [BITS], torch.float32),
    "fptosi": ("%r = arith.fptosi %v0 : f32 to i32", [UNIT * 50], torch.int32),
    "extsi": ("%r = arith.extsi %v0 : i32 to i64", [INTEGERS], torch.int64),
    "extui": ("%r = arith.extui %v0 : i32 to i64", [INTEGERS], torch.int64),
    "extsi of bits": ("%r = arith.extsi %v0 : i1 to i32", [BITS], torch.int32),
    "trunci": ("%r = arith.trunci %v0 : i32 to i8", [INTEGERS * 37], torch.int8),
    "trunci to bits": ("%r = arith.trunci %v0 : i32 to i1", [INTEGERS], torch.bool),
    "bitcast": ("%r = arith.bitcast %v0 : f32 to i32", [FLOATS], torch.int32),
    "index": ("%i = linalg.index 0 : index\n%r = arith.index_cast %i : index to i64", [FLOATS], torch.int64),
    "affine": (
        "%i = linalg.index 0 : index\n%j = affine.apply affine_map<(d0) -> (d0 * 3 + 1)>(%i)\n"
        "%r = arith.index_cast %j : index to i64", [FLOATS], torch.int64),
    "isnan": ("%r = math.isnan %v0 : f32", [FLOATS], torch.bool),
    "isfinite": ("%r = math.isfinite %v0 : f32", [FLOATS], torch.bool),
    "constant": ("%c = arith.constant 2.5 : f32\n%r = arith.addf %v0, %c : f32", [FLOATS], torch.float32),
}  # fmt: skip


@pytest.mark.test_all(but=37)
@pytest.mark.parametrize("name", CASES)
def test_numpy_and_native_code_agree(name: str) -> None:
    body, inputs, result = CASES[name]
    native, ours = both(body, inputs, result)
    np.testing.assert_allclose(ours, raw(native), rtol=3e-6, atol=3e-7, equal_nan=True)
    assert ours.dtype == raw(native).dtype


def generic(maps: list[str], kinds: list[str], types: list[str], body: str, inputs: int) -> LinalgOp:
    """One generic op over scratchpad memrefs of the given types; `body` yields itself."""
    arguments = ", ".join(f"%x{i}: memref<{kind}, 1>" for i, kind in enumerate(types))
    head = ", ".join(f"%v{i}: {kind.split('x')[-1]}" for i, kind in enumerate(types))
    names = [", ".join(f"%x{i}" for i in part) for part in (range(inputs), range(inputs, len(types)))]
    listed = [", ".join(f"memref<{kind}, 1>" for kind in part) for part in (types[:inputs], types[inputs:])]
    iterators = ", ".join(f'"{kind}"' for kind in kinds)
    text = f"""func.func @k({arguments}) {{
    linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{each}>" for each in maps)}],
                     iterator_types = [{iterators}]}}
      ins({names[0]} : {listed[0]}) outs({names[1]} : {listed[1]}) {{
    ^bb0({head}):
    {body}
    }}
    return
    }}"""
    return the_generic(text)


def randoms(*shapes: tuple[int, ...]) -> list[npt.NDArray[np.float32]]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


ADD = "%r = arith.addf %v0, %v1 : f32\nlinalg.yield %r : f32"
MULTIPLY_ADD = "%p = arith.mulf %v0, %v1 : f32\n%r = arith.addf %v2, %p : f32\nlinalg.yield %r : f32"


def test_row_sum_adds_to_what_is_there() -> None:
    op = generic(["(r, c) -> (r, c)", "(r, c) -> (r)"], ["parallel", "reduction"], ["4x9xf32", "4xf32"], ADD, 1)
    x, old = randoms((4, 9), (4,))
    np.testing.assert_allclose(op.execute([x, old], ())[0], old + x.sum(1), rtol=1e-6)


def test_a_value_that_does_not_vary_is_summed_once_a_point() -> None:
    op = generic(["(r, c) -> (r)", "(r, c) -> (c)", "(r, c) -> (r)"], ["parallel", "reduction"],
                 ["4xf32", "9xf32", "4xf32"], "%r = arith.addf %v2, %v0 : f32\nlinalg.yield %r : f32", 2)  # fmt: skip
    x, y, old = randoms((4,), (9,), (4,))
    np.testing.assert_allclose(op.execute([x, y, old], ())[0], old + 9 * x, rtol=1e-6)


@pytest.mark.parametrize("b_t", [False, True])
def test_batched_contraction(b_t: bool) -> None:
    b_map, b_shape = ("(b, n, k)", (3, 6, 7)) if b_t else ("(b, k, n)", (3, 7, 6))
    op = generic(
        ["(b, m, n, k) -> (b, m, k)", f"(b, m, n, k) -> {b_map}", "(b, m, n, k) -> (b, m, n)"],
        ["parallel", "parallel", "parallel", "reduction"],
        ["3x5x7xf32", "x".join(map(str, b_shape)) + "xf32", "3x5x6xf32"],
        MULTIPLY_ADD,
        2,
    )
    a, b, old = randoms((3, 5, 7), b_shape, (3, 5, 6))
    expected = old + a @ (b.transpose(0, 2, 1) if b_t else b)
    np.testing.assert_allclose(op.execute([a, b, old], ())[0], expected, rtol=1e-5, atol=1e-5)


def test_contraction_with_a_dim_neither_factor_has() -> None:
    """`sum over k and j of a[m] * b[k]`, where j is known from another operand only."""
    body = "%p = arith.mulf %v0, %v1 : f32\n%r = arith.addf %v3, %p : f32\nlinalg.yield %r : f32"
    op = generic(
        ["(m, k, j) -> (m)", "(m, k, j) -> (k)", "(m, k, j) -> (j)", "(m, k, j) -> (m)"],
        ["parallel", "reduction", "reduction"], ["5xf32", "7xf32", "2xf32", "5xf32"], body, 3,
    )  # fmt: skip
    a, b, c, old = randoms((5,), (7,), (2,), (5,))
    np.testing.assert_allclose(op.execute([a, b, c, old], ())[0], old + 2 * a * b.sum(), rtol=1e-5, atol=1e-5)


def test_convolution_reads_sums_of_dims() -> None:
    op = generic(["(i, k) -> (i * 2 + k)", "(i, k) -> (k)", "(i, k) -> (i)"], ["parallel", "reduction"],
                 ["11xf32", "3xf32", "5xf32"], MULTIPLY_ADD, 2)  # fmt: skip
    x, w, old = randoms((11,), (3,), (5,))
    expected = old + [x[2 * i : 2 * i + 3] @ w for i in range(5)]
    np.testing.assert_allclose(op.execute([x, w, old], ())[0], expected, rtol=1e-5, atol=1e-5)


def test_a_result_may_be_transposed_and_have_unit_axes() -> None:
    op = generic(["(i, j) -> (i, j)", "(i, j) -> (j, 0, i)"], ["parallel", "parallel"], ["2x3xf32", "3x1x2xf32"],
                 "linalg.yield %v0 : f32", 1)  # fmt: skip
    (x,) = randoms((2, 3))
    (values,) = op.execute([x, np.zeros((3, 1, 2), np.float32)], ())
    assert np.array_equal(values[:, 0, :], x.T)


def test_a_body_that_is_no_single_combiner_walks_the_points() -> None:
    """argmax: the value and its index are carried together."""
    body = """%i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i64
    %more = arith.cmpf ogt, %v0, %v1 : f32
    %a = arith.select %more, %v0, %v1 : f32
    %b = arith.select %more, %n, %v2 : i64
    linalg.yield %a, %b : f32, i64"""
    op = generic(["(r, c) -> (r, c)", "(r, c) -> (r)", "(r, c) -> (r)"], ["parallel", "reduction"],
                 ["4x9xf32", "4xf32", "4xi64"], body, 1)  # fmt: skip
    (x,) = randoms((4, 9))
    best, where = op.execute([x, np.full(4, -np.inf, np.float32), np.zeros(4, np.int64)], ())
    assert np.array_equal(best, x.max(1))
    assert np.array_equal(where, x.argmax(1))


def test_online_softmax_depends_on_its_own_accumulators() -> None:
    """The running sum is rescaled by the running maximum: folding the two apart would be wrong."""
    body = """%m = arith.maximumf %v0, %v1 : f32
    %d0 = arith.subf %v1, %m : f32
    %e0 = math.exp %d0 : f32
    %s0 = arith.mulf %v2, %e0 : f32
    %d1 = arith.subf %v0, %m : f32
    %e1 = math.exp %d1 : f32
    %s = arith.addf %s0, %e1 : f32
    linalg.yield %m, %s : f32, f32"""
    op = generic(["(r, c) -> (r, c)", "(r, c) -> (r)", "(r, c) -> (r)"], ["parallel", "reduction"],
                 ["4x9xf32", "4xf32", "4xf32"], body, 1)  # fmt: skip
    (x,) = randoms((4, 9))
    top, total = op.execute([x, np.full(4, -np.inf, np.float32), np.zeros(4, np.float32)], ())
    np.testing.assert_allclose(total, np.exp(x - x.max(1, keepdims=True)).sum(1), rtol=1e-6)
    assert np.array_equal(top, x.max(1))


@pytest.mark.parametrize(("counters", "first"), [((0,), 10), ((2,), 18)])
def test_values_from_around_the_op_follow_the_loop(counters: tuple[int, ...], first: int) -> None:
    """`10 + 4 * iteration + index`, as a tiled arange computes it."""
    text = """func.func @k() {
    %c10 = arith.constant 10 : index
    %c30 = arith.constant 30 : index
    %c4 = arith.constant 4 : index
    %t = memref.alloc() : memref<4xi64, 1>
    scf.for %i = %c10 to %c30 step %c4 {
      linalg.generic {indexing_maps = [affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
        outs(%t : memref<4xi64, 1>) {
      ^bb0(%o: i64):
        %n = linalg.index 0 : index
        %at = affine.apply affine_map<(a, b) -> (a + b)>(%i, %n)
        %r = arith.index_cast %at : index to i64
        linalg.yield %r : i64
      }
    }
    return
    }"""
    (values,) = the_generic(text).execute([np.zeros(4, np.int64)], counters)
    assert values.tolist() == list(range(first, first + 4))


def test_named_ops_have_the_meaning_of_their_generic_form() -> None:
    text = """func.func @k(%a: memref<2x3xf32, 1>, %b: memref<3x4xf32, 1>, %c: memref<2x4xf32, 1>) {
    %half = arith.constant 0.5 : f32
    linalg.fill ins(%half : f32) outs(%c : memref<2x4xf32, 1>)
    linalg.matmul ins(%a, %b : memref<2x3xf32, 1>, memref<3x4xf32, 1>) outs(%c : memref<2x4xf32, 1>)
    linalg.exp ins(%c : memref<2x4xf32, 1>) outs(%c : memref<2x4xf32, 1>)
    return
    }"""
    ops = read_ops(text, "k")
    assert sorted(ops) == [3, 4, 5]
    a, b, c = randoms((2, 3), (3, 4), (2, 4))
    (filled,) = ops[3].execute([c], ())
    assert filled.tolist() == np.full((2, 4), 0.5).tolist()
    (product,) = ops[4].execute([a, b, filled], ())
    np.testing.assert_allclose(product, a @ b + 0.5, rtol=1e-6)
    np.testing.assert_allclose(ops[5].execute([product, product], ())[0], np.exp(product), rtol=1e-6)


def test_an_op_without_meaning_is_named() -> None:
    op = the_generic(elementwise("%c = math.ctpop %v0 : i32\n%r = math.absi %c : i32", [INTEGERS], torch.int32))
    with pytest.raises(ReplayError, match=r"math\.ctpop has no meaning in numpy yet"):
        op.execute([raw(INTEGERS), raw(INTEGERS)], ())


def test_boxes_may_leave_out_axes_of_one_element() -> None:
    maps = ["(a, b, c, d, e, f) -> (a, b, c, d, e, f)", "(a, b, c, d, e, f) -> (f, b)"]
    kinds = ["reduction", "parallel", "reduction", "reduction", "reduction", "parallel"]
    op = generic(maps, kinds, ["1x?x3x1x2x4xf32", "4x?xf32"], ADD, 1)
    x, old = randoms((5, 3, 2, 4), (4, 5))
    np.testing.assert_allclose(op.execute([x, old], ())[0], old + x.sum((1, 2)).T, rtol=1e-5)
    x, old = randoms((3, 2, 4), (4, 1))
    np.testing.assert_allclose(op.execute([x, old], ())[0], old + x.sum((0, 1))[:, None], rtol=1e-5)
    with pytest.raises(ReplayError, match="does not tell which"):
        op.execute(randoms((3, 4), (4, 1)), ())


def test_operands_that_disagree_on_an_extent_are_refused() -> None:
    op = generic(["(r, c) -> (r, c)", "(r, c) -> (r)"], ["parallel", "reduction"], ["4x9xf32", "4xf32"], ADD, 1)
    with pytest.raises(ReplayError, match="dim 0 is 4 and 5 long"):
        op.execute(randoms((4, 9), (5,)), ())


def test_bf16_rounds_to_nearest_even_like_torch() -> None:
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0)) * 1e3
    ours = ELEMENTS["bf16"].to_memory(values.numpy())
    assert np.array_equal(ours, raw(values.bfloat16()))
