"""Every element type through every stage: what PyTorch gives, to the bit for integers, NaN and infinities in place.

One program holds all ops that PyTorch takes for a type. Its inputs hold the corners of the type beside plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.machine.machine_file import load_machine
from simulator.tileprogram.program import Opcode
from tests.flow import Flow, count, flow
from tests.replaying import replayed
from tests.simulated_records import simulate
from workbench.operators.tensors.element_types import DTYPES

Op = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

KERNEL_DTYPES = [DTYPES[name] for name in ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool")]
CORNERS = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 100.0, -100.0, 3e4, -3e4, 1e-6, 2.0, -2.0, 3.0)
ROWS, COLUMNS = 6, 8

ARITHMETIC: dict[str, Op] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "add a number": lambda x, y: x + 3,
    "a number minus": lambda x, y: 3 - x,
    "mul a number": lambda x, y: x * -2,
    "mul a fraction": lambda x, y: x * 0.3,
    "add scaled": lambda x, y: torch.add(x, y, alpha=3),
    "number beyond": lambda x, y: x * 1000,
    "div": lambda x, y: x / y,
    "div by a number": lambda x, y: x / 3,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
    "sign": lambda x, y: torch.sign(x),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "clamp": lambda x, y: torch.clamp(x, 1, 3),
    "clamp to a fraction": lambda x, y: torch.clamp(x, max=0.3),
    "relu": lambda x, y: torch.relu(x),
    "square": lambda x, y: x**2,
    "fifth power": lambda x, y: x**5,
    "power": lambda x, y: x**y,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "hardtanh": lambda x, y: F.hardtanh(x, -1.0, 1.0),
    "and": lambda x, y: torch.bitwise_and(x, y),
    "or": lambda x, y: torch.bitwise_or(x, y),
    "not": lambda x, y: ~x,
}
COMPARISONS: dict[str, Op] = {
    "equal": lambda x, y: x == y,
    "less": lambda x, y: x < y,
    "greater than a number": lambda x, y: x > 1,
    "at least a negative": lambda x, y: x >= -1,
    "below a fraction": lambda x, y: x < 0.3,
    "logical and": lambda x, y: torch.logical_and(x, y),
    "logical not": lambda x, y: torch.logical_not(x),
}
FUNCTIONS: dict[str, Op] = {
    "exp": lambda x, y: torch.exp(x),
    "log": lambda x, y: torch.log(x),
    "sqrt": lambda x, y: torch.sqrt(x),
    "rsqrt": lambda x, y: torch.rsqrt(x),
    "tanh": lambda x, y: torch.tanh(x),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "reciprocal": lambda x, y: torch.reciprocal(x),
    "power of a fraction": lambda x, y: x**1.5,
    "inverse square": lambda x, y: x**-2,
    "floor": lambda x, y: torch.floor(x),
    "expm1": lambda x, y: torch.expm1(x),
    "log1p": lambda x, y: torch.log1p(x),
    "softplus": lambda x, y: F.softplus(x),
    "hardswish": lambda x, y: F.hardswish(x),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x),
    "elu": lambda x, y: F.elu(x),
    "silu": lambda x, y: F.silu(x),
    "leaky_relu": lambda x, y: F.leaky_relu(x),
}
REDUCTIONS: dict[str, Op] = {
    "sum": lambda x, y: x.sum(1),
    "sum of all": lambda x, y: x.sum(),
    "mean": lambda x, y: x.mean(0),
    "amax": lambda x, y: x.amax(1),
    "amin": lambda x, y: x.amin(0),
    "softmax": lambda x, y: torch.softmax(x, 1),
}
OPS = ARITHMETIC | COMPARISONS | FUNCTIONS | REDUCTIONS


def values(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Plain numbers, corners in every second row, in another order for each seed."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(16, generator=generator)
    if dtype.is_floating_point:
        made = torch.randn(ROWS, COLUMNS, generator=generator, dtype=torch.float64) * 3
        corners = torch.tensor(CORNERS, dtype=torch.float64)[order]
        made[0], made[2] = corners[:8], corners[8:]
        return made.to(dtype)
    if dtype == torch.bool:
        return torch.rand(ROWS, COLUMNS, generator=generator) > 0.5
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    made = torch.randint(0, 9, (ROWS, COLUMNS), generator=generator).to(dtype)
    corners = [low, low + 1, high, high - 1, high // 2, high // 3, 0, 1, 2, 3, 5, 7, 100, low, high, low // 2]
    made[0], made[2] = torch.tensor(corners, dtype=dtype)[order].view(2, 8)
    return made


def taken(dtype: torch.dtype) -> dict[str, Op]:
    """The ops that PyTorch itself takes for this type."""
    x, y = values(dtype, 0), values(dtype, 1)
    found: dict[str, Op] = {}
    for name, op in OPS.items():
        try:
            op(x, y)
        except (RuntimeError, TypeError):
            continue
        found[name] = op
    return found


def assert_alike(name: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.dtype == theirs.dtype, name
    if not theirs.dtype.is_floating_point:
        assert torch.equal(ours, theirs), name
        return
    rounding = 4 * torch.finfo(theirs.dtype).eps
    least = max(torch.finfo(theirs.dtype).smallest_normal, 1e-6 if theirs.dtype != torch.float64 else 1e-15)
    torch.testing.assert_close(
        ours, theirs, rtol=rounding, atol=least, equal_nan=True, msg=lambda said: f"{name}: {said}"
    )


def made(ops: dict[str, Op], dtype: torch.dtype, machine: str = "tpu-v3") -> Flow:
    def every(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: op(x, y) for name, op in ops.items()}

    return flow(every, (values(dtype, 0), values(dtype, 1)), machine=machine)


HALVES = {"arithmetic, reductions": ARITHMETIC | REDUCTIONS, "comparisons, functions": COMPARISONS | FUNCTIONS}


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("dtype", KERNEL_DTYPES, ids=str)
def test_every_op_gives_what_pytorch_gives(dtype: torch.dtype, half: str):
    program = made({name: op for name, op in taken(dtype).items() if name in HALVES[half]}, dtype)
    assert [node.node.op for node in program.lowered.nodes if node.route == "host"] == []
    inputs = values(dtype, 2), values(dtype, 3)
    found, expected = program.run(*inputs), program.function(*inputs)
    for name, theirs in expected.items():
        assert_alike(name, found[name], theirs)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
def test_numpy_reads_the_bodies_of_integers_alike(dtype: torch.dtype):
    program = made(taken(dtype), dtype, "edge-8x8")
    inputs = values(dtype, 2), values(dtype, 3)
    trace = simulate(program.lowered, program.scheduled, load_machine("edge-8x8"))
    found, expected = replayed(program, trace, inputs), program.function(*inputs)
    for (name, theirs), ours in zip(expected.items(), found, strict=True):
        assert_alike(name, ours, theirs)


MIXED: list[tuple[str, str, Op]] = [
    ("u8", "i8", lambda x, y: torch.maximum(x * y, x + y)),
    ("u8", "i64", lambda x, y: x * y),
    ("i64", "u8", lambda x, y: torch.minimum(x, y)),
    ("i64", "u8", lambda x, y: x / y),
    ("u8", "i8", lambda x, y: x < y),
    ("bool", "i32", lambda x, y: x + y),
    ("bool", "i64", lambda x, y: x > y),
    ("i32", "f16", lambda x, y: x.clamp(-9, 9) * y),
    ("f16", "bf16", lambda x, y: x + y),
    ("f16", "bf16", lambda x, y: torch.stack([x != x.bfloat16(), x.bfloat16() < x, x <= y])),
    ("f16", "bf16", lambda x, y: torch.xlogy(x, y.abs())),
    ("bf16", "f64", lambda x, y: x + y),
    ("u8", "f32", lambda x, y: x - y),
    ("i8", "u8", lambda x, y: torch.bitwise_and(x, y)),
]


@pytest.mark.test_all
def test_operands_of_two_types_promote_as_in_pytorch():
    for left, right, op in MIXED:
        inputs = values(DTYPES[left], 0), values(DTYPES[right], 1)
        program = flow(op, inputs)
        fresh = values(DTYPES[left], 2), values(DTYPES[right], 3)
        assert_alike(f"{left}, {right}", program.run(*fresh), op(*fresh))


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("right", ["bool", "u8", "f16"])
def test_a_choice_between_two_types_is_made_by_a_kernel(right: str):
    x, y = values(torch.int8, 0), values(DTYPES[right], 1)
    j = wb.trace(lambda x, y: torch.where(x > 0, x, y), x, y)
    assert set(j.lowered.table.route) <= {"automatic", "builder"}
    assert j.check().ok


@pytest.mark.test_all
def test_a_tensor_without_dims_gives_way_to_the_other_ones_type():
    x, whole, real = torch.arange(-4, 4, dtype=torch.int8), torch.tensor(300), torch.tensor(0.3, dtype=torch.float64)

    def mixed(x: torch.Tensor, whole: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + whole, torch.maximum(x, whole), x * real, (x.to(torch.float16) + real), x < whole

    program = flow(mixed, (x, whole, real))
    for ours, theirs in zip(program.run(x, whole, real), mixed(x, whole, real), strict=True):
        assert_alike("0-d", ours, theirs)


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("source", KERNEL_DTYPES, ids=str)
def test_casts_to_every_type(source: torch.dtype):
    """Floats that an integer type does not hold are left out: C leaves open what becomes of them, and so do we."""

    def casts(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.to(target) for target in KERNEL_DTYPES]

    program = flow(casts, [values(source, 0)])
    x = values(source, 2)
    if source.is_floating_point:
        x = torch.where(x.isfinite() & (x >= 0) & (x < 127), x, torch.full_like(x, 7.5))
    for target, ours, theirs in zip(KERNEL_DTYPES, program.run(x), casts(x), strict=True):
        assert_alike(f"{source} to {target}", ours, theirs)


def test_floats_beyond_a_type_become_infinite_and_nan_stays():
    def narrowed(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.to(torch.float32), x.to(torch.float16), x.to(torch.bfloat16), x.to(torch.bool)]

    x = torch.tensor([1e39, -1e39, 65520.0, 65519.0, 3.4e38, math.nan, math.inf, -0.0, 1e-50], dtype=torch.float64)
    for ours, theirs in zip(flow(narrowed, [x]).run(x), narrowed(x), strict=True):
        assert_alike(str(theirs.dtype), ours, theirs)


def product_inputs(dtype: torch.dtype, *shape: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(len(shape))
    info = torch.iinfo(dtype)
    low, high = max(info.min, -(2**40)), min(info.max, 2**40)
    return [torch.randint(low, high, each, generator=generator).to(dtype) for each in shape]


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((33, 70), (70, 20))),
    "bmm": (torch.bmm, ((3, 9, 20), (3, 20, 7))),
    "linear": (F.linear, ((2, 5, 30), (12, 30), (12,))),
    "addmm": (torch.addmm, ((20,), (9, 30), (30, 20))),
    "addmm scaled": (lambda c, x, y: torch.addmm(c, x, y, alpha=2, beta=3), ((9, 20), (9, 30), (30, 20))),
    "mv": (torch.mv, ((9, 30), (30,))),
}


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_products_of_integers_wrap_as_in_pytorch(dtype: torch.dtype, name: str):
    op, shapes = PRODUCTS[name]
    inputs = product_inputs(dtype, *shapes)
    program = flow(op, inputs, machine="edge-8x8")
    assert {node.route for node in program.lowered.nodes} <= {"automatic", "builder", "view"}
    assert_alike(name, program.run(*inputs), op(*inputs))


def test_a_product_of_bytes_sums_in_32_bits():
    x, y = product_inputs(torch.int8, (33, 300), (300, 40))
    program = flow(torch._int_mm, (x, y), machine="edge-8x8")
    found = program.run(x, y)
    assert found.dtype == torch.int32 and torch.equal(found, x.int() @ y.int())
    (kernel,) = program.scheduled.kernels
    assert "i8, memref" not in kernel.mlir  # nothing is widened before the product
    (replay,) = replayed(program, simulate(program.lowered, program.scheduled, program.machine), (x, y))
    assert torch.equal(replay, found)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_product_of_halves_is_rounded_once(dtype: torch.dtype):
    """A chain along k that rounded its sums would lose bits at every step; eager rounds the last sum only."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=generator).to(dtype) for shape in ((24, 2048), (2048, 20)))
    program = flow(torch.mm, (x, y), machine="edge-8x8", mapping={"*": {"tile": {"k": 64}}})
    exact = x.double() @ y.double()
    ours, eager = ((each.double() - exact).abs().max().item() for each in (program.run(x, y), x @ y))
    assert ours <= 1.5 * eager
    (kernel,) = program.scheduled.kernels
    assert count(kernel.program, Opcode.MATMUL) >= 2048 // 64


