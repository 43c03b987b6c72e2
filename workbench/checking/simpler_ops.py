"""Ops written out in simpler ops, because of the roundings that happen within them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import torch

from workbench.ground.torch_inside.operator_objects import decomposition_table

aten = torch.ops.aten
T = torch.Tensor


def products(factors: T) -> T:
    """The product of all factors along the last axis: first of pairs, then of pairs of products."""
    while (count := factors.shape[-1]) > 1:
        paired = factors[..., 0 : count - 1 : 2] * factors[..., 1::2]
        factors = torch.cat([paired, factors[..., -1:]], -1) if count % 2 else paired
    return factors[..., 0] if factors.shape[-1] else factors.new_ones(factors.shape[:-1])


def running_products(factors: T, before: int = 0) -> T:
    """The product of the factors up to each factor along the last axis, in pairs; `before` is the number of ones put in
    front, which makes other pairs."""
    ones = factors.new_ones((*factors.shape[:-1], before))
    return _running_products(torch.cat([ones, factors], -1))[..., before:]


def _running_products(factors: T) -> T:
    count = factors.shape[-1]
    if count < 2:
        return factors
    upto = _running_products(factors[..., 0 : count - 1 : 2] * factors[..., 1::2])
    found = factors.clone()
    found[..., 1::2] = upto
    found[..., 2::2] = upto[..., : (count - 1) // 2] * factors[..., 2::2]
    return found


def _softmax(x: T, dim: int, half_to_float: bool = False) -> T:
    grown = torch.exp(x - x.amax(dim, keepdim=True)) if x.numel() else torch.exp(x)
    return grown / grown.sum(dim, keepdim=True)


def _log_softmax(x: T, dim: int, half_to_float: bool = False) -> T:
    centred = x - x.amax(dim, keepdim=True) if x.numel() else x
    return centred - torch.exp(centred).sum(dim, keepdim=True).log()


def _logsumexp(x: T, dim: Sequence[int], keepdim: bool = False) -> T:
    largest = x.amax(tuple(dim), keepdim=True)
    largest = torch.where(largest.isfinite(), largest, 0.0)
    total = torch.exp(x - largest).sum(tuple(dim), keepdim=True).log() + largest
    return total if keepdim else total.squeeze(tuple(dim))


def _var_mean(
    x: T, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[T, T]:
    dims = tuple(dim) if dim else tuple(range(x.dim()))
    mean = x.mean(dims, keepdim=True)
    apart = x - mean
    count = math.prod(x.shape[each] for each in dims)
    left = max(count - (1.0 if correction is None else correction), 0.0)
    variance = (apart * apart).sum(dims, keepdim=True)
    variance = variance / left if left else variance * torch.inf
    return (variance, mean) if keepdim else (variance.squeeze(dims), mean.squeeze(dims))


def _var_mean_of_dims(x: T, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False) -> tuple[T, T]:
    """The older overload of `var_mean`, which PyTorch's own norms call when they are written out."""
    return _var_mean(x, dim, correction=float(unbiased), keepdim=keepdim)


def _std_mean(*args: Any, **kwargs: Any) -> tuple[T, T]:
    variance, mean = _var_mean(*args, **kwargs)
    return variance.sqrt(), mean


def _attention(
    q: T,
    k: T,
    v: T,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: T | None = None,
    scale: float | None = None,
) -> tuple[T, T]:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    part = math.sqrt(abs(factor))
    scores = (q * math.copysign(part, factor)) @ (k * part).transpose(-2, -1)
    if is_causal:
        seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    narrow = scores.dtype in (torch.float16, torch.bfloat16)
    kept = scores.float() if narrow else scores  # what PyTorch keeps for the backward pass is wide
    unseeing = (scores == -torch.inf).all(-1, keepdim=True)  # a row whose mask hides all keys has zeros
    weights = torch.softmax(scores.masked_fill(unseeing, 0.0), -1).masked_fill(unseeing, 0.0)
    return weights @ v, torch.logsumexp(kept, -1)


