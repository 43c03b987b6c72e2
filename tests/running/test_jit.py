"""Native kernels: the numbers of rendered and scheduled modules, in every layout and element type, without leaks."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from tests.mlir.examples import broadcast_add, row_softmax, tiled_matmul
from tests.mlir.modules import memref, rendered
from workbench.ground.errors import NativeArgumentError, PassError, ScheduledFormError
from workbench.mlir.context import new_context, operations, run_passes
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.running.contraction_loops import speed_up_reductions
from workbench.running.jit import NativeKernel, compile_rendered, compile_scheduled


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


def filled_like(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same layout that holds none of the expected values."""
    out = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return out.fill_(float("nan") if tensor.is_floating_point() else 99)


@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
def test_scheduled_matmul_with_ragged_tiles(a_t: bool, b_t: bool) -> None:
    kernel = compile_scheduled(tiled_matmul(129, 61, 56, (32, 32, 16), a_t=a_t, b_t=b_t), "matmul")
    a, b, out = random(129, 56), random(56, 61), torch.full((129, 61), float("nan"))
    kernel([a.t().contiguous() if a_t else a, b.t().contiguous() if b_t else b, out])
    torch.testing.assert_close(out, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tile", [1, 7, 32, 100, 128])
def test_scheduled_softmax_with_ragged_rows(tile: int) -> None:
    x = random(100, 77)
    out = filled_like(x)
    compile_scheduled(row_softmax(100, 77, tile), "softmax")([x, out])
    torch.testing.assert_close(out, torch.softmax(x, 1))


def test_scheduled_arguments_may_be_strided_and_offset() -> None:
    """A transposed input and an output that is columns 3, 5, ... of a larger tensor, whose other columns stay."""
    x, whole = random(77, 100).t(), torch.zeros(100, 160)
    out = whole[:, 3:157:2]
    compile_scheduled(row_softmax(100, 77, 32, x=memref(x), out=memref(out)), "softmax")([x, out])
    torch.testing.assert_close(out, torch.softmax(x, 1))
    torch.testing.assert_close(whole.sum(), torch.tensor(100.0))


def test_scheduled_broadcast_reads_the_row_once() -> None:
    x, row, out = random(10, 6), random(6), torch.empty(10, 6)
    compile_scheduled(broadcast_add(10, 6, 4), "add")([x, row, out])
    assert torch.equal(out, x + row)


def test_buffers_in_a_loop_are_freed_too() -> None:
    """A kernel that allocates in its loop and never frees runs like any other."""
    text = row_softmax(100, 77, 32)
    lines = text.splitlines()
    allocs = [line for line in lines if "memref.alloc" in line]
    rest = [line for line in lines if "memref.alloc" not in line and "memref.dealloc" not in line]
    head = next(index for index, line in enumerate(rest) if "scf.for" in line)
    moved = "\n".join([*rest[: head + 1], *allocs, *rest[head + 1 :]])
    x = random(100, 77)
    out = filled_like(x)
    kernel = compile_scheduled(moved, "softmax")
    kernel([x, out])
    torch.testing.assert_close(out, torch.softmax(x, 1))
    assert growth(kernel, [x, out]) < 2e6


def test_a_module_in_another_form_is_refused() -> None:
    arguments, body = "%x: memref<4xf32>, %y: memref<4xf32>", "memref.copy %x, %y : memref<4xf32> to memref<4xf32>"
    with pytest.raises(ScheduledFormError, match=r"memref\.copy is not part of"):
        compile_scheduled(f"func.func @k({arguments}) {{\n{body}\nreturn }}", "k")


def test_a_kernel_cannot_shadow_a_library_function_it_calls() -> None:
    """A kernel named like the C function its body calls would call itself."""
    x = random(5, 6)
    out = filled_like(x)
    compile_scheduled(row_softmax(5, 6, 2).replace("@softmax", "@erff").replace("math.exp ", "math.erf "), "erff")(
        [x, out]
    )
    erf = torch.erf(x - x.amax(1, keepdim=True))
    torch.testing.assert_close(out, erf / erf.sum(1, keepdim=True))


Function = Callable[..., torch.Tensor]
CASES: dict[str, tuple[Function, list[torch.Tensor]]] = {
    "add broadcast": (torch.add, [random(4, 8), random(8)]),
    "softmax": (lambda x: torch.softmax(x, -1), [random(100, 77)]),
    "softmax of columns": (lambda x: torch.softmax(x, 0), [random(100, 77)]),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), [random(100, 77)]),
    "gelu": (functional.gelu, [random(100, 77)]),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (77,), w, b), [random(100, 77), random(77), random(77)]),
    "linear": (functional.linear, [random(10, 77), random(30, 77), random(30)]),
    "both transposed": (lambda a, b: a.t() @ b.t(), [random(64, 32), random(48, 64)]),
    "bmm": (torch.bmm, [random(3, 64, 32), random(3, 32, 48)]),
    "var": (lambda x: x.var((0, 1)), [random(64, 32)]),
    "amax": (lambda x: x.amax(1), [random(64, 32)]),
    "argmax": (lambda x: x.argmax(1), [random(64, 32)]),
    "conv": (lambda x, w: functional.conv2d(x, w, padding=1), [random(2, 3, 16, 16), random(8, 3, 3, 3)]),
    "strided conv": (lambda x, w: functional.conv2d(x, w, stride=2), [random(2, 3, 17, 17), random(8, 3, 3, 3)]),
    "cat": (lambda a, b: torch.cat([a, b], 1), [random(2, 3), random(2, 5)]),
    "pad": (lambda x: functional.pad(x, (1, 2)), [random(2, 30)]),
    "copy of an input": (torch.clone, [random(5, 6)]),
    "strided inputs": (torch.add, [random(8, 4).t(), random(4, 20)[:, 3:19:2]]),
    "expanded input": (torch.add, [random(1, 8).expand(4, 8), random(4, 8)]),
    "0-d input": (torch.mul, [random(4, 8), torch.tensor(2.5)]),
    "0-d result": (torch.sum, [random(4, 8)]),
    "no elements": (lambda x: x + 1, [random(0, 5)]),
    "f64": (lambda a, b: a @ b, [random(9, 8).double(), random(8, 7).double()]),
    "f16": (lambda a, b: torch.relu(a @ b), [random(16, 8).half(), random(8, 16).half()]),
    "bf16": (lambda a, b: a * b + a, [random(16, 8).bfloat16(), random(8).bfloat16()]),
    "i64": (lambda a, b: a * b + 3, [torch.arange(12).view(3, 4), torch.arange(4)]),
    "i32": (lambda a, b: a - b, [torch.arange(12).int().view(3, 4), torch.arange(4).int()]),
    "i8": (torch.mul, [torch.arange(12, dtype=torch.int8).view(3, 4), torch.arange(4, dtype=torch.int8)]),
    "u8": (lambda x: x.float() * 2, [torch.arange(250, dtype=torch.uint8)]),
    "bool": (lambda a, b: (a > b) & (a > 0), [random(30), random(30).flip(0)]),
    "where": (torch.where, [random(30) > 0, random(30), random(30).flip(0)]),
}


