"""Losses, products, reductions, pads and interpolation, and functions of single numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from tests.gradients.gradient_case import Case, Held, of
from tests.operators.entry import indices, positive, truth

T = torch.Tensor
X = (4, 6)
ROW = (6,)


LOSSES: dict[str, Case] = {
    "mse_loss": of(F.mse_loss, X, X),
    "mse_loss, each": of(lambda x, y: F.mse_loss(x, y, reduction="none"), X, X),
    "mse_loss, weights": of(lambda x, y, w: F.mse_loss(x, y, weight=w), X, X, Held(X)),
    "l1_loss": of(F.l1_loss, X, X),
    "l1_loss, sum": of(lambda x, y: F.l1_loss(x, y, reduction="sum"), X, X),
    "smooth_l1_loss": of(lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), X, X),
    "huber_loss": of(lambda x, y: F.huber_loss(x, y, delta=0.7), X, X),
    "binary_cross_entropy": of(lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), X, Held(X)),
    "binary_cross_entropy, weights": of(
        lambda x, y, w: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), w, reduction="sum"), X, Held(X), Held(X)
    ),
    "binary_cross_entropy_with_logits": of(lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), X, X),
    "binary_cross_entropy_with_logits, weights": of(
        lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y.sigmoid(), w, pos_weight=p),
        X,
        X,
        Held(X),
        Held(positive(6)),
    ),
    "kl_div": of(lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), X, X),
    "kl_div, target in logarithms": of(
        lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="sum", log_target=True), X, X
    ),
    "nll_loss": of(lambda x, i: F.nll_loss(x.log_softmax(1), i), X, indices(6, 4)),
    "nll_loss, weights": of(
        lambda x, w, i: F.nll_loss(x.log_softmax(1), i, w, ignore_index=2), X, Held(positive(6)), indices(6, 4)
    ),
    "nll_loss of images": of(lambda x, i: F.nll_loss(x.log_softmax(1), i), (2, 3, 2, 3), indices(3, 2, 2, 3)),
    "cross_entropy": of(F.cross_entropy, X, indices(6, 4)),
    "cross_entropy, smoothed, ignored": of(
        lambda x: F.cross_entropy(x, torch.tensor([0, -100, 2, 2]), label_smoothing=0.1), X
    ),
    "cross_entropy, weights, sum": of(
        lambda x, w, i: F.cross_entropy(x, i, w, reduction="sum"), X, Held(positive(6)), indices(6, 4)
    ),
    "cross_entropy of images": of(F.cross_entropy, (2, 3, 2, 3), indices(3, 2, 2, 3)),
    "cross_entropy, probabilities": of(lambda x, y: F.cross_entropy(x, y.softmax(1)), X, X),
    "soft_margin_loss": of(lambda x, y: F.soft_margin_loss(x, y.sign()), X, Held(X)),
    "hinge_embedding_loss": of(lambda x, y: F.hinge_embedding_loss(x, y.sign()), X, Held(X)),
    "poisson_nll_loss": of(lambda x, y: F.poisson_nll_loss(x, y.abs()), X, X),
    "gaussian_nll_loss": of(lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True), X, X, positive(*X)),
    "margin_ranking_loss": of(lambda x, y, s: F.margin_ranking_loss(x, y, s.sign()), X, X, Held(X)),
    "cosine_embedding_loss": of(lambda x, y, s: F.cosine_embedding_loss(x, y, s.sign()), X, X, Held((4,))),
    "triplet_margin_loss": of(F.triplet_margin_loss, X, X, X),
    "multi_margin_loss": of(F.multi_margin_loss, X, indices(6, 4), half=False),
    "multilabel_margin_loss": of(
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1, 1, 1]] * 4)), X, half=False
    ),
    "multilabel_soft_margin_loss": of(lambda x, m: F.multilabel_soft_margin_loss(x, m.to(x.dtype)), X, truth(*X)),
    "ctc_loss": of(
        lambda x: F.ctc_loss(
            x.log_softmax(2), torch.tensor([[1, 2], [2, 2]]), torch.tensor([5, 5]), torch.tensor([2, 2])
        ),
        (5, 2, 3),
        half=False,
    ),
}

PRODUCTS: dict[str, Case] = {
    "linear": of(F.linear, X, (3, 6), (3,)),
    "mm": of(torch.mm, X, (6, 5)),
    "bmm": of(torch.bmm, (2, 3, 4), (2, 4, 5)),
    "matmul, broadcast": of(torch.matmul, (2, 1, 3, 4), (3, 4, 2)),
    "matmul of a row": of(torch.matmul, (2, 3, 4), (4,)),
    "addmm": of(lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2.0), (5,), X, (6, 5)),
    "baddbmm": of(torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "addbmm": of(torch.addbmm, (3, 5), (2, 3, 4), (2, 4, 5)),
    "dot, mv, outer": of(lambda x, y, m: (x.dot(y), m.mv(x), x.outer(y)), ROW, ROW, X),
    "addmv, addr": of(lambda b, m, x: (torch.addmv(b, m, x), torch.addr(m, b, x)), (4,), X, ROW),
    "einsum": of(lambda x, y: torch.einsum("bij,bkj->bik", x, y), (2, 3, 4), (2, 5, 4)),
    "einsum of three": of(lambda x, y, z: torch.einsum("ij,jk,ik->i", x, y, z), (3, 4), (4, 5), (3, 5)),
    "tensordot": of(lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])), (2, 3, 4), (3, 4, 5)),
    "kron": of(torch.kron, (2, 3), (3, 2), half=False),
    "bilinear": of(F.bilinear, (3, 4), (3, 5), (2, 4, 5), (2,)),
    "multi_dot": of(lambda x, y, z: torch.linalg.multi_dot([x, y, z]), (2, 3), (3, 4), (4, 2), half=False),
    "cdist": of(torch.cdist, (3, 4), (5, 4), half=False),
    "cross": of(lambda x, y: torch.linalg.cross(x, y), (2, 3), (2, 3), half=False),
    "cosine_similarity": of(F.cosine_similarity, X, X),
    "pairwise_distance": of(F.pairwise_distance, X, X),
    "matrix_power": of(lambda x: torch.linalg.matrix_power(x, 3), (3, 3), half=False),
}

REDUCTIONS: dict[str, Case] = {
    "sum": of(lambda x: (x.sum(), x.sum(0), x.sum(1, keepdim=True)), X),
    "mean": of(lambda x: (x.mean(), x.mean((0, 1)), x.mean(-1)), X),
    "prod": of(lambda x: (x.prod(0), x.prod(1, keepdim=True)), X),
    "prod of all": of(torch.prod, (2, 3)),
    "var": of(lambda x: (x.var(), x.var(0, correction=0), x.var(1, keepdim=True)), X),
    "std": of(lambda x: (x.std(), x.std(0), x.std(1, correction=0)), X),
    "var_mean": of(lambda x: torch.var_mean(x, 1), X),
    "std_mean": of(lambda x: torch.std_mean(x, 0), X),
    "amax, amin": of(lambda x: (x.amax(0), x.amin((0, 1)), x.amax(1)), X),
    "max, min with places": of(lambda x: (x.max(0).values, x.min(1).values), X),
    "max, min": of(lambda x: (x.max(), x.min()), X),
    "aminmax": of(lambda x: tuple(torch.aminmax(x, dim=1)), X),
    "median": of(lambda x: (x.median(1).values, x.median()), X),
    "kthvalue": of(lambda x: x.kthvalue(2, 1).values, X),
    "mode": of(lambda x: x.mode(1).values, X, half=False),
    "quantile": of(lambda x: x.quantile(0.3, 1), X, half=False),
    "sort": of(lambda x: x.sort(1).values, X),
    "topk": of(lambda x: x.topk(2).values, X),
    "cumsum": of(lambda x: x.cumsum(0), X),
    "cumprod": of(lambda x: x.cumprod(1), X),
    "logcumsumexp": of(lambda x: x.logcumsumexp(1), X, half=False),
    "cummax, cummin": of(lambda x: (x.cummax(1).values, x.cummin(0).values), X),
    "logsumexp": of(lambda x: (x.logsumexp(1), x.logsumexp((0, 1))), X),
    "nansum": of(lambda x: (x.nansum(), x.nanmean(0)), X),
    "norm": of(lambda x: (x.norm(), x.norm(dim=1), x.norm(p=3, dim=0)), X),
    "norm, one, infinity": of(lambda x: (x.norm(p=1, dim=1), torch.linalg.vector_norm(x, float("inf"), 0)), X),
    "linalg.matrix_norm": of(torch.linalg.matrix_norm, X),
    "dist": of(lambda x, y: (torch.dist(x, y), torch.dist(x, y, 3)), X, X),
    "trace": of(torch.trace, (4, 4)),
    "diff": of(lambda x: x.diff(dim=1), X),
    "renorm": of(lambda x: x.renorm(2, 0, 1.0), X, half=False),
    "trapezoid": of(lambda x: torch.trapezoid(x, dim=1), X),
}

MOVES: dict[str, Case] = {
    "cat": of(lambda x, y: torch.cat([x, y[:2], x * 2]), X, X),
    "stack": of(lambda x, y: torch.stack([x, y], 1), X, X),
    "split, chunk, unbind": of(lambda x: (x.split(4, 1)[1], x.chunk(2)[0], x.unbind(1)[2]), X),
    "expand, repeat, tile": of(lambda x: (x.expand(2, 4, 6), x.repeat(2, 1), x.tile(3)), X),
    "roll, flip, rot90": of(lambda x: (x.roll(1, 0), x.flip(1), x.rot90()), X),
    "transpose, reshape": of(lambda x: (x.t().reshape(3, 8), x.unflatten(1, (2, 3)).movedim(2, 0)), X),
    "diag_embed": of(lambda x: x.diag_embed(), X),
    "as_strided": of(lambda x: x.as_strided((3, 2), (2, 5), 1), X, half=False),
    "pad": of(lambda x: F.pad(x, (1, 2, 0, -1), value=2.0), X),
    **{
        f"pad, {how}": of(lambda x, how=how: F.pad(x, (1, 2, 2, 1), mode=how), (2, 2, 4, 3))
        for how in ("reflect", "replicate", "circular")
    },
    "pad of rows, reflect": of(lambda x: F.pad(x, (2, 1), mode="reflect"), (2, 3, 4)),
    "pixel_shuffle": of(lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), (1, 4, 2, 4)),
    "channel_shuffle": of(lambda x: F.channel_shuffle(x, 2), (1, 4, 2, 3)),
}


def _resized(mode: str, **how: object) -> Callable[[T], T]:
    return lambda x: F.interpolate(x, mode=mode, **how)  # pyright: ignore[reportArgumentType]


RESAMPLING: dict[str, Case] = {
    "interpolate, nearest, rows": of(_resized("nearest", scale_factor=2), (1, 2, 5)),
    "interpolate, nearest": of(_resized("nearest", scale_factor=2), (1, 2, 3, 4)),
    "interpolate, nearest, odd": of(_resized("nearest", size=(5, 3)), (1, 2, 3, 4)),
    "interpolate, nearest, volumes": of(_resized("nearest", scale_factor=2), (1, 1, 2, 3, 2)),
    "interpolate, nearest-exact": of(_resized("nearest-exact", size=(5, 3)), (1, 2, 3, 4)),
    "interpolate, linear": of(_resized("linear", size=8), (1, 2, 5)),
    "interpolate, bilinear": of(_resized("bilinear", size=(5, 3)), (1, 2, 3, 4)),
    "interpolate, bilinear, corners": of(_resized("bilinear", scale_factor=2, align_corners=True), (1, 2, 3, 4)),
    "interpolate, bilinear, antialias": of(_resized("bilinear", size=(2, 3), antialias=True), (1, 2, 5, 6), half=False),
    "interpolate, bicubic": of(_resized("bicubic", size=(5, 6)), (1, 2, 3, 4)),
    "interpolate, trilinear": of(_resized("trilinear", scale_factor=2), (1, 1, 2, 3, 2)),
    "interpolate, area": of(_resized("area", size=(2, 3)), (1, 2, 5, 6)),
    "grid_sample": of(
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), (1, 2, 4, 5), (1, 3, 2, 2), half=False
    ),
    "affine_grid": of(lambda t: F.affine_grid(t, [2, 1, 3, 4], align_corners=False), (2, 2, 3), half=False),
}


def _together(*calls: Callable[[T], T]) -> Callable[[T], tuple[T, ...]]:
    return lambda x: tuple(call(x) for call in calls)


_NUMBERS = {
    "exp, expm1, exp2": (torch.exp, torch.expm1, torch.exp2),
    "sin, cos, tan": (torch.sin, torch.cos, torch.tan),
    "sinh, cosh, asinh": (torch.sinh, torch.cosh, torch.asinh),
    "atan, erf, erfc": (torch.atan, torch.erf, torch.erfc),
    "abs, square, neg": (torch.abs, torch.square, torch.neg),
    "sinc": (torch.sinc,),
    "sign, floor, frac": (lambda x: x.sign() * x, lambda x: x.floor() * x, torch.frac),
    "clamp": (lambda x: x.clamp(-0.5, 0.7), lambda x: x.clamp_min(0.1), lambda x: x.clamp_max(0.2)),
    "pow of a number": (lambda x: x**3, lambda x: x**2, lambda x: 2.0**x),
    "nan_to_num": (torch.nan_to_num,),
}
_POSITIVE = {
    "log, log2, log10, log1p": (torch.log, torch.log2, torch.log10, torch.log1p),
    "sqrt, rsqrt, reciprocal": (torch.sqrt, torch.rsqrt, torch.reciprocal),
    "pow of a root": (lambda x: x**0.5, lambda x: x**-1.5),
    "acosh, lgamma, digamma": (lambda x: torch.acosh(x + 0.5), torch.lgamma, torch.digamma),
}
_OF_TWO: dict[str, Callable[[T, T], T | tuple[T, ...]]] = {
    "add, sub": lambda x, y: (torch.add(x, y, alpha=2), x - y[0]),
    "mul, div": lambda x, y: (x * y, x / (y * y + 1)),
    "maximum, minimum, fmax": lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y[0])),
    "atan2, hypot": lambda x, y: (torch.atan2(x, y), torch.hypot(x, y)),
    "logaddexp": lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)),
    "lerp": lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, y)),
    "fmod, remainder": lambda x, y: (torch.fmod(x, 0.7), torch.remainder(x, y)),
    "copysign": lambda x, y: torch.copysign(x, y),
    "addcmul, addcdiv": lambda x, y: (torch.addcmul(x, y, x, value=0.5), torch.addcdiv(x, y, x * x + 1, value=2.0)),
}

NUMBERS: dict[str, Case] = {
    **{name: of(_together(*calls), X, half=False) for name, calls in _NUMBERS.items()},
    **{name: of(_together(*calls), positive(*X), half=False) for name, calls in _POSITIVE.items()},
    "asin, acos, atanh": of(lambda x: (x.tanh().asin(), (x * 0.5).tanh().acos(), (x.tanh() * 0.9).atanh()), X),
    **{name: of(call, X, X, half=False) for name, call in _OF_TWO.items()},
    "pow of two": of(lambda x, y: torch.pow(x, y), positive(*X), X, half=False),
    "xlogy": of(lambda x, y: torch.xlogy(x, y), X, positive(*X), half=False),
}

FAMILIES = {
    "losses": LOSSES,
    "products": PRODUCTS,
    "reductions": REDUCTIONS,
    "moves": MOVES,
    "resampling": RESAMPLING,
    "numbers": NUMBERS,
}
