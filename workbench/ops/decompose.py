"""Ops that are made of others: each one's own formula, as a table from overload to function.

A formula is written with `b`, which adds one ATen call at a time to the record and gives back a reference to its
result. Types come from running the call on meta tensors, so a formula costs microseconds and no tracing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch

from workbench.ir import Node, Origin, Ref, TensorType
from workbench.ops.literals import call, from_arg, to_arg, to_dtype, to_type

Formula = Callable[..., "Ref | None"]

SQRT_HALF = math.sqrt(0.5)
SQRT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715
"""The coefficient of the cubic in the tanh form of gelu, part of its definition."""
HALF = (torch.float16, torch.bfloat16)


class Builder:
    """Adds calls to a record in the name of one parent node."""

    def __init__(self, parent: Origin, types: dict[str, TensorType], taken: set[str]) -> None:
        self.nodes: list[Node] = []
        self._parent, self._types, self._taken = parent, types, taken

    def __call__(self, op: str, *args: object, **kwargs: object) -> Ref:
        """One ATen call with one result."""
        name = self._name(op.split(".")[1])
        recorded = {key: to_arg(value) for key, value in kwargs.items()}
        node = Node(name, op, tuple(to_arg(arg) for arg in args), recorded, (name,), self._parent)
        self._types[name] = infer(node, self._types)[0]
        self.nodes.append(node)
        return Ref(name)

    def _name(self, op: str) -> str:
        base = f"{self._parent.node}.{op.strip('_')}"
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def type(self, value: Ref) -> TensorType:
        return self._types[value.value]

    def rank(self, value: Ref) -> int:
        return len(self.type(value).shape)

    def extent(self, value: Ref, dims: list[int]) -> int:
        """How many elements a reduction over `dims` puts into one."""
        return math.prod(self.type(value).shape[dim] for dim in dims)

    def dims(self, value: Ref, dims: int | list[int] | None) -> list[int]:
        """`dims` as torch takes them, one, several, none or empty for all, as a list without negatives."""
        rank = self.rank(value)
        if dims is None or dims == []:
            return list(range(rank))
        return [dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)]


def meta_tensor(type_: TensorType) -> torch.Tensor:
    """A tensor of this type without data, as if it were a view of a storage that begins at 0."""
    reach = sum((n - 1) * s for n, s in zip(type_.shape, type_.strides, strict=True)) + 1 if type_.numel else 0
    storage = torch.empty(type_.offset + reach, dtype=to_dtype(type_.dtype), device="meta")
    return storage.as_strided(type_.shape, type_.strides, type_.offset)


def infer(node: Node, types: Mapping[str, TensorType]) -> tuple[TensorType, ...]:
    """Types of a node's results, found by running it on meta tensors."""
    overrides = {"device": "meta"} if "device" in node.kwargs else {}
    return tuple(to_type(found) for found in call(node, lambda value: meta_tensor(types[value]), **overrides))


def expand(node: Node, types: dict[str, TensorType], taken: set[str]) -> tuple[Node, ...] | None:
    """The nodes that `node` is made of, the first result keeping its name and type; None when nothing is to be done."""
    formula = FORMULAS.get(node.op)
    if formula is None:
        return None
    builder = Builder(node.origin, types, taken)
    args = [from_arg(arg, Ref) for arg in node.args]
    kwargs = {key: from_arg(arg, Ref) for key, arg in node.kwargs.items()}
    made = formula(builder, *args, **kwargs)
    if made is None:
        return None
    dtype = types[node.results[0]].dtype
    if builder.type(made).dtype != dtype:
        made = builder("aten._to_copy.default", made, dtype=to_dtype(dtype))
    if not builder.nodes:  # the formula found nothing to do: the result is its argument under a new name
        made = builder("aten.alias.default", made)
    del types[made.value]
    names = {made.value: node.results[0]}
    return tuple(renamed(child, names) for child in builder.nodes)


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """`node` with values renamed, its own name following its result."""
    found = replace(
        node,
        args=tuple(_rename_arg(arg, names) for arg in node.args),
        kwargs={key: _rename_arg(arg, names) for key, arg in node.kwargs.items()},
        results=tuple(names.get(result, result) for result in node.results),
    )
    return replace(found, name=found.results[0])


def _rename_arg(arg: Any, names: Mapping[str, str]) -> Any:
    return to_arg(from_arg(arg, lambda value: Ref(names.get(value, value))))


