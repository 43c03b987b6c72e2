"""Right custom operators pass the check, and wrong ones fail: operators with the checks of their arguments that
libraries write, each with a kernel of ATen ops that is right, or made wrong on purpose.

    python -m tests.right_custom_ops [RUNS] [--from SEED]

A run draws the operator, its type and its shapes. Every fourth is repeated with a wrong kernel, whose last result is 5%
larger, or 1% in 32 bits.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import workbench as wb
from workbench.ground.errors import HostRoute

HALF = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, torch.float32, *HALF)


@torch.library.custom_op("rightops::linear_gelu", mutates_args=())
def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(F.linear(x, weight, bias))


@torch.library.custom_op("rightops::checked_linear", mutates_args=())
def checked_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "silu") -> Tensor:
    assert x.device.type == "cpu", "Input must be on the CPU"
    assert x.dtype in (torch.float32, *HALF), "Only FP32, FP16 and BF16 are supported"
    if weight.dtype != x.dtype:
        raise TypeError(f"weight is {weight.dtype}, expected {x.dtype}")
    torch._check(x.element_size() == torch.finfo(x.dtype).bits // 8)
    y = x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())
    assert y.dtype == x.dtype, "a product has the type of its operands"
    return F.silu(y) if activation == "silu" else y


@torch.library.custom_op("rightops::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    if x.dtype not in FLOATS or weight.dtype is not torch.float32:
        raise RuntimeError("x must be FP32, FP16 or BF16, and the weight FP32")
    wide = x.float()
    assert wide.dtype is torch.float32 and x.is_contiguous() and x.stride(-1) == 1
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


@torch.library.custom_op("rightops::softmax_parts", mutates_args=())
def softmax_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    if x.dtype != torch.float32:
        raise ValueError("expected float32")
    return torch.softmax(x, -1), torch.logsumexp(x, -1)


@torch.library.custom_op("rightops::silu_and_mul", mutates_args=("out",))
def silu_and_mul(out: Tensor, x: Tensor, y: Tensor) -> None:
    assert out.dtype == x.dtype == y.dtype and out.dtype in FLOATS
    assert out.shape == x.shape and out.nbytes == x.numel() * x.dtype.itemsize
    out.copy_(F.silu(x) * y)


@torch.library.custom_op("rightops::attention", mutates_args=())
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    assert q.dtype == k.dtype == v.dtype == torch.float32
    scores = torch.einsum("bqd,bkd->bqk", q, k) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


@torch.library.custom_op("rightops::exp_in_numpy", mutates_args=())
def exp_in_numpy(x: Tensor) -> Tensor:
    array = x.detach().numpy()
    return torch.from_numpy(np.exp(array).astype(array.dtype))


_LIBRARY = torch.library.Library("rightops", "FRAGMENT")
_LIBRARY.define("swiglu(Tensor x, Tensor up, Tensor gate) -> Tensor")


def _swiglu(x: Tensor, up: Tensor, gate: Tensor) -> Tensor:
    """Registers a function as libraries do without `custom_op`."""
    if {x.dtype, up.dtype, gate.dtype} - {torch.float32}:
        raise NotImplementedError("Only FP32 supported")
    return torch.matmul(x, up) * torch.sigmoid(torch.matmul(x, gate))


_LIBRARY.impl("swiglu", _swiglu, "CPU")

for _op, _fake in (
    (linear_gelu, lambda x, weight, bias=None: x.new_empty(x.shape[0], weight.shape[0])),
    (checked_linear, lambda x, weight, bias=None, activation="silu": x.new_empty(x.shape[0], weight.shape[0])),
    (rms_norm, lambda x, weight, eps=1e-6: torch.empty_like(x)),
    (softmax_parts, lambda x: (torch.empty_like(x), x.new_empty(x.shape[:-1]))),
    (attention, lambda q, k, v: torch.empty_like(q)),
    (exp_in_numpy, torch.empty_like),
):
    _op.register_fake(_fake)
torch.library.register_fake("rightops::swiglu", lambda x, up, gate: x.new_empty(x.shape[0], up.shape[1]))
torch.library.register_fake("rightops::silu_and_mul", lambda out, x, y: None)


def wrapped(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A function as a library puts it before its kernel: it checks what the kernel takes."""
    assert not x.is_cuda and x.dtype == weight.dtype, "one type"
    assert x.dtype in (torch.float32, *HALF), "Only FP32, FP16 and BF16 are supported"
    assert x.shape[-1] == weight.shape[-1]
    return torch.ops.rightops.linear_gelu(x, weight, bias)