@pytest.mark.test_all(but=10)
@pytest.mark.parametrize("name", CASES)
def test_rendered_kernel_computes_what_torch_does(name: str) -> None:
    function, inputs = CASES[name]
    expected = function(*inputs)
    out = filled_like(expected)
    compile_rendered(rendered(function, inputs, [out]), name)([*inputs, out])
    # Sums of 16-bit products are rounded at other places.
    slack = {torch.float16: 2e-2, torch.bfloat16: 2e-2}.get(out.dtype, 1e-5)
    torch.testing.assert_close(out, expected, rtol=slack, atol=slack)


def test_rendered_output_may_be_strided() -> None:
    x, whole = random(4, 6), torch.zeros(6, 9)
    out = whole[:, 1:5].t()
    compile_rendered(rendered(torch.neg, [x], [out]), "neg")([x, out])
    assert torch.equal(out, -x)
    assert torch.equal(whole[:, 5:], torch.zeros(6, 4))


def test_a_rendered_module_that_could_abort_is_refused() -> None:
    table, rows = random(40, 5), torch.tensor([3, 4, 0])
    text = rendered(lambda table, rows: functional.embedding(rows, table), [table, rows], [torch.empty(3, 5)])
    with pytest.raises(PassError, match=r"cf\.assert .*would end the process"):
        compile_rendered(text, "embedding")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth(kernel: NativeKernel, tensors: list[torch.Tensor]) -> int:
    """Bytes the process grew by in the last 900 of 1,000 calls."""
    for _ in range(100):
        kernel(tensors)
    before = resident()
    for _ in range(900):
        kernel(tensors)
    return resident() - before


