"""Each pointwise operator and reduction that has a kernel, and how the sweep calls it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

import workbench.journey  # noqa: F401 - hands the shipped operators to the registry
from workbench.operators.aten import automatic_route
from workbench.operators.aten.registry import DEFAULT
from workbench.operators.formulas import of_family

Numbers = Mapping[str, Any]
Unit = Literal["own", "row", "terms"]


@dataclass(frozen=True)
class Call:
    """One overload with each set of plain arguments that it is tried with."""

    overload: str
    variants: tuple[Numbers, ...]
    tensors: int
    reduces: bool
    unit: Unit
    """Unit of an error: a unit in the last place of the result itself; of the largest number of its row
    over the row's spread; or of the sum of the sizes of what was summed."""

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results of all variants; what takes a whole tensor is called for each row."""
        return self.by_row(self.once, tensors) if self.of_everything else self.once(*tensors)

    def once(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results of all variants of these tensors as they are."""
        op = SPECIAL.get(self.overload) or operator(self.overload)
        return tuple(made for variant in self.variants for made in results(op(*tensors, **variant)))

    def by_row(self, function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Calls a function for each row; stacks its results."""
        each = [function(*rows) for rows in zip(*(x.unbind() for x in tensors), strict=True)]
        return tuple(torch.stack(list(column)) for column in zip(*each, strict=True))

    @property
    def of_everything(self) -> bool:
        return self.overload in OF_EVERYTHING


def results(made: Any) -> tuple[torch.Tensor, ...]:
    return (made,) if isinstance(made, torch.Tensor) else tuple(made)


def operator(overload: str) -> Any:
    namespace, name, variant = overload.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), variant)


def _names(overloads: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in overloads.split())


OF_WHOLE = _names(
    """
    __and__.Scalar __and__.Tensor __lshift__.Scalar __lshift__.Tensor __or__.Scalar __or__.Tensor
    __rshift__.Scalar __rshift__.Tensor __xor__.Scalar __xor__.Tensor bitwise_and.Scalar
    bitwise_and.Scalar_Tensor bitwise_and.Tensor bitwise_left_shift.Scalar_Tensor bitwise_left_shift.Tensor
    bitwise_left_shift.Tensor_Scalar bitwise_not.default bitwise_or.Scalar bitwise_or.Scalar_Tensor
    bitwise_or.Tensor bitwise_right_shift.Scalar_Tensor bitwise_right_shift.Tensor
    bitwise_right_shift.Tensor_Scalar bitwise_xor.Scalar bitwise_xor.Scalar_Tensor bitwise_xor.Tensor
    """
)
"""Overloads that take whole numbers alone, which have no units in the last place."""

OF_EVERYTHING = _names(
    """
    all.default any.default argmax.default argmin.default aminmax.default count_nonzero.default dist.default
    max.default min.default mean.default norm.Scalar prod.default std.default std_mean.default sum.default
    var.default var_mean.default
    """
)
"""Reductions of a whole tensor."""

ALONG = _names(
    """
    _log_softmax.default _softmax.default all.dim all.dims amax.default amin.default any.dim any.dims
    cosine_similarity.default count_nonzero.dim_IntList cummax.default cummin.default cumprod.default
    cumsum.default layer_norm.default linalg_vector_norm.default log_softmax.int logcumsumexp.default
    logsumexp.default max.dim mean.dim min.dim nansum.default norm.ScalarOpt_dim pairwise_distance.default
    prod.dim_int rms_norm.default softmax.int std.correction std.dim std_mean.correction std_mean.dim
    sum.dim_IntList var.correction var.dim var_mean.correction var_mean.dim _native_batch_norm_legit.no_stats
    _native_batch_norm_legit_functional.default group_norm.default instance_norm.default
    """
)
"""Reductions along a dim."""

UNITS: dict[str, Unit] = (
    dict.fromkeys(
        (
            "aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim", "aten.nansum.default",
            "aten.cumsum.default", "aten.std_mean.default", "aten.std_mean.correction", "aten.std_mean.dim",
            "aten.var_mean.default", "aten.var_mean.correction", "aten.var_mean.dim",
        ),
        "terms",
    )
    | dict.fromkeys(
        (
            "aten.layer_norm.default", "aten.group_norm.default", "aten.instance_norm.default",
            "aten._native_batch_norm_legit.no_stats", "aten._native_batch_norm_legit_functional.default",
        ),
        "row",
    )
)  # fmt: skip

_DIM, _DIMS, _OTHER = {"dim": -1}, {"dim": [-1]}, ({"other": 0.75},)
_ORDERS = (2, 1, 3, 0, 0.5, math.inf, -math.inf)
VARIANTS: dict[str, tuple[Numbers, ...]] = {
    "aten.clamp.default": ({"min": -1.5, "max": 0.75},),
    "aten.clip.default": ({"min": -1.5, "max": 0.75},),
    "aten.clamp_max.default": ({"max": 0.75},),
    "aten.clamp_min.default": ({"min": 0.75},),
    "aten.celu.default": ({"alpha": 1.0}, {"alpha": 0.75}),
    "aten.copysign.Scalar": ({"other": -0.0},),
    "aten.div.Scalar": ({"other": 0.75}, {"other": 3.0}),
    "aten.div.Scalar_mode": tuple({"other": 0.75, "rounding_mode": mode} for mode in (None, "floor", "trunc")),
    "aten.div.Tensor_mode": tuple({"rounding_mode": mode} for mode in (None, "floor", "trunc")),
    "aten.elu.default": ({}, {"alpha": 0.75, "scale": 1.5, "input_scale": 0.5}),
    "aten.gelu.default": ({"approximate": "none"}, {"approximate": "tanh"}),
    "aten.lerp.Scalar": ({"weight": 0.25}, {"weight": 0.75}),
    "aten.logit.default": ({}, {"eps": 0.125}),
    "aten.masked_fill.Scalar": ({"value": 0.75},),
    "aten.pow.Scalar": tuple({"base": base} for base in (2.0, 0.75, -1.5, 10.0)),
    "aten.pow.Tensor_Scalar": tuple(
        {"exponent": power} for power in (2, 3, -1, -2, 0.5, -0.5, 0, 1, 4, 5, 1.5, 2.5, -3, 1 / 3, 0.25, 30.0)
    ),
    "aten.remainder.Scalar": ({"other": 0.75}, {"other": -3.0}),
    "aten.remainder.Scalar_Tensor": ({"dividend": 0.75},),
    "aten.fmod.Scalar": ({"other": 0.75}, {"other": -3.0}),
    "aten.round.decimals": ({"decimals": 2}, {"decimals": -1}),
    "aten.softplus.default": ({}, {"beta": 2.0, "threshold": 5.0}),
    "aten.threshold.default": ({"threshold": 0.25, "value": 20.0},),
    "aten.hardshrink.default": ({}, {"lambd": 0.25}),
    "aten.where.Scalar": ({"self": 0.75, "other": 2.0},),
    "aten.where.ScalarOther": ({"other": 2.0},),
    "aten.where.ScalarSelf": ({"self": 0.75},),
    "aten._log_softmax.default": ({"dim": -1, "half_to_float": False},),
    "aten._softmax.default": ({"dim": -1, "half_to_float": False},),
    "aten.linalg_vector_norm.default": tuple({"ord": order, **_DIMS} for order in _ORDERS),
    "aten.norm.ScalarOpt_dim": tuple({"p": order, **_DIMS} for order in (None, *_ORDERS[1:])),
    "aten.norm.Scalar": ({}, {"p": 1}),
    "aten.dist.default": ({}, {"p": 1}),
    "aten.layer_norm.default": ({"normalized_shape": True},),
    "aten.rms_norm.default": ({"normalized_shape": True},),
    "aten.cosine_similarity.default": ({"dim": 1},),
    "aten.pairwise_distance.default": ({}, {"p": 1.0}),
    **dict.fromkeys(
        ("aten.std.correction", "aten.var.correction", "aten.std_mean.correction", "aten.var_mean.correction"),
        ({**_DIMS, "correction": 1}, {**_DIMS, "correction": 0}, {**_DIMS, "correction": 2}),
    ),
    **dict.fromkeys(("aten.std.dim", "aten.var.dim", "aten.std_mean.dim", "aten.var_mean.dim"), (_DIMS,)),
    **dict.fromkeys(("aten.group_norm.default", "aten.instance_norm.default"), ({},)),
    **dict.fromkeys(
        ("aten._native_batch_norm_legit.no_stats", "aten._native_batch_norm_legit_functional.default"), ({},)
    ),
}  # fmt: skip


def _per_row(op: str) -> Callable[..., Any]:
    """A norm over a shape, here each row's own."""
    return lambda x, normalized_shape: operator(op)(x, [x.shape[-1]])


def _as_channels(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(0)


SPECIAL: dict[str, Callable[..., Any]] = {
    "aten.layer_norm.default": _per_row("aten.layer_norm.default"),
    "aten.rms_norm.default": _per_row("aten.rms_norm.default"),
    "aten._to_copy.default": lambda x: [x.to(kind) for kind in (torch.float32, torch.float16, torch.bfloat16)],
    "aten.glu.default": lambda x, y: torch.ops.aten.glu.default(torch.stack([x, y]), 0),
    "aten.masked_fill.Scalar": lambda x, value: x.masked_fill(x > 0, value),
    "aten.masked_fill.Tensor": lambda x, y: x.masked_fill(x > 0, y[0]),
    "aten.where.self": lambda x, y: torch.where(x > y, x, y),
    "aten.where.Scalar": lambda x, self, other: torch.where(x > 0, self, other).to(x.dtype),
    "aten.where.ScalarOther": lambda x, other: torch.where(x > 0, x, other),
    "aten.where.ScalarSelf": lambda x, self: torch.where(x > 0, self, x),
    "aten.clamp.Tensor": lambda x, y, z: torch.clamp(x, y, z),
    "aten.clip.Tensor": lambda x, y, z: torch.ops.aten.clip.Tensor(x, y, z),
    "aten.pow.Scalar": lambda x, base: torch.ops.aten.pow.Scalar(base, x),
    "aten.remainder.Scalar_Tensor": lambda x, dividend: torch.ops.aten.remainder.Scalar_Tensor(dividend, x),
    "aten.prelu.default": lambda x: torch.ops.aten.prelu.default(x, x.new_full((1,), 0.25)),
    "aten.batch_norm.default": lambda x, mean, var: torch.ops.aten.batch_norm.default(
        x[None], None, None, mean, var, False, 0.1, 1e-5, False
    ),
    "aten._native_batch_norm_legit_no_training.default": lambda x, mean, var: (
        torch.ops.aten._native_batch_norm_legit_no_training.default(
            x[None], None, None, mean, var, 0.1, 1e-5
        )[0]
    ),
    "aten.group_norm.default": lambda x: torch.ops.aten.group_norm.default(_as_channels(x), x.shape[0]),
    "aten.instance_norm.default": lambda x: torch.ops.aten.instance_norm.default(
        _as_channels(x), None, None, None, None, True, 0.1, 1e-5, False
    ),
    "aten._native_batch_norm_legit.no_stats": lambda x: (
        torch.ops.aten._native_batch_norm_legit.no_stats(_as_channels(x), None, None, True, 0.1, 1e-5)[0]
    ),
    "aten._native_batch_norm_legit_functional.default": lambda x: (
        torch.ops.aten._native_batch_norm_legit_functional.default(
            _as_channels(x), None, None, x[:, 0] * 0, x[:, 0] * 0 + 1, True, 0.1, 1e-5
        )[0]
    ),
}  # fmt: skip

TENSORS = {
    "aten.masked_fill.Scalar": 1, "aten.where.self": 2, "aten.where.Scalar": 1, "aten.where.ScalarOther": 1,
    "aten.where.ScalarSelf": 1, "aten.clamp.Tensor": 3, "aten.clip.Tensor": 3, "aten.prelu.default": 1,
    "aten.glu.default": 2, "aten.masked_fill.Tensor": 2, "aten.batch_norm.default": 3,
    "aten._native_batch_norm_legit_functional.default": 1,
}  # fmt: skip
"""Numbers of inputs that differ from the number of tensors in the schema."""


NEITHER = frozenset(
    [
        "native_layer_norm",
        "native_group_norm",
        "_fused_rms_norm",
        "_weight_norm_interface",
        "argsort",
        "msort",
        "median",
        "kthvalue",
        "cdist",
        "_cdist_forward",
        "linalg_cross",
    ]
)
"""Formulas in the families of pointwise ops and reductions that are neither: norms, sorts, distances and a cross."""


def overloads() -> set[str]:
    """Every pointwise overload and reduction that has a kernel, by whatever route."""
    registered = {item.overload for item in DEFAULT.now() if item.kind in ("elementwise", "reduction")}
    scans = {item.overload for item in DEFAULT.now() if item.overload.split(".")[1].find("cum") >= 0}
    families = ("activations", "arithmetic", "reductions", "normalisation")
    formulas = {name for family in families for name in of_family(family)}
    packets = {name: name.split(".")[1] for name in formulas}
    made_of_others = {name for name, op in packets.items() if op not in NEITHER and not op.endswith("_backward")}
    return registered | scans | automatic_route.POINTWISE | automatic_route.REDUCTION | made_of_others


def calls(wanted: Iterable[str] | None = None) -> list[Call]:
    """One for each of them that takes floats."""
    return [_call(name) for name in sorted(overloads() - OF_WHOLE if wanted is None else wanted)]


def _call(overload: str) -> Call:
    reduces = overload in OF_EVERYTHING or overload in ALONG
    arguments = operator(overload)._schema.arguments
    tensors = TENSORS.get(overload, sum(str(each.type) == "Tensor" for each in arguments))
    variants = VARIANTS.get(overload) or _by_schema(overload)
    return Call(overload, variants, tensors, reduces, UNITS.get(overload, "own"))


def _by_schema(overload: str) -> tuple[Numbers, ...]:
    """Arguments that the schema alone requires: another number, a dim."""
    needed = {
        each.name: str(each.type) for each in operator(overload)._schema.arguments if not each.has_default_value()
    }
    if needed.get("other") == "number":
        return _OTHER
    if "dim" in needed or overload in ALONG:
        return (_DIMS,) if _takes_a_list(overload) else (_DIM,)
    return ({},)


def _takes_a_list(overload: str) -> bool:
    kinds = {each.name: str(each.type) for each in operator(overload)._schema.arguments}
    return "List" in kinds.get("dim", "")