def in_place(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    torch.ops.rightops.silu_and_mul(out, x, y)
    return out * 2


def _linear(info: Any) -> Any:
    x, weight, *bias = info.operands
    return info.call("aten.linear.default", x, weight, *bias)


def _norm(info: Any) -> Any:
    x, weight = info.operands
    dtype = info.result_types[0].dtype
    wide = x if dtype == "f32" else info.call("aten._to_copy.default", x, dtype=torch.float32)
    square = info.call("aten.mean.dim", info.call("aten.mul.Tensor", wide, wide), [-1], True)
    root = info.call("aten.rsqrt.default", info.call("aten.add.Scalar", square, info.arguments.get("eps", 1e-6)))
    made = info.call("aten.mul.Tensor", info.call("aten.mul.Tensor", wide, root), weight)
    return made if dtype == "f32" else info.call("aten._to_copy.default", made, dtype=getattr(torch, _NAMES[dtype]))


_NAMES = {"f16": "float16", "bf16": "bfloat16"}


def _attended(info: Any) -> Any:
    q, k, v = info.operands
    width = info.types[q.value].shape[-1]
    scores = info.call("aten.bmm.default", q, info.call("aten.transpose.int", k, 1, 2))
    weights = info.call("aten._softmax.default", info.call("aten.div.Scalar", scores, width**0.5), -1, False)
    return info.call("aten.bmm.default", weights, v)


def _gated(info: Any) -> Any:
    x, up, gate = info.operands
    opened = info.call("aten.sigmoid.default", info.call("aten.mm.default", x, gate))
    return info.call("aten.mul.Tensor", info.call("aten.mm.default", x, up), opened)


def _silu_and_mul(info: Any) -> Any:
    x, y = info.operands[-2:]
    return info.call("aten.mul.Tensor", info.call("aten.silu.default", x), y)


@dataclass(frozen=True)
class Family:
    """An operator in a program, its inputs, and its kernel as other ops."""

    op: str
    call: Callable[..., Any]
    inputs: Callable[[random.Random, torch.dtype], tuple[Any, ...]]
    kernel: Callable[[Any], Any]
    types: tuple[torch.dtype, ...] = FLOATS


def _size(lot: random.Random) -> int:
    return lot.choice((7, 16, 33, 64, 96))


def _products(lot: random.Random, dtype: torch.dtype) -> tuple[Any, ...]:
    rows, inner, columns = _size(lot), lot.choice((16, 64, 256)), _size(lot)
    given = [torch.randn(rows, inner), torch.randn(columns, inner)]
    given += [torch.randn(columns)] if lot.random() < 0.7 else []
    return tuple(each.to(dtype) for each in given)


def _alike(count: int) -> Callable[[random.Random, torch.dtype], tuple[Any, ...]]:
    def inputs(lot: random.Random, dtype: torch.dtype) -> tuple[Any, ...]:
        shape = _size(lot), _size(lot)
        return tuple(torch.randn(shape).to(dtype) for _ in range(count))

    return inputs


def _normed(lot: random.Random, dtype: torch.dtype) -> tuple[Any, ...]:
    rows, columns = _size(lot), _size(lot)
    return torch.randn(rows, columns).to(dtype), torch.randn(columns)


def _heads(lot: random.Random, dtype: torch.dtype) -> tuple[Any, ...]:
    shape = lot.choice((1, 3)), _size(lot), lot.choice((8, 32))
    return tuple(torch.randn(shape) for _ in range(3))


def _gates(lot: random.Random, dtype: torch.dtype) -> tuple[Any, ...]:
    rows, inner, columns = _size(lot), _size(lot), _size(lot)
    return torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(inner, columns)


SINGLE = (torch.float32,)
FAMILIES = (
    Family("linear_gelu", linear_gelu, _products, lambda info: info.call("aten.gelu.default", _linear(info))),
    Family("linear_gelu", wrapped, _products, lambda info: info.call("aten.gelu.default", _linear(info))),
    Family("checked_linear", checked_linear, _products, lambda info: info.call("aten.silu.default", _linear(info))),
    Family("rms_norm", rms_norm, _normed, _norm),
    Family("softmax_parts", softmax_parts, _alike(1), lambda info: [
        info.call("aten.logsumexp.default", info.operands[0], [-1]),
        info.call("aten._softmax.default", info.operands[0], -1, False)][::-1], SINGLE),
    Family("silu_and_mul", in_place, _alike(2), _silu_and_mul),
    Family("attention", attention, _heads, _attended, SINGLE),
    Family("exp_in_numpy", exp_in_numpy, _alike(1), lambda info: info.call("aten.exp.default", *info.operands), SINGLE),
    Family("swiglu", torch.ops.rightops.swiglu, _gates, _gated, SINGLE),
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One drawn operator, and what the check says of its kernel."""

    seed: int
    told: str
    wrong: bool
    ok: bool
    reference: str
    why: str

    @property
    def failed(self) -> bool:
        """True where the check is mistaken."""
        return self.ok == self.wrong

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.told}, made {'wrong' if self.wrong else 'right'}: {self.why or 'passes'}"


def run(seed: int, *, wrong: bool) -> Run:
    """Draws an operator and checks its kernel, made wrong or not."""
    lot = random.Random(seed)
    torch.default_generator.manual_seed(seed)
    family = FAMILIES[seed // 4 % len(FAMILIES)] if wrong else lot.choice(FAMILIES)
    dtype = lot.choice(family.types)
    given = family.inputs(lot, dtype)
    larger = 1.01 if dtype == torch.float32 else 1.05

    def kernel(info: Any) -> Any:
        made = family.kernel(info)
        if not wrong:
            return made
        *others, last = cast("list[Any]", made if isinstance(made, list) else [made])
        return [*others, info.call("aten.mul.Scalar", last, larger)]

    told = f"{family.op} of {', '.join('x'.join(map(str, each.shape)) for each in given)} in {dtype}"
    with wb.ops.scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore", HostRoute)
        wb.ops.conversion(f"rightops.{family.op}.default")(kernel)
        try:
            check = wb.trace(family.call, *given, machine="tpu-v3").check()
        except Exception as error:
            return Run(seed, told, wrong, wrong, "none", f"{type(error).__name__}: {error}")
    why = str(next((each.first_bad or each.problem for each in check.results if not each.ok), ""))
    return Run(seed, told, wrong, check.ok, check.results[0].reference, why)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("--from", type=int, default=0, dest="first")
    given = parser.parse_args()
    torch.set_num_threads(1)
    made, seeds = list[Run](), range(given.first, given.first + given.runs)
    for seed, wrong in [(seed, wrong) for seed in seeds for wrong in (False, True) if not wrong or seed % 4 == 3]:
        made.append(run(seed, wrong=wrong))
        if made[-1].failed:
            print(made[-1], flush=True)
    failed = [each for each in made if each.failed]
    narrow = Counter(f"{each.told.split()[0]}: {each.reference}" for each in made if each.reference != "float64")
    print(
        f"{given.runs} right operators: {sum(not each.wrong for each in failed)} fail; "
        f"{sum(each.wrong for each in made)} wrong ones: {sum(each.wrong for each in failed)} pass; "
        f"references that are not in float64: {dict(narrow) or 0}"
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