def softmax(b: Builder, x: Ref, dim: int, dtype: torch.dtype | None = None) -> Ref:
    x = _compute(b, x, dtype)
    exponentials = b("aten.exp.default", b("aten.sub.Tensor", x, b("aten.amax.default", x, [dim], True)))
    return b("aten.div.Tensor", exponentials, b("aten.sum.dim_IntList", exponentials, [dim], True))


def log_softmax(b: Builder, x: Ref, dim: int, dtype: torch.dtype | None = None) -> Ref:
    x = _compute(b, x, dtype)
    shifted = b("aten.sub.Tensor", x, b("aten.amax.default", x, [dim], True))
    total = b("aten.sum.dim_IntList", b("aten.exp.default", shifted), [dim], True)
    return b("aten.sub.Tensor", shifted, b("aten.log.default", total))


def _half_to_float(formula: Formula) -> Formula:
    """The private overloads end in a flag that asks for float results of half inputs."""

    def made(b: Builder, x: Ref, dim: int, half_to_float: bool) -> Ref | None:
        return formula(b, x, dim, torch.float32 if half_to_float else None)

    return made


def _compute(b: Builder, x: Ref, dtype: torch.dtype | None = None) -> Ref:
    """`x` as `dtype`, and then as float32 if that has 16 bits: PyTorch rounds the result, not each step."""
    for wanted in (dtype, torch.float32 if (dtype or to_dtype(b.type(x).dtype)) in HALF else None):
        if wanted is not None and wanted != to_dtype(b.type(x).dtype):
            x = b("aten._to_copy.default", x, dtype=wanted)
    return x