def test_what_a_body_widens_is_charged_as_wide():
    """Two tensors of f16 fit twice as many numbers into a lane, but not where the op computes in f32."""
    x = torch.ones(64, 64, dtype=torch.float16)
    (plain,), (widened,) = (flow(op, [x, x]).scheduled.kernels for op in (torch.add, lambda x, y: torch.sigmoid(x) + y))
    assert max(op.computed_bytes for op in plain.program.ops) == 2
    assert max(op.computed_bytes for op in widened.program.ops) == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_root_mean_square_of_halves_is_kept_from_zero_by_the_wide_types_epsilon(dtype: torch.dtype):
    x = torch.tensor([[0.05], [-0.03]], dtype=dtype)
    journey = wb.trace(lambda x: F.rms_norm(x, (1,)), x, machine="edge-8x8", on_missing="error")
    assert torch.equal(journey.run(x), F.rms_norm(x, (1,)))
    assert torch.equal(journey.run(x), torch.tensor([[1.0], [-1.0]], dtype=dtype))


@pytest.mark.test_all
def test_comparisons_of_bf16_are_right_where_their_answers_become_other_numbers():
    """Of all kinds, NaN and infinities among the numbers: x86's code generator cannot be left alone with them."""
    values = torch.tensor([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), -float("inf"), 3e38, 1e-40])
    x, y = values.bfloat16().repeat(9, 2), values.bfloat16()[:, None]
    comparisons = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(op(x, y).to(torch.int16) + 1 for op in comparisons)

    for ours, theirs in zip(wb.trace(f, x, y).run(x, y), f(x, y), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
