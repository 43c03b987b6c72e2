"""Scaled dot-product attention, and the layers made of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.agreement import agrees, replays

Shape = tuple[int, ...]


def qkv(*shapes: Shape, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


FORMULA: Any = {"fusion": {"off": ["attention"]}}
"""The kernels of the formula; the one kernel is tested beside its template."""

SHAPES: tuple[Shape, Shape, Shape] = ((2, 3, 10, 8), (2, 3, 12, 8), (2, 3, 12, 8))


@pytest.mark.test_all
def test_values_of_another_width():
    agrees(F.scaled_dot_product_attention, *qkv((4, 9, 16), (4, 9, 16), (4, 9, 5)), **FORMULA)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    "off, kinds",
    [
        ([], ["contraction", "contraction"]),
        (["rows of a product"], ["contraction", "reduction", "contraction"]),
    ],
    ids=str,
)
def test_the_softmax_is_in_the_kernel_of_the_first_product_or_one_of_its_own(off: list[str], kinds: list[str]):
    fusion: Any = {"off": ["attention", *off]}
    made = agrees(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
        *qkv(*SHAPES),
        machine="tpu-v3",
        fusion=fusion,
    )
    assert [kernel.kind for kernel in made.lowered.record.kernels] == kinds


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize(
    "mask_shape", [(10, 12), (1, 1, 10, 12), (2, 1, 10, 12), (2, 3, 10, 12), (2, 1, 1, 12)], ids=str
)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(mask_shape: Shape, kind: str):
    mask = torch.rand(mask_shape) > 0.3
    given = mask if kind == "bool" else torch.zeros(mask_shape).masked_fill(mask, -math.inf) + torch.randn(mask_shape)
    agrees(F.scaled_dot_product_attention, *qkv(*SHAPES), given, **FORMULA)


def test_a_row_that_attends_to_nothing_is_zero():
    mask = torch.rand(10, 12) > 0.5
    mask[3] = False
    made = agrees(F.scaled_dot_product_attention, *qkv(*SHAPES), mask, **FORMULA)
    assert (made.run(*qkv(*SHAPES), mask)[:, :, 3] == 0).all()


def test_in_64_bits():
    agrees(F.scaled_dot_product_attention, *qkv(*SHAPES, dtype=torch.float64), **FORMULA)


@pytest.mark.test_all
def test_query_heads_share_keys_and_values():
    shapes = (2, 6, 10, 8), (2, 3, 12, 8), (2, 3, 12, 8)
    agrees(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), *qkv(*shapes), **FORMULA)


def test_in_the_order_of_the_trace():
    replays(F.scaled_dot_product_attention, *qkv(*SHAPES), torch.rand(10, 12) > 0.3)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_self_attention(machine: str):
    torch.manual_seed(0)
    layer: Any = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = torch.randn(2, 9, 32)
    agrees(lambda x: layer(x, x, x, need_weights=False)[0], x, machine=machine)
    agrees(lambda x: layer(x, x, x), x, machine=machine)


@pytest.mark.test_all
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(norm_first: bool):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
    before = torch.backends.mha.get_fastpath_enabled()
    agrees(layer, torch.randn(2, 9, 32))
    assert torch.backends.mha.get_fastpath_enabled() == before


@pytest.mark.test_all
def test_decoder_layer():
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True).eval()
    agrees(layer, torch.randn(2, 9, 32), torch.randn(2, 11, 32))


class Block(nn.Module):
    """A GPT block: causal attention and a feed-forward half, each on a normalised residual stream."""

    def __init__(self, vocabulary: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_a_gpt_block_with_causal_mask_and_embedding(machine: str):
    torch.manual_seed(0)
    agrees(Block(50, 32, 4).eval(), torch.randint(0, 50, (2, 9)), machine=machine)
