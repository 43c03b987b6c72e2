"""Ops that add up: the argument with the terms of their sums, and the number of terms in each sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch


def _product(first: int, second: int, more: int = 0) -> Callable[[Any, Any], tuple[int, int]]:
    """Sums of products and of `more` terms. The operand with fewer numbers stands for the terms: each has one of its
    numbers."""

    def terms(args: Any, kwargs: Any) -> tuple[int, int]:
        a, b = args[first], args[second]
        return (first if a.numel() <= b.numel() else second), a.shape[-1] + more

    return terms


def _window(args: Any, kwargs: Any) -> tuple[int, int]:
    x, weight, transposed = args[0], args[1], len(args) > 6 and args[6]
    count = weight.numel() // max(weight.shape[1 if transposed else 0], 1) + (args[2] is not None)
    return (0 if x.numel() <= weight.numel() else 1), count


def _over_dims(place: int) -> Callable[[Any, Any], tuple[int, int]]:
    """Sums over the dims in the argument at this place, or in the argument `dim`."""
    return lambda args, kwargs: (0, _extent(args[0], args[place] if len(args) > place else kwargs.get("dim")))


NORMS: Final = ("linalg_vector_norm", "norm")


def is_rooted(args: Any) -> bool:
    """True if a norm takes a root from a library: its order is neither 0, 1, 2 nor infinite."""
    order = args[1] if len(args) > 1 and args[1] is not None else 2
    return order not in (0, 1, 2) and not math.isinf(order)


def _extent(x: torch.Tensor, dims: Any) -> int:
    return math.prod(x.shape[dim] for dim in _named(x, dims))


def _named(x: torch.Tensor, dims: Any) -> list[int]:
    if not x.dim():
        return []
    return [dims] if isinstance(dims, int) else list(dims) if dims is not None and len(dims) else list(range(x.dim()))


def error_in_order(x: torch.Tensor, dims: Any, lot: torch.Generator) -> torch.Tensor:
    """The error of sums of 64-bit terms, flat and in half units, if each partial sum is rounded in the terms' order in
    memory.

    A number that is added again, while the sum grows within a power of two, is rounded by the same amount. So one
    direction is drawn for each number, by a product of its bits with a random odd number; adding 0 rounds nothing.
    """
    summed = sorted(dim % x.dim() for dim in _named(x, dims))
    kept = [dim for dim in range(x.dim()) if dim not in summed]
    sums, count = (math.prod(x.shape[dim] for dim in dims) for dims in (kept, summed))
    terms = x.permute([*kept, *summed]).reshape(sums, count).contiguous()
    odd = torch.randint(-(1 << 62), 1 << 62, (), generator=lot) * 2 + 1
    directions = (terms.view(torch.int64) * odd).to(torch.float64) / float(1 << 63)
    return (terms.cumsum(-1) * directions).nan_to_num(0.0, 0.0, 0.0)[:, 1:].sum(-1)


def _bags(args: Any, kwargs: Any) -> tuple[int, int]:
    """Sums and means of rows: up to the rows of the largest bag, each perhaps a product. A maximum adds nothing up."""
    (indices, offsets), mode = args[1:3], args[4] if len(args) > 4 else 0
    sizes = torch.diff(offsets, append=offsets.new_tensor([indices.numel()]))
    return 0, int(sizes.max()) + 1 if sizes.numel() and mode != 2 else 1


def _bags_backward(args: Any, kwargs: Any) -> tuple[int, int]:
    """The gradient of a row: a sum over all bags that have the row, each term a product or a share."""
    indices = args[1]
    return 0, int(indices.unique(return_counts=True)[1].max()) + 1 if indices.numel() else 1


def _adaptive(args: Any, kwargs: Any) -> tuple[int, int]:
    return 0, max(args[0].numel() // max(args[0].shape[0] * args[0].shape[1] * math.prod(args[1]), 1), 1)


def _window_backward(args: Any, kwargs: Any) -> tuple[int, int]:
    """The gradients of a convolution: those of the weights are sums over all windows, those of the input over
    channels."""
    gradient, weight = args[0], args[2]
    windows = gradient.numel() // max(gradient.shape[1], 1)
    return 0, max(windows, weight.numel() // max(min(weight.shape[:2]), 1))


def _adaptive_backward(args: Any, kwargs: Any) -> tuple[int, int]:
    """The gradient of an element: a sum over all windows that have it, which overlap by one element at most."""
    (gradient, image), dims = args[:2], args[0].dim() - 2
    sizes = zip(gradient.shape[-dims:], image.shape[-dims:], strict=True)
    return 0, math.prod(-(-windows // max(extent, 1)) + 1 for windows, extent in sizes)


def _resized_backward(args: Any, kwargs: Any) -> tuple[int, int]:
    """The gradient of an image's pixel: a sum over all pixels that read it, times rounded weights."""
    ratios = (-(-after // before) + 1 for after, before in zip(args[1], args[2][2:], strict=True))
    return 0, math.prod(ratios) + 1


def _neighbours(count: int) -> Callable[[Any, Any], tuple[int, int]]:
    """Interpolated images: each pixel is a sum over `count` neighbours, times rounded weights."""
    return lambda args, kwargs: (0, count + 1)


STORED_SUMS: Final[Mapping[str, int]] = {"index_add": 3, "scatter_add": 3, "scatter_reduce": 3, "index_put": 2}
"""For each op the place of the argument with the added terms."""

TERMS: Final[Mapping[str, Callable[[Any, Any], tuple[int, int]]]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), _product(0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _product(1, 2, more=1)),
    **dict.fromkeys(("convolution", "_convolution"), _window),
    **dict.fromkeys(("sum", "mean", "nansum", "cumsum", "logcumsumexp"), _over_dims(1)),
    **dict.fromkeys(NORMS, _over_dims(2)),
    **dict.fromkeys(("avg_pool2d", "avg_pool3d", "avg_pool1d"), lambda args, kwargs: (0, math.prod(args[1]))),
    **dict.fromkeys(("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _adaptive),
    "convolution_backward": _window_backward,
    **dict.fromkeys(("avg_pool2d_backward", "avg_pool3d_backward"), lambda args, kwargs: (0, math.prod(args[2]))),
    **dict.fromkeys(("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"), _adaptive_backward),
    **{f"upsample_{name}_backward": _resized_backward
       for name in ("linear1d", "bilinear2d", "trilinear3d", "nearest1d", "nearest2d", "nearest3d", "bicubic2d")},
    **{f"_upsample_nearest_exact{dims}d_backward": _resized_backward for dims in (1, 2, 3)},
    **dict.fromkeys(("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"), _bags),
    **dict.fromkeys(("_embedding_bag_backward", "_embedding_bag_dense_backward"), _bags_backward),
    "_embedding_bag_per_sample_weights_backward": lambda args, kwargs: (0, args[0].shape[-1]),
    "upsample_linear1d": _neighbours(2),
    "upsample_bilinear2d": _neighbours(4),
    "upsample_trilinear3d": _neighbours(8),
    "upsample_bicubic2d": _neighbours(16),
    "grid_sampler_2d": _neighbours(4),
    "grid_sampler_3d": _neighbours(8),
}  # fmt: skip
"""For each op a function that returns the place of the argument with a sum's terms, and the number of terms."""
