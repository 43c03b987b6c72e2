"""Small programs over what lies in memory in odd ways, or is of an odd element type: by class, each with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

aten, prims = torch.ops.aten, torch.ops.prims

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def compound(*shape: int) -> torch.Tensor:
    return torch.complex(numbers(*shape), numbers(*shape).flip(0))


def of(function: Callable[..., Any], *inputs: Callable[[], Any]) -> Program:
    return function, lambda: tuple(make() for make in inputs)


def x() -> torch.Tensor:
    return numbers(4, 6)


def z() -> torch.Tensor:
    return compound(4, 6)


def v() -> torch.Tensor:
    return numbers(6)


def one() -> torch.Tensor:
    return torch.tensor(2.0)


def whole() -> torch.Tensor:
    return torch.arange(24).reshape(4, 6)


def short() -> torch.Tensor:
    return numbers(16, 16).to(torch.float8_e4m3fn)


def unsigned() -> torch.Tensor:
    return torch.arange(12).to(torch.uint16).reshape(3, 4)


def quantised() -> torch.Tensor:
    return torch.quantize_per_tensor(x(), 0.1, 0, torch.qint8)


def _changed_part(z: torch.Tensor) -> torch.Tensor:
    return z.real.mul_(2)


PROGRAMS: dict[str, dict[str, Program]] = {
    "parts of complex numbers": {
        "real": of(lambda z: z.real, z),
        "imag": of(lambda z: (z * 1).imag + 1, z),
        "both": of(lambda z: (z.real, z.imag, z * 2), z),
        "view_as_real": of(lambda z: torch.view_as_real(z), z),
        "view_as_real, part": of(lambda z: torch.view_as_real(z[:, 1:3]).sum(-1), z),
        "view_as_complex": of(lambda x: torch.view_as_complex(x.reshape(4, 3, 2)), x),
        "view_as_complex, computed": of(lambda x: torch.view_as_complex(x.reshape(4, 3, 2) * 2) * 2, x),
        "transposed": of(lambda z: z.t().real, z),
        "conjugate": of(lambda z: z.conj(), z),
        "conjugate's part": of(lambda z: z.conj().imag, z),
        "adjoint": of(lambda z: z.mH.real + 0, z),
        "changed": of(_changed_part, z),
        "instead of computed": of(lambda z: (z.imag, {"data": z.data}, z * 2), z),
        "as floats": of(lambda z: z.view(torch.float32), z),
    },
    "other element types of the same memory": {
        "returned": of(lambda x: x.view(torch.int32), x),
        "computed": of(lambda x: x.view(torch.int32) + 1, x),
        "narrower": of(lambda x: x.view(torch.int16), x),
        "wider": of(lambda x: x.half().view(torch.int32), x),
        "half": of(lambda x: x.half().view(torch.int16), x),
        "there and back": of(lambda x: (x.half().view(torch.int16) & 0x7FFF).view(torch.half) * 1, x),
        "bytes": of(lambda x: x.view(torch.uint8), x),
        "of a part": of(lambda x: x[1:, 2:4].view(torch.int32), x),
    },
    "as_strided": {
        "after expand": of(lambda x: x.expand(3, 4, 6).as_strided((3, 2), (0, 1)), x),
        "after slice": of(lambda x: x[1:].as_strided((2, 2), (1, 1)), x),
        "after slice of a result": of(lambda x: (x * 2)[1:, 2:].as_strided((2, 2), (6, 1), 3) + 1, x),
        "after expand of a result": of(lambda x: (x + 1)[:1].expand(3, 6).as_strided((3, 4), (0, 1)) * 2, x),
    },
    "linear of vectors": {
        "both": of(lambda x, w: F.linear(x, w), v, v),
        "weight": of(lambda x, w: F.linear(x, w), x, v),
        "input and bias": of(lambda x, w, b: F.linear(x, w, b), v, x, lambda: numbers(4)),
        "weight of halves": of(lambda x, w: F.linear(x.half(), w.half()), x, v),
    },
    "single numbers along a dim": {
        "mean": of(lambda x: (x.mean(dim=0), x.mean(-1, keepdim=True), x.sum(0)), one),
        "var": of(lambda x: x.var(0, correction=0), one),
        "extremes": of(lambda x: (x.amax(0), x.max(0), x.argmin(0)), one),
        "softmax": of(lambda x: (x.softmax(0), x.log_softmax(-1), x.logsumexp(0)), one),
        "scans": of(lambda x: (x.cumsum(0), x.sort(0)), one),
    },
    "cosine_similarity": {
        "one row": of(lambda x, y: F.cosine_similarity(x, y), x, lambda: numbers(1, 6)),
        "each with each": of(lambda x, y: F.cosine_similarity(x[:, None], y[None], dim=-1), x, lambda: numbers(3, 6)),
        "fewer dims": of(lambda x, y: F.cosine_similarity(x, y, dim=0), x, v),
    },
    "prims that are views": {
        "squeeze": of(lambda x: prims.squeeze(x * 2, [0]) + 1, lambda: numbers(1, 5)),
        "view_of": of(lambda x: prims.view_of(x), x),
        "split_dim": of(lambda x: prims.split_dim(x, 1, 2), x),
        "broadcast_in_dim": of(lambda x: prims.broadcast_in_dim(x, [2, 4, 6], [1, 2]), x),
        "collapse_view": of(lambda x: prims.collapse_view(x + 1, 0, 1) * 2, x),
        "transpose": of(lambda x: prims.transpose(x, [1, 0]), x),
        "real, conj": of(lambda z: (prims.real(z), prims.conj(z) * 1), z),
    },
    "numbers made of tensors": {
        "item": of(lambda x: x * x[0, 0].item(), x),
        "float": of(lambda x: x * float(x[0, 1]), x),
        "implicit float": of(lambda x, y: x * aten.FloatImplicit(y), x, one),
        "implicit int": of(lambda x, y: x * aten.IntImplicit(y), x, lambda: torch.tensor(2)),
        "scalar_tensor": of(lambda x: torch.scalar_tensor(x[0, 0].item()) + x, x),
    },
    "quantised": {
        "there and back": of(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() * 2, x),
        "returned": of(lambda x: torch.quantize_per_tensor(x * 2, 0.1, 3, torch.quint8), x),
        "given": of(lambda q: q.dequantize() * 2, quantised),
    },
    "mixed types": {
        "threshold_backward": of(lambda g, x: aten.threshold_backward(g, x, 0.0), x, lambda: x().double()),
        "of halves": of(lambda g, x: aten.threshold_backward(g, x, 0.5), lambda: x().half(), x),
        "of whole numbers": of(lambda g, x: aten.threshold_backward(g, x, 0) + 1, whole, x),
        "dropout": of(lambda g, m: aten.native_dropout_backward(g, m, 2.0), x, lambda: x() > 0),
    },
    "complex arithmetic": {
        "scaled, negative": of(lambda z: (z * 2, -z, 1 / z), z),
        "looked up": of(lambda z, i: z[i], z, lambda: torch.tensor([1, 2])),
        "angle": of(lambda z: (torch.angle(z), z.abs()), z),
        "with an imaginary number": of(lambda x: (x * 1j, x + (1 + 2j), torch.full((2,), 1j)), x),
        "chosen": of(lambda z: (torch.where(z.real > 0, z, -z), z.masked_fill(z.real > 0, 0)), z),
        "in place": of(lambda z: z.mul_(2), z),
        "of halves": of(lambda z: z.to(torch.complex32), z),
        "product": of(lambda z: (z @ z.mH, z.prod(), z.flip(0)), z),
    },
    "types without kernels": {
        "f8": of(lambda a: (a, a.float() * 2, a.view(torch.uint8), a.t(), a[1:3], a.clone()), short),
        "f8 between": of(lambda x: x.to(torch.float8_e5m2).float() + x.abs().to(torch.float8_e8m0fnu).float(), x),
        "f8 product": of(
            lambda a, b, s: torch._scaled_mm(a, b.t(), s, s, out_dtype=torch.float32) + 1, short, short, one
        ),
        "u16": of(lambda u: (u.int() * 2, u.t(), u == u, u[1], torch.cat([u, u])), unsigned),
        "u32": of(lambda x: x.view(torch.uint32) ^ 1, x),
        "u64": of(lambda i: i.to(torch.uint64), whole),
        "combinations": of(lambda v: (torch.combinations(v), torch.combinations(v, 2, True) * 2), v),
    },
    "a number beside itself": {
        "no NaN": of(lambda x: torch.where(x == x, x, 0.0), lambda: torch.tensor([1.0, torch.nan, torch.inf])),
        "whole numbers": of(lambda i: (i == i, torch.isfinite(i)), whole),
        "bits": of(lambda b: (b == b, torch.isfinite(b), torch.isnan(b)), lambda: x() > 0),
    },
    "powers of numbers": {
        "2 ** x": of(lambda x: 2**x, x),
        "pow": of(lambda x: (torch.pow(2.0, x), torch.pow(True, x)), x),
        "of whole numbers": of(lambda i: (2**i, torch.pow(300, i.to(torch.uint8))), whole),
        "as module": of(lambda x: torch.float_power(2, x), x),
    },
}