def mean(
    b: Builder, x: Ref, dim: int | list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref:
    x, dims = _compute(b, x, dtype), b.dims(x, dim)
    return b("aten.mul.Tensor", b("aten.sum.dim_IntList", x, dims, keepdim), 1.0 / b.extent(x, dims))


def mean_all(b: Builder, x: Ref, *, dtype: torch.dtype | None = None) -> Ref:
    return mean(b, x, dtype=dtype)


def sum_all(b: Builder, x: Ref, *, dtype: torch.dtype | None = None) -> Ref:
    x = _compute(b, x, dtype)
    return b("aten.sum.dim_IntList", x, b.dims(x, None), False)


def variance(
    b: Builder, x: Ref, dim: int | list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Ref:
    """The mean square distance from the mean, in two passes over the data: exact where one pass would cancel."""
    x, dims = _compute(b, x), b.dims(x, dim)
    centred = b("aten.sub.Tensor", x, mean(b, x, dims, True))
    squares = b("aten.sum.dim_IntList", b("aten.mul.Tensor", centred, centred), dims, keepdim)
    freedom = b.extent(x, dims) - (1.0 if correction is None else correction)
    return b("aten.mul.Tensor", squares, 1.0 / freedom if freedom > 0 else math.nan if freedom == 0 else math.inf)


def variance_dim(b: Builder, x: Ref, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False) -> Ref:
    return variance(b, x, dim, correction=float(unbiased), keepdim=keepdim)


def variance_all(b: Builder, x: Ref, unbiased: bool = True) -> Ref:
    return variance(b, x, correction=float(unbiased))


def _root(formula: Formula) -> Formula:
    def made(b: Builder, *args: object, **kwargs: object) -> Ref:
        return b("aten.sqrt.default", formula(b, *args, **kwargs))

    return made


def layer_norm(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5,
    _cudnn: bool = True,
) -> Ref:  # fmt: skip
    x, dims = _compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    centred = b("aten.sub.Tensor", x, mean(b, x, dims, True))
    spread = mean(b, b("aten.mul.Tensor", centred, centred), dims, True)
    scaled = b("aten.mul.Tensor", centred, b("aten.rsqrt.default", b("aten.add.Tensor", spread, eps)))
    return _affine(b, scaled, weight, bias)


def rms_norm(b: Builder, x: Ref, shape: list[int], weight: Ref | None = None, eps: float | None = None) -> Ref:
    epsilon = torch.finfo(to_dtype(b.type(x).dtype)).eps if eps is None else eps
    x, dims = _compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    power = mean(b, b("aten.mul.Tensor", x, x), dims, True)
    scaled = b("aten.mul.Tensor", x, b("aten.rsqrt.default", b("aten.add.Tensor", power, epsilon)))
    return _affine(b, scaled, weight, None)


def _affine(b: Builder, x: Ref, weight: Ref | None, bias: Ref | None) -> Ref:
    if weight is not None:
        x = b("aten.mul.Tensor", x, weight)
    return x if bias is None else b("aten.add.Tensor", x, bias)


def gelu(b: Builder, x: Ref, *, approximate: str = "none") -> Ref:
    x = _compute(b, x)
    half = b("aten.mul.Tensor", x, 0.5)
    if approximate == "none":
        bent = b("aten.erf.default", b("aten.mul.Tensor", x, SQRT_HALF))
    else:
        cube = b("aten.mul.Tensor", b("aten.mul.Tensor", x, x), x)
        inner = b("aten.add.Tensor", x, b("aten.mul.Tensor", cube, GELU_CUBIC))
        bent = b("aten.tanh.default", b("aten.mul.Tensor", inner, SQRT_TWO_OVER_PI))
    return b("aten.mul.Tensor", half, b("aten.add.Tensor", bent, 1.0))


def silu(b: Builder, x: Ref) -> Ref:
    x = _compute(b, x)
    return b("aten.mul.Tensor", x, b("aten.sigmoid.default", x))


def power(b: Builder, x: Ref, exponent: float) -> Ref | None:
    """Powers that are a few multiplications or a root, which is how PyTorch computes them too."""
    if exponent == 2:
        return b("aten.mul.Tensor", x, x)
    if exponent == 3:
        return b("aten.mul.Tensor", b("aten.mul.Tensor", x, x), x)
    simple = {0.5: "aten.sqrt.default", -0.5: "aten.rsqrt.default"}
    if exponent == -1:
        return reciprocal(b, x)
    return b(simple[exponent], x) if exponent in simple else None


def reciprocal(b: Builder, x: Ref) -> Ref:
    """The importer's own form ends the process on a zero, where PyTorch gives infinity."""
    return b("aten.div.Tensor", 1.0, x)


def sum_dim(
    b: Builder, x: Ref, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref | None:
    """A sum over no dims is the number itself; others only need a formula when they add up 16-bit floats."""
    if b.rank(x) == 0:
        return _compute(b, x, dtype)
    wide = _compute(b, x, dtype)
    return None if wide == x else b("aten.sum.dim_IntList", wide, b.dims(x, dim), keepdim)


def max_dim(b: Builder, x: Ref, dim: int, keepdim: bool = False) -> Ref:
    return b("aten.amax.default", x, [dim], keepdim)


def min_dim(b: Builder, x: Ref, dim: int, keepdim: bool = False) -> Ref:
    return b("aten.amin.default", x, [dim], keepdim)


def max_all(b: Builder, x: Ref) -> Ref:
    return b("aten.amax.default", x, b.dims(x, None), False)


def min_all(b: Builder, x: Ref) -> Ref:
    return b("aten.amin.default", x, b.dims(x, None), False)


def linear(b: Builder, x: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    """Rows times the transposed weight; more than one leading dim is flattened around the product."""
    lead, flat = list(b.type(x).shape[:-1]), x
    if b.rank(x) != 2:
        flat = b("aten.view.default", contiguous(b, x), [math.prod(lead), b.type(x).shape[-1]])
    made = b("aten.mm.default", flat, b("aten.permute.default", weight, [1, 0]))
    if bias is not None:
        made = b("aten.add.Tensor", made, bias)
    return made if b.rank(x) == 2 else b("aten.view.default", made, [*lead, b.type(made).shape[-1]])


def addmm(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    return _plus(b, c, b("aten.mm.default", x, y), beta, alpha)


def baddbmm(b: Builder, c: Ref, x: Ref, y: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    return _plus(b, c, b("aten.bmm.default", x, y), beta, alpha)


def _plus(b: Builder, c: Ref, product: Ref, beta: float, alpha: float) -> Ref:
    if alpha != 1:
        product = b("aten.mul.Tensor", product, alpha)
    if beta == 0:
        return product
    return b("aten.add.Tensor", product, c if beta == 1 else b("aten.mul.Tensor", c, beta))


def matmul(b: Builder, x: Ref, y: Ref) -> Ref:
    """`mm` for two matrices; vectors become matrices of one row or column; batches are broadcast and flattened."""
    x_rank, y_rank = b.rank(x), b.rank(y)
    left = b("aten.unsqueeze.default", x, 0) if x_rank == 1 else x
    right = b("aten.unsqueeze.default", y, 1) if y_rank == 1 else y
    made = _matrices(b, left, right)
    if y_rank == 1:
        made = b("aten.squeeze.dim", made, -1)
    return b("aten.squeeze.dim", made, -2 if y_rank > 1 else -1) if x_rank == 1 else made


def _matrices(b: Builder, x: Ref, y: Ref) -> Ref:
    x_shape, y_shape = b.type(x).shape, b.type(y).shape
    if len(x_shape) == 2 and len(y_shape) == 2:
        return b("aten.mm.default", x, y)
    if len(y_shape) == 2:  # one matrix for the whole batch: its rows can all go through one product
        flat = b("aten.view.default", contiguous(b, x), [math.prod(x_shape[:-1]), x_shape[-1]])
        return b("aten.view.default", b("aten.mm.default", flat, y), [*x_shape[:-1], y_shape[-1]])
    batch = _broadcast(x_shape[:-2], y_shape[:-2])
    left = _batched(b, x, batch)
    made = b("aten.bmm.default", left, _batched(b, y, batch))
    return made if len(batch) == 1 else b("aten.view.default", made, [*batch, x_shape[-2], y_shape[-1]])


def _broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> list[int]:
    """Two shapes aligned at their ends, extents of one giving way."""
    rank = max(len(x), len(y))
    pairs = zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True)
    return [n if m == 1 else m for m, n in pairs]


def _batched(b: Builder, x: Ref, batch: list[int]) -> Ref:
    """`x` broadcast to `batch`, its batch dims flattened into one: a view where strides allow, else a copy."""
    rows, columns = b.type(x).shape[-2:]
    if list(b.type(x).shape) != [*batch, rows, columns]:
        x = b("aten.expand.default", x, [*batch, rows, columns])
    return x if len(batch) == 1 else reshape(b, x, [math.prod(batch), rows, columns])


def mv(b: Builder, x: Ref, y: Ref) -> Ref:
    return matmul(b, x, y)


def contiguous(b: Builder, x: Ref, *, memory_format: torch.memory_format = torch.contiguous_format) -> Ref:
    if meta_tensor(b.type(x)).is_contiguous(memory_format=memory_format):
        return x
    return b("aten.clone.default", x, memory_format=memory_format)


def reshape(b: Builder, x: Ref, shape: list[int]) -> Ref:
    """A view where strides can say it, else a copy and a view of that."""
    try:
        meta_tensor(b.type(x)).view(shape)
    except RuntimeError:
        x = b("aten.clone.default", x, memory_format=torch.contiguous_format)
    return b("aten.view.default", x, shape)


FORMULAS: Mapping[str, Formula] = cast(
    "dict[str, Formula]",
    {
        "aten.softmax.int": softmax,
        "aten._softmax.default": _half_to_float(softmax),
        "aten.log_softmax.int": log_softmax,
        "aten._log_softmax.default": _half_to_float(log_softmax),
        "aten.mean.dim": mean,
        "aten.mean.default": mean_all,
        "aten.sum.default": sum_all,
        "aten.sum.dim_IntList": sum_dim,
        "aten.var.correction": variance,
        "aten.var.dim": variance_dim,
        "aten.var.default": variance_all,
        "aten.std.correction": _root(variance),
        "aten.std.dim": _root(variance_dim),
        "aten.std.default": _root(variance_all),
        "aten.layer_norm.default": layer_norm,
        "aten.rms_norm.default": rms_norm,
        "aten.gelu.default": gelu,
        "aten.silu.default": silu,
        "aten.pow.Tensor_Scalar": power,
        "aten.reciprocal.default": reciprocal,
        "aten.max.dim": max_dim,
        "aten.min.dim": min_dim,
        "aten.max.default": max_all,
        "aten.min.default": min_all,
        "aten.linear.default": linear,
        "aten.addmm.default": addmm,
        "aten.baddbmm.default": baddbmm,
        "aten.matmul.default": matmul,
        "aten.mv.default": mv,
        "aten.dot.default": mv,
        "aten.contiguous.default": contiguous,
        "aten.reshape.default": reshape,
    },
)