def bias_apart(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a convolution's gradients, with the gradient of the bias as a plain sum: its terms lie in memory in some
    order, and where a pool has spread a gradient over each image, many of them are equal."""
    gradient, (image, weight, _) = args[0], args[-1]
    bias = gradient.sum([dim for dim in range(gradient.dim()) if dim != 1])
    return (*func(*args[:-1], [image, weight, False])[:2], bias)


def attention(
    query: T,
    key: T,
    value: T,
    attn_mask: T | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> T:
    """`scaled_dot_product_attention` in steps, each stored in the type of the operands."""
    if dropout_p:
        asked: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, **asked
        )
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    return _attention(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]


def _one_factor_a_channel(x: T, mean: T, rstd: T, weight: T | None, bias: T | None) -> T:
    """A norm over channels as PyTorch computes it: where x is close to the mean, two large numbers cancel."""
    factor = rstd if weight is None else rstd * weight
    addend = -mean * factor if bias is None else bias - mean * factor
    return x * factor + addend


def _batch_norm(known: Callable[..., tuple[T, ...]], with_stats: bool) -> Callable[..., tuple[T, ...]]:
    """Returns a batch norm that takes the statistics from `known` and computes the result from them."""

    def normed(x: T, weight: T | None, bias: T | None, *rest: Any) -> tuple[T, ...]:
        _, mean, rstd, *running = known(x, weight, bias, *rest)
        used = (mean, rstd)
        if with_stats and not mean.numel():  # not training: the running statistics
            used = rest[0], (rest[1] + rest[-1]).rsqrt()
        columns = [None if each is None else each.reshape(-1, *[1] * (x.dim() - 2)) for each in (*used, weight, bias)]
        return _one_factor_a_channel(x, *cast(Any, columns)), mean, rstd, *running

    return normed


def _group_norm(
    x: T, weight: T | None, bias: T | None, n: int, channels: int, size: int, groups: int, eps: float
) -> tuple[T, T, T]:
    _, mean, rstd = _KNOWN[aten.native_group_norm.default](x, weight, bias, n, channels, size, groups, eps)
    columns = [None if each is None else each.reshape(1, groups, -1, 1) for each in (weight, bias)]
    parts = x.reshape(n, groups, channels // groups, size)
    out = _one_factor_a_channel(parts, mean[..., None, None], rstd[..., None, None], *columns)
    return out.reshape(x.shape), mean, rstd


def _trilinear(
    x: T, y: T, z: T, expand_x: Sequence[int], expand_y: Sequence[int], expand_z: Sequence[int],
    summed: Sequence[int], unrolled: int = 1,
) -> T:  # fmt: skip
    rank, wide = x.dim() + len(expand_x), list[T]()
    for tensor, dims in ((x, expand_x), (y, expand_y), (z, expand_z)):
        for dim in sorted(each % rank for each in dims):
            tensor = tensor.unsqueeze(dim)
        wide.append(tensor)
    product = wide[0] * wide[1] * wide[2]
    return product.sum(list(summed)) if summed else product


_KNOWN: Final[Mapping[Any, Callable[..., Any]]] = decomposition_table()
_OWN: Final[Mapping[Any, Callable[..., Any]]] = {
    **{
        each: _batch_norm(_KNOWN[each], each is not aten._native_batch_norm_legit.no_stats)
        for each in (
            *(aten.native_batch_norm.default, aten._native_batch_norm_legit.default),
            *(aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_no_training.default),
            aten._native_batch_norm_legit_functional.default,
        )
    },
    aten.native_group_norm.default: _group_norm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten.logsumexp.default: _logsumexp,
    aten.var_mean.correction: _var_mean,
    aten.var_mean.dim: _var_mean_of_dims,
    aten.var.correction: lambda *args, **kwargs: _var_mean(*args, **kwargs)[0],
    aten.std.correction: lambda *args, **kwargs: _std_mean(*args, **kwargs)[0],
    aten.std_mean.correction: _std_mean,
    aten._trilinear.default: _trilinear,
}
_DATA: Final = (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
_OF_PYTORCH: Final = (
    *(aten.native_layer_norm.default, aten._fused_rms_norm.default),
    *(aten.gelu.default, aten.silu.default, aten.mish.default, aten.softplus.default, aten.log_sigmoid_forward.default),
    *(aten.elu.default, aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default),
    *(aten.hardswish.default, aten.hardsigmoid.default, aten.addcmul.default, aten.addcdiv.default),
    *(aten.lerp.Scalar, aten.lerp.Tensor),
)
_BACKWARD: Final = tuple(
    getattr(aten, f"{name}_backward").default
    for name in (
        *("elu", "gelu", "glu", "hardsigmoid", "hardswish", "log_sigmoid", "mish", "sigmoid", "silu", "softplus"),
        *("tanh", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss", "nll_loss"),
        *("nll_loss2d", "native_batch_norm", "native_group_norm", "native_layer_norm", "_fused_rms_norm"),
        "embedding_dense",
    )
)
STEP_BY_STEP: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {aten._scaled_dot_product_flash_attention_for_cpu.default: _attention}
)
"""Ops that PyTorch itself can compute in steps, each stored in the type of the operands: `sdpa_kernel(MATH)`."""
SIMPLER: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {**{each: _KNOWN[each] for each in (*_OF_PYTORCH, *_BACKWARD, *_DATA) if each in _KNOWN}, **_OWN}
)
