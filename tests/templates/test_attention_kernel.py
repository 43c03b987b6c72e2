"""Attention as one kernel: its numbers, what it moves, and when it is left to the kernels of its formula."""

from __future__ import annotations

import math
import random
import warnings
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.agreement import agrees
from workbench.ground.errors import FusionError, MappingError

OFF: Any = {"fusion": {"off": ["attention"]}}


def qkv(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def alike(heads: int, tokens: int, width: int) -> list[torch.Tensor]:
    return qkv(*[(1, heads, tokens, width)] * 3)


def kinds(journey: Any) -> list[str]:
    return [kernel.kind for kernel in journey.lowered.record.kernels]


def moved(journey: Any) -> int:
    stats = journey.simulated.stats
    return stats["dram_read_bytes"] + stats["dram_write_bytes"]


def tile(journey: Any) -> dict[str, int]:
    return journey.scheduled.record.kernels[0].mapping.tile


# Numbers


def drawn(seed: int) -> tuple[partial[torch.Tensor], list[torch.Tensor], dict[str, Any]]:
    """A call of random shapes, layouts, mask and scale, and for some of them a mapping."""
    lot = random.Random(seed)
    torch.manual_seed(seed)
    dtype = lot.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    batch, own, shared = lot.choice([1, 2]), lot.choice([1, 2, 3]), lot.choice([1, 1, 2, 3])
    queries, keys = lot.choice([1, 2, 7, 16, 33]), lot.choice([1, 5, 16, 40])
    width, values = lot.choice([1, 3, 8, 16]), lot.choice([1, 4, 8, 17])
    q, k, v = qkv(
        (batch, own * shared, queries, width), (batch, own, keys, width), (batch, own, keys, values), dtype=dtype
    )
    if lot.random() < 0.3:
        q = torch.randn(batch, queries, own * shared, width, dtype=dtype).transpose(1, 2)
    if lot.random() < 0.3:
        k = torch.randn(batch, own, width, keys, dtype=dtype).transpose(2, 3)
    asked: dict[str, Any] = {"enable_gqa": shared > 1, "scale": lot.choice([None, None, 0.3, 0.0, -0.7])}
    given, kind = [q, k, v], lot.choice(["none", "causal", "bool", "float"])
    asked["is_causal"] = kind == "causal"
    if kind in ("bool", "float"):
        shape = [lot.choice([1, batch]), lot.choice([1, own * shared]), lot.choice([1, queries]), lot.choice([1, keys])]
        mask = torch.rand(shape[lot.choice([0, 2]) :]) > 0.4
        added = torch.randn(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)
        given.append(mask if kind == "bool" else added)
    options: dict[str, Any] = {"machine": lot.choice(["edge-8x8", "tpu-v3", "tpu-v4-chip"])}
    if lot.random() < 0.6:
        seen = min(queries, keys) if kind == "causal" else keys
        most = {"queries": queries, "keys": seen, "width": width, "values": values}
        sizes = {name: min(extent, lot.choice([1, 3, 4, 8, extent])) for name, extent in most.items()}
        options["mapping"] = {"*": {"tile": sizes, "buffers": lot.choice([1, 2, 3])}}
    return partial(F.scaled_dot_product_attention, **asked), given, options


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("seed", range(16))
def test_shapes_types_masks_layouts_and_mappings(seed: int):
    function, given, options = drawn(seed)
    journey = agrees(function, *given, **options)
    assert [item.route for item in journey.lowered.record.nodes if item.route != "view"] == ["template"]
    assert journey.check(stage="simulated").ok
    journey.simulated.record.invariants()


@pytest.mark.test_all
def test_in_64_bits_and_with_one_tensor_for_all():
    agrees(lambda x: F.scaled_dot_product_attention(x, x, x), torch.randn(2, 9, 8, dtype=torch.float64))
    agrees(lambda x: F.scaled_dot_product_attention(x, x, x), torch.randn(9, 8))


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("value", ["its own", "the same"])
def test_matrices_with_the_same_queries_and_keys(value: str, causal: bool):
    q, k = torch.randn(2, 1, 9, 5).expand(2, 6, 9, 5), torch.randn(2, 1, 9, 5).expand(2, 6, 9, 5)
    v = torch.randn(2, 6, 9, 5) if value == "its own" else k
    journey = agrees(partial(F.scaled_dot_product_attention, is_causal=causal), q, k, v, machine="tpu-v3")
    assert len(kinds(journey)) == 1


@pytest.mark.test_all
def test_a_query_that_sees_no_key_is_zero_also_where_its_keys_come_in_blocks():
    mask = torch.rand(10, 12) > 0.5
    mask[3] = False
    mapping = {"*": {"tile": {"keys": 5, "queries": 4}}}
    given = [*alike(2, 10, 8)[:1], *alike(2, 12, 8)[:2]]
    made = agrees(F.scaled_dot_product_attention, *given, mask, mapping=mapping)
    assert (made.run(*given, mask)[:, :, 3] == 0).all()


def test_a_mask_of_the_least_number_leaves_the_mean_of_the_values():
    """As some models mask: a row of which every score is that number has equal weights."""
    mask = torch.zeros(4, 6)
    mask[2] = torch.finfo(torch.float32).min
    given = qkv((1, 4, 8), (1, 6, 8), (1, 6, 8))
    made = agrees(F.scaled_dot_product_attention, *given, mask, mapping={"*": {"tile": {"keys": 2}}})
    torch.testing.assert_close(made.run(*given, mask)[0, 2], given[2][0].mean(0))


def test_large_scores_do_not_overflow():
    q, k, v = alike(1, 8, 16)
    agrees(F.scaled_dot_product_attention, q * 1000, k, v, mapping={"*": {"tile": {"keys": 3}}})


# What is moved


@pytest.mark.test_all
@pytest.mark.parametrize("machine", ["tpu-v2", "tpu-v3", "tpu-v4"])
def test_dram_moves_queries_keys_values_and_the_result_and_nothing_else(machine: str):
    q, k, v = alike(4, 256, 64)
    made = wb.trace(F.scaled_dot_product_attention, q, k, v, machine=machine)
    assert moved(made) == 4 * q.nbytes
    assert (
        made.simulated.cycles
        < wb.trace(F.scaled_dot_product_attention, q, k, v, machine=machine, **OFF).simulated.cycles
    )


def test_heads_that_share_keys_load_them_once():
    q, k, v = qkv((1, 8, 64, 32), (1, 2, 64, 32), (1, 2, 64, 32))
    made = wb.trace(partial(F.scaled_dot_product_attention, enable_gqa=True), q, k, v, machine="tpu-v3")
    assert moved(made) == 2 * q.nbytes + k.nbytes + v.nbytes


@pytest.mark.test_all
def test_keys_that_do_not_fit_are_loaded_once_for_each_block_of_queries():
    q, k, v = alike(2, 512, 64)
    made = wb.trace(F.scaled_dot_product_attention, q, k, v, machine="edge-8x8")
    blocks = -(-512 // tile(made)["queries"])
    assert blocks > 1 and moved(made) == 2 * q.nbytes + blocks * (k.nbytes + v.nbytes)


@pytest.mark.test_all
def test_blocks_that_a_causal_mask_hides_are_left_out():
    q, k, v = alike(2, 512, 64)
    mapping = {"*": {"tile": {"queries": 128, "keys": 128}}}
    options: Any = {"machine": "tpu-v3", "mapping": mapping}
    causal = wb.trace(partial(F.scaled_dot_product_attention, is_causal=True), q, k, v, **options)
    full = wb.trace(F.scaled_dot_product_attention, q, k, v, **options)
    assert causal.simulated.stats["macs"] == full.simulated.stats["macs"] * 10 // 16


@pytest.mark.test_all
@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3", "tpu-v4"])
def test_a_step_of_decoding_is_faster_than_the_kernels_of_the_formula(machine: str):
    q, k, v = qkv((1, 12, 1, 64), (1, 12, 512, 64), (1, 12, 512, 64))
    made = wb.trace(F.scaled_dot_product_attention, q, k, v, machine=machine)
    assert moved(made) == 2 * q.nbytes + k.nbytes + v.nbytes
    assert (
        made.simulated.cycles
        < wb.trace(F.scaled_dot_product_attention, q, k, v, machine=machine, **OFF).simulated.cycles
    )


def test_cores_share_the_matrices_or_the_queries():
    for heads, tokens in ((4, 64), (1, 512)):
        made = wb.trace(F.scaled_dot_product_attention, *alike(heads, tokens, 64), machine="tpu-v4-chip")
        assert {*made.scheduled.record.kernels[0].program.core.tolist()} == {0, 1}


# The switch


def test_one_kernel_by_the_rule_and_two_without_it():
    given = alike(2, 8, 8)
    one, two = (wb.trace(F.scaled_dot_product_attention, *given, **options) for options in ({}, OFF))
    assert kinds(one) == ["opaque"] and list(one.lowered.table.rule) == ["attention"]
    assert kinds(two) == ["contraction", "contraction"]
    apart = two.lowered.fusions.query("not fused")
    assert {*apart.rule} == {"attention"} and {*apart.reason} == {"the rule 'attention' is turned off"}


def test_without_any_fusion_each_op_has_the_reason_of_its_own_rule():
    none = wb.trace(F.scaled_dot_product_attention, *alike(2, 8, 8), fusion="none")
    assert len(kinds(none)) > 3 and "elementwise chain" in {*none.lowered.fusions.rule}


@pytest.mark.test_all
def test_wide_heads_keep_the_kernels_of_the_formula_and_say_why():
    made = agrees(F.scaled_dot_product_attention, *qkv((1, 4, 600), (1, 4, 600), (1, 4, 8)))
    assert kinds(made) == ["contraction", "contraction"]
    (reason,) = {*made.lowered.fusions.query("rule == 'attention'").reason}
    assert "600 wide" in reason and "512" in reason


def test_dropout_goes_to_the_host_and_says_why():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = wb.trace(partial(F.scaled_dot_product_attention, dropout_p=0.5), *alike(1, 4, 4))
    assert list(made.lowered.table.route) == ["host"] and "dropout" in made.lowered.table.rule[0]


def test_a_rule_or_dim_that_is_misspelt():
    with pytest.raises(FusionError, match=r"did you mean 'attention'"):
        wb.trace(F.scaled_dot_product_attention, *alike(1, 4, 4), fusion={"off": ["atention"]})
    with pytest.raises(MappingError, match="keyes"):
        _ = wb.trace(F.scaled_dot_product_attention, *alike(1, 4, 4), mapping={"*": {"tile": {"keyes": 2}}}).scheduled