def test_a_scheduled_call_leaves_nothing_behind() -> None:
    """Its buffers are 14 kB: leaked, 900 calls would keep 12 MB."""
    a, b, out = random(129, 56), random(56, 61), torch.empty(129, 61)
    assert growth(compile_scheduled(tiled_matmul(129, 61, 56, (32, 32, 16)), "matmul"), [a, b, out]) < 2e6


@pytest.mark.test_all
def test_a_rendered_call_leaves_nothing_behind() -> None:
    """Its temporaries are at least 200 x 300 x 4 bytes: leaked, 900 calls would keep 200 MB."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.softmax(functional.layer_norm(x, (300,)) @ w, -1)

    x, w, out = random(200, 300), random(300, 50), torch.empty(200, 50)
    assert growth(compile_rendered(rendered(function, [x, w], [out]), "k"), [x, w, out]) < 2e6
    torch.testing.assert_close(out, function(x, w), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("b_t", "nest"), [(False, ["reduction", "parallel"]), (True, ["reduction"])])
def test_a_matmul_s_innermost_loop_walks_memory_in_order(b_t: bool, nest: list[str]) -> None:
    """In the op's own loop order the tiles need thirty times eager's one-thread time; in this one about twice.

    Where memory order puts the sum innermost, its additions may be regrouped, or each would wait for the one before.
    The loops over what is not summed are outside already, around a block of sums that begins at zero.
    """
    text = tiled_matmul(512, 768, 768, (128, 128, 128), b_t=b_t)
    module = verify_scheduled(text, "matmul", new_context(torch_dialect=True))
    run_passes(module, "func.func(linalg-generalize-named-ops)")
    speed_up_reductions(module)
    loops = [op for op in operations(module.operation) if op.name == "linalg.generic" and "mulf" in str(op)]
    kinds = [re.findall(r"parallel|reduction", str(op.attributes["iterator_types"])) for op in loops]
    assert kinds == [nest]
    assert "arith.addf" in str(loops[0]) and "fastmath<reassoc,contract>" in str(loops[0])


def test_calls_may_overlap() -> None:
    """Every call has its own buffers."""
    kernel = compile_scheduled(row_softmax(300, 200, 32), "softmax")
    inputs = [random(300, 200) * scale for scale in range(1, 9)]
    outputs = [filled_like(x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: [kernel(list(pair)) for _ in range(20)], zip(inputs, outputs, strict=True)))
    for x, out in zip(inputs, outputs, strict=True):
        torch.testing.assert_close(out, torch.softmax(x, 1))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([torch.empty(100, 77)], r"softmax takes 2 tensors, 1 were given"),
        ([torch.empty(100, 77), torch.empty(77, 100)], r"argument 1 of softmax is \[77, 100\]"),
        ([torch.empty(100, 77).half(), torch.empty(100, 77)], r"argument 0 of softmax is .* torch\.float16"),
        ([torch.empty(77, 100).t(), torch.empty(100, 77)], r"strides \[1, 100\]; expected .*strides \[77, 1\]"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tensors: list[torch.Tensor], message: str) -> None:
    kernel = compile_scheduled(row_softmax(100, 77, 32), "softmax")
    with pytest.raises(NativeArgumentError, match=message):
        kernel(tensors)


def test_every_control_op_of_the_form_runs() -> None:
    """Branches, parallel and affine loops, and single elements read and written in DRAM.

    `out[i] = x[i] + 1`, doubled where i is at least 6, by two cores of five columns each.
    """
    text = """func.func @k(%x: memref<10xf32>, %out: memref<10xf32>) {
      %one = arith.constant 1.0 : f32
      %c5 = arith.constant 5 : index
      %c6 = arith.constant 6 : index
      scf.forall (%core) in (2) {
        %start = affine.apply affine_map<(d0) -> (d0 * 5)>(%core)
        affine.for %j = 0 to 5 {
          %i = arith.addi %start, %j : index
          %v = memref.load %x[%i] : memref<10xf32>
          %w = arith.addf %v, %one : f32
          %late = arith.cmpi sge, %i, %c6 : index
          %r = scf.if %late -> (f32) {
            %d = arith.addf %w, %w : f32
            scf.yield %d : f32
          } else {
            scf.yield %w : f32
          }
          memref.store %r, %out[%i] : memref<10xf32>
        }
      }
      return
    }"""
    x, out = random(10), torch.empty(10)
    compile_scheduled(text, "k")([x, out])
    assert torch.equal(out, torch.where(torch.arange(10) < 6, x + 1, 2 * (x + 1)))
