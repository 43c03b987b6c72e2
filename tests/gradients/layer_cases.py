"""Layers of networks: activations, norms, convolutions, pools, attention, embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.gradients.gradient_case import Case, Held, of
from tests.operators.entry import indices, positive, truth

T = torch.Tensor
X = (4, 6)
IMAGES = (2, 4, 7, 6)

ACTIVATIONS: dict[str, Case] = {
    "relu": of(torch.relu, X),
    "relu6": of(lambda x: F.relu6(x * 4), X),
    "sigmoid": of(torch.sigmoid, X),
    "tanh": of(torch.tanh, X),
    "silu": of(F.silu, X),
    "gelu": of(F.gelu, X),
    "gelu tanh": of(lambda x: F.gelu(x, approximate="tanh"), X),
    "elu": of(lambda x: F.elu(x, 0.7), X),
    "selu": of(F.selu, X),
    "celu": of(lambda x: F.celu(x, 0.7), X),
    "leaky_relu": of(lambda x: F.leaky_relu(x, 0.2), X),
    "prelu": of(F.prelu, (2, 3, 4), (3,)),
    "prelu, one weight": of(F.prelu, X, (1,)),
    "rrelu in evaluation": of(F.rrelu, X),
    "hardswish": of(lambda x: F.hardswish(x * 3), X),
    "hardsigmoid": of(lambda x: F.hardsigmoid(x * 3), X),
    "hardtanh": of(lambda x: F.hardtanh(x, -0.5, 0.8), X),
    "softplus": of(lambda x: F.softplus(x * 8, 2.0, 10.0), X),
    "mish": of(F.mish, X),
    "logsigmoid": of(F.logsigmoid, X),
    "hardshrink": of(F.hardshrink, X),
    "softshrink": of(F.softshrink, X),
    "tanhshrink": of(F.tanhshrink, X),
    "softsign": of(F.softsign, X),
    "glu": of(lambda x: F.glu(x, 0), X),
    "threshold": of(lambda x: F.threshold(x, 0.1, 5.0), X),
    "softmax": of(lambda x: torch.softmax(x, 0), X),
    "softmin": of(lambda x: F.softmin(x, -1), X),
    "log_softmax": of(lambda x: torch.log_softmax(x, -1), X),
    "softmax of images": of(torch.nn.Softmax2d(), (2, 3, 2, 3)),
}

NORMS: dict[str, Case] = {
    "layer_norm": of(lambda x, w, b: F.layer_norm(x, (6,), w, b), X, (6,), (6,)),
    "layer_norm, two dims, plain": of(lambda x: F.layer_norm(x, (3, 6)), (2, 3, 6)),
    "rms_norm": of(lambda x, w: F.rms_norm(x, (6,), w), X, (6,)),
    "rms_norm, plain": of(lambda x: F.rms_norm(x, (6,), eps=1e-3), X),
    "batch_norm in training": of(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (5, 3, 4), (3,), (3,)
    ),
    "batch_norm of images, plain": of(lambda x: F.batch_norm(x, None, None, training=True), (2, 3, 3, 4)),
    "batch_norm of rows": of(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (5, 3), (3,), (3,)),
    "batch_norm of volumes": of(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (2, 3, 2, 2, 3), (3,), (3,)
    ),
    "batch_norm in evaluation": of(F.batch_norm, (2, 3, 4), Held((3,)), Held(positive(3)), (3,), (3,)),
    "group_norm": of(lambda x, w, b: F.group_norm(x, 3, w, b), (2, 6, 3), (6,), (6,)),
    "group_norm, plain": of(lambda x: F.group_norm(x, 2), (2, 6, 2, 2)),
    "instance_norm": of(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (2, 3, 3, 4), (3,), (3,)),
    "instance_norm, plain": of(F.instance_norm, (2, 3, 5)),
    "local_response_norm": of(lambda x: F.local_response_norm(x, 2), (2, 4, 3, 3)),
    "normalize": of(lambda x: F.normalize(x, dim=1), X),
    "weight_norm": of(lambda v, g: torch._weight_norm(v, g, 0), X, positive(4, 1)),
}

CONVOLUTIONS: dict[str, Case] = {
    "conv1d": of(lambda x, w, b: F.conv1d(x, w, b, padding=1), (2, 3, 7), (4, 3, 3), (4,)),
    "conv1d, stride, dilation": of(lambda x, w: F.conv1d(x, w, stride=2, dilation=2), (2, 2, 9), (3, 2, 3)),
    "conv2d": of(lambda x, w, b: F.conv2d(x, w, b, padding=1), (2, 2, 5, 4), (3, 2, 3, 3), (3,)),
    "conv2d, stride": of(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), (2, 2, 6, 5), (3, 2, 3, 2), (3,)),
    "conv2d, dilation": of(lambda x, w: F.conv2d(x, w, dilation=2, padding=2), (1, 2, 6, 5), (2, 2, 3, 2)),
    "conv2d, groups": of(lambda x, w, b: F.conv2d(x, w, b, groups=2), (2, 4, 4, 5), (6, 2, 2, 3), (6,)),
    "conv2d, depthwise": of(lambda x, w: F.conv2d(x, w, groups=3, padding=1), (2, 3, 4, 5), (3, 1, 3, 3)),
    "conv2d, one point": of(lambda x, w, b: F.conv2d(x, w, b), (2, 3, 3, 4), (5, 3, 1, 1), (5,)),
    "conv2d, padding same": of(lambda x, w: F.conv2d(x, w, padding="same"), (1, 2, 5, 4), (2, 2, 3, 2)),
    "conv2d, one image": of(lambda x, w: F.conv2d(x, w), (2, 5, 4), (3, 2, 2, 2)),
    "conv3d": of(lambda x, w, b: F.conv3d(x, w, b, padding=1), (1, 2, 3, 4, 3), (2, 2, 2, 3, 2), (2,)),
    "conv3d, stride, groups": of(
        lambda x, w: F.conv3d(x, w, stride=(1, 2, 2), groups=2), (1, 2, 3, 5, 4), (2, 1, 2, 2, 2)
    ),
    "conv_transpose1d": of(
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, output_padding=1), (2, 3, 4), (3, 2, 3), (2,)
    ),
    "conv_transpose2d": of(
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        (2, 2, 3, 4),
        (2, 3, 3, 3),
        (3,),
    ),
    "conv_transpose2d, groups": of(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), (2, 4, 3, 2), (4, 3, 2, 3)
    ),
    "conv_transpose2d, dilation": of(lambda x, w: F.conv_transpose2d(x, w, dilation=2), (1, 2, 3, 4), (2, 2, 2, 2)),
    "conv_transpose3d": of(lambda x, w: F.conv_transpose3d(x, w, stride=2), (1, 2, 2, 3, 2), (2, 2, 2, 2, 2)),
    "unfold of windows": of(lambda x: F.unfold(x, (2, 3), padding=1), (2, 2, 4, 5), half=False),
    "fold of windows": of(lambda x: F.fold(x, (4, 5), 2), (2, 8, 12), half=False),
}

POOLS: dict[str, Case] = {
    "max_pool1d": of(lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 8)),
    "max_pool1d, dilation": of(lambda x: F.max_pool1d(x, 2, 1, dilation=3), (2, 3, 8)),
    "max_pool2d": of(lambda x: F.max_pool2d(x, 2), IMAGES),
    "max_pool2d, overlapping": of(lambda x: F.max_pool2d(x, 3, 2, 1), IMAGES),
    "max_pool2d, ceil, dilation": of(lambda x: F.max_pool2d(x, 2, 3, 1, dilation=2, ceil_mode=True), IMAGES),
    "max_pool2d, one image": of(lambda x: F.max_pool2d(x, 2), (3, 5, 6)),
    "max_pool2d with its places": of(
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (1, 2, 4, 6), half=False
    ),
    "max_pool3d": of(lambda x: F.max_pool3d(x, 2), (1, 2, 4, 5, 4)),
    "max_pool3d, overlapping": of(lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), 1), (1, 2, 3, 5, 4)),
    "avg_pool1d": of(lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 3, 8)),
    "avg_pool2d": of(lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGES),
    "avg_pool2d, ceil, without padding": of(
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), IMAGES
    ),
    "avg_pool2d, divisor": of(lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), IMAGES),
    "avg_pool2d, one image": of(lambda x: F.avg_pool2d(x, 2), (3, 5, 6)),
    "avg_pool3d": of(lambda x: F.avg_pool3d(x, 2, 1, 1), (1, 2, 3, 4, 3)),
    "lp_pool2d": of(lambda x: F.lp_pool2d(x, 2.0, 2), positive(1, 2, 4, 6), half=False),
    "adaptive_avg_pool1d": of(lambda x: F.adaptive_avg_pool1d(x, 3), (2, 3, 8)),
    "adaptive_avg_pool2d": of(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGES),
    "adaptive_avg_pool2d to one": of(lambda x: F.adaptive_avg_pool2d(x, 1), IMAGES),
    "adaptive_avg_pool3d": of(lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)), (1, 2, 3, 4, 3)),
    "adaptive_max_pool1d": of(lambda x: F.adaptive_max_pool1d(x, 3), (2, 3, 8)),
    "adaptive_max_pool2d": of(lambda x: F.adaptive_max_pool2d(x, (3, 4)), IMAGES),
    "adaptive_max_pool2d, even": of(lambda x: F.adaptive_max_pool2d(x, (2, 3)), (2, 2, 4, 6)),
    "adaptive_max_pool3d": of(lambda x: F.adaptive_max_pool3d(x, (2, 1, 3)), (1, 2, 3, 4, 3)),
}

_HEADS = (1, 2, 4, 6)


def _attention_layer(x: T, w: T, b: T, out: T, out_bias: T) -> T:
    made, _ = F.multi_head_attention_forward(
        x, x, x, 6, 2, w, b, None, None, False, 0.0, out, out_bias, need_weights=False
    )
    return made


ATTENTION: dict[str, Case] = {
    "attention": of(F.scaled_dot_product_attention, _HEADS, (1, 2, 5, 6), (1, 2, 5, 3)),
    "attention, causal": of(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _HEADS, _HEADS, _HEADS
    ),
    "attention, masked": of(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(4, 4, dtype=torch.bool).tril()),
        _HEADS,
        _HEADS,
        _HEADS,
    ),
    "attention, mask added, scale": of(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3), _HEADS, _HEADS, _HEADS, (4, 4)
    ),
    "attention, grouped heads": of(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (1, 4, 3, 4),
        (1, 2, 5, 4),
        (1, 2, 5, 4),
    ),
    "multi_head_attention": of(_attention_layer, (4, 2, 6), (18, 6), (18,), (6, 6), (6,)),
}

EMBEDDINGS: dict[str, Case] = {
    "embedding": of(lambda w, i: F.embedding(i, w), X, indices(4, 2, 3)),
    "embedding, padding": of(lambda w, i: F.embedding(i, w, padding_idx=1), X, indices(4, 2, 5), true=False),
    "embedding, by frequency": of(
        lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), X, indices(4, 2, 5), half=False, true=False
    ),
    "embedding_bag, sum": of(lambda w, i: F.embedding_bag(i, w, mode="sum"), X, indices(4, 2, 3)),
    "embedding_bag, mean": of(lambda w, i: F.embedding_bag(i, w, mode="mean"), X, indices(4, 2, 3)),
    "embedding_bag, max": of(lambda w, i: F.embedding_bag(i, w, mode="max"), X, indices(4, 2, 3)),
    "embedding_bag, offsets": of(
        lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 2, 2]), mode="sum"), X, indices(4, 7)
    ),
    "embedding_bag, weights": of(
        lambda w, i, each: F.embedding_bag(i, w, mode="sum", per_sample_weights=each), X, indices(4, 2, 3), (2, 3)
    ),
}

INDEXING: dict[str, Case] = {
    "gather": of(lambda x, i: x.gather(1, i), X, indices(6, 4, 3)),
    "scatter": of(lambda x, s: x.scatter(0, torch.tensor([[1, 0, 2, 3, 1, 0], [0, 3, 1, 2, 0, 1]]), s), X, (2, 6)),
    "scatter a number": of(lambda x, i: x.scatter(0, i, 1.0), X, indices(4, 1, 6)),
    "scatter_add": of(lambda x, i, s: x.scatter_add(1, i, s), X, indices(6, 4, 5), (4, 5)),
    **{
        f"scatter_reduce, {how}": of(
            lambda x, i, s, how=how: x.scatter_reduce(1, i, s, how), X, indices(6, 4, 5), (4, 5), half=False
        )
        for how in ("sum", "prod", "amax", "mean")
    },
    "index_select": of(lambda x, i: x.index_select(0, i), X, indices(4, 5)),
    "index": of(lambda x, i, j: x[i, j], X, indices(4, 3, 1), indices(6, 5)),
    "index of one dim": of(lambda x, i: x[:, i], X, indices(6, 7)),
    "index by a mask": of(lambda x, m: x[m], X, truth(*X), half=False),
    "index_put": of(lambda x, v: x.index_put((torch.tensor([0, 3, 1]),), v), X, (3, 6)),
    "index_put, accumulated": of(
        lambda x, i, v: x.index_put((i, torch.tensor([0, 2, 0])), v, accumulate=True), X, indices(4, 3), (3,)
    ),
    "index_put by a mask": of(lambda x, m: x.index_put((m,), torch.zeros((), dtype=x.dtype)), X, truth(*X)),
    "index_add": of(lambda x, i, v: x.index_add(0, i, v, alpha=0.5), X, indices(4, 5), (5, 6)),
    "index_copy": of(lambda x, v: x.index_copy(0, torch.tensor([2, 0]), v), X, (2, 6)),
    "index_fill": of(lambda x: x.index_fill(1, torch.tensor([2, 0]), 3.0), X),
    "masked_fill": of(lambda x, m: x.masked_fill(m, -2.0), X, truth(*X)),
    "masked_fill by a tensor": of(lambda x, m, v: x.masked_fill(m, v), X, truth(*X), ()),
    "masked_select": of(torch.masked_select, X, truth(*X), half=False),
    "masked_scatter": of(torch.masked_scatter, X, truth(*X), X, half=False),
    "where": of(lambda m, x, y: torch.where(m, x, y), truth(*X), X, (6,)),
    "take": of(torch.take, X, indices(24, 5)),
    "take_along_dim": of(lambda x, i: torch.take_along_dim(x, i, 0), X, indices(4, 2, 6)),
    "put": of(lambda x, v: x.put(torch.tensor([3, 8, 1]), v), X, (3,), half=False),
    "select, slice": of(lambda x: (x[::2, 1], x[:, -1], x[1:3]), X),
    "select_scatter": of(lambda x, v: x.select_scatter(v, 0, 2), X, (6,)),
    "slice_scatter": of(lambda x, v: x.slice_scatter(v, 1, 1, 6, 2), X, (4, 3)),
    "diagonal": of(lambda x: x.diagonal(1), X),
    "tril, triu": of(lambda x: (x.tril(), x.triu(1)), X),
    "unfold": of(lambda x: x.unfold(1, 3, 2), X),
    "repeat_interleave": of(lambda x: x.repeat_interleave(2, 0), X),
    "assigned in place": of(lambda x, v: _assigned(x, v), X, (2, 6)),
}


def _assigned(x: T, v: T) -> T:
    made = x * 2
    made[1:3] = v
    made[:, 0] *= v[0, 0]
    return made


FAMILIES = {
    "activations": ACTIVATIONS,
    "norms": NORMS,
    "convolutions": CONVOLUTIONS,
    "pools": POOLS,
    "attention": ATTENTION,
    "embeddings": EMBEDDINGS,
    "indexing": INDEXING,
}
