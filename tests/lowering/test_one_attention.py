"""Attention written by hand as one kernel: right, in fewer cycles than without it; the reason where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import workbench as wb
from templates.where import choice
from tests.agreement import agrees
from tests.rewriting.own_ops import scaled_relu, scaled_relu_op
from workbench.ground.errors import FusionError
from workbench.mlir.bindings import Value
from workbench.scheduling.kernels.node_builder import NodeBuilder

OFF: Any = {"off": ["attention"]}
INF = math.inf


def qkv(*lead: int, queries: int = 24, keys: int = 24, width: int = 16, dtype: Any = torch.float32) -> list[Tensor]:
    shapes = (queries, width), (keys, width), (keys, width)
    return [torch.randn(*lead, *shape, dtype=dtype) for shape in shapes]


def lower_left(extent: int = 24) -> Tensor:
    return torch.ones(extent, extent, dtype=torch.bool).tril()


def repeated(x: Tensor, times: int) -> Tensor:
    batch, heads, length, width = x.shape
    return x[:, :, None, :, :].expand(batch, heads, times, length, width).reshape(batch, heads * times, length, width)


def eager(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """As the models of a well-known library have it, with grouped heads."""
    k, v = repeated(k, q.shape[1] // k.shape[1]), repeated(v, q.shape[1] // v.shape[1])
    weights = torch.matmul(q, k.transpose(2, 3)) * 0.25 + mask[:, :, :, : k.shape[-2]]
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    weights = F.dropout(weights, p=0.1, training=False)
    return torch.matmul(weights, v).transpose(1, 2).contiguous()


class CausalSelfAttention(nn.Module):
    """As a small and well-known GPT has it."""

    def __init__(self, width: int = 32, heads: int = 4, most: int = 64):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout, self.heads, self.width = nn.Dropout(0.1), heads, width
        self.register_buffer("bias", torch.tril(torch.ones(most, most)).view(1, 1, most, most))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        q, k, v = (each.view(b, t, self.heads, c // self.heads).transpose(1, 2) for each in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = self.dropout(F.softmax(scores, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


def chosen(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Scores are divided by a tensor, and those that count are chosen against one."""
    scores = q @ k.mT / torch.full([], k.shape[-1] ** 0.5)
    least = torch.full([], torch.finfo(scores.dtype).min)
    return torch.where(mask, scores, least).softmax(-1).type(v.dtype) @ v


Written = tuple[Callable[..., Tensor], list[Tensor]]

FOUND: dict[str, Callable[[], Written]] = {
    "plain": lambda: (lambda q, k, v: (q @ k.transpose(-2, -1) / 4).softmax(-1) @ v, qkv(2, 3)),
    "matrices": lambda: (lambda q, k, v: torch.softmax(q @ k.t(), 1) @ v, qkv()),
    "batches": lambda: (
        lambda q, k, v: torch.bmm(torch.bmm(q, k.transpose(1, 2)).mul(0.3).softmax(2), v), qkv(3, queries=33, keys=64),
    ),
    "keys already turned": lambda: (
        lambda q, k, v: (q * 0.5 @ k * 0.5).softmax(-1) @ v,
        [torch.randn(2, 9, 8), torch.randn(2, 8, 13), torch.randn(2, 13, 8)],
    ),
    "queries and keys scaled": lambda: (
        lambda q, k, v: ((q * 0.5) @ (k * 0.5).transpose(-2, -1)).softmax(-1) @ v, qkv(2, 3),
    ),
    "keys that all heads share": lambda: (
        lambda q, k, v: (q @ k.mT * 0.25).softmax(-1) @ v,
        [torch.randn(2, 4, 9, 16), torch.randn(2, 1, 11, 16), torch.randn(11, 5)],
    ),
    "eager": lambda: (eager, [*qkv(1, 4)[:1], *qkv(1, 2)[1:], torch.where(lower_left(), 0.0, -INF)[None, None]]),
    "eager in bf16": lambda: (
        eager,
        [
            *qkv(1, 4, dtype=torch.bfloat16)[:1], *qkv(1, 2, dtype=torch.bfloat16)[1:],
            torch.zeros(1, 1, 24, 30, dtype=torch.bfloat16),
        ],
    ),
    "a step of decoding": lambda: (
        eager, [torch.randn(2, 4, 1, 16), *qkv(2, 2, keys=40)[1:], torch.randn(2, 1, 1, 40)],
    ),
    "heads repeated one by one": lambda: (
        lambda q, k, v: (q @ k.repeat_interleave(3, 1).mT).softmax(-1) @ v.repeat_interleave(3, dim=1),
        [*qkv(2, 6)[:1], *qkv(2, 2)[1:]],
    ),
    "a module with a buffer": lambda: (CausalSelfAttention().eval(), [torch.randn(2, 16, 32)]),
    "chosen scores": lambda: (chosen, [*qkv(1, 2), lower_left()[None, None]]),
    "a large number where hidden": lambda: (
        lambda q, k, v, mask: (q @ k.mT / 4).masked_fill(mask, -12.5).softmax(-1) @ v,
        [*qkv(2, 2), torch.rand(2, 1, 1, 24) > 0.5],
    ),
    "minus infinity unless the condition": lambda: (
        lambda q, k, v, mask: torch.where(mask, -INF, q @ k.mT).softmax(-1) @ v, [*qkv(2, 2), ~lower_left()],
    ),
    "a mask made of ones": lambda: (
        lambda q, k, v: ((q @ k.mT) / 4 + torch.triu(torch.full((24, 24), -INF), 1)).softmax(-1) @ v, qkv(1, 2),
    ),
    "a product with a sum": lambda: (
        lambda q, k, v, mask: torch.baddbmm(mask, q, k.mT, alpha=0.25).softmax(-1) @ v,
        [*qkv(3), torch.randn(3, 24, 24)],
    ),
    "a layer of PyTorch's": lambda: (
        lambda x: layer(x, x, x)[0], [torch.randn(2, 16, 32)],
    ),
}  # fmt: skip

layer = nn.MultiheadAttention(32, 2, batch_first=True).eval()


def attentions(j: Any) -> int:
    return [item.node.op for item in j.lowered.record.nodes].count("workbench.attention.default")


def reasons(j: Any) -> set[str]:
    return {*j.lowered.fusions.query("rule == 'attention'").reason}


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", FOUND)
def test_it_is_one_kernel_that_is_right_and_faster(name: str, machine: str):
    torch.manual_seed(0)
    function, given = FOUND[name]()
    j = agrees(function, *given, machine=machine)
    assert attentions(j) == 1, reasons(j)
    apart = j.with_(fusion=OFF)
    assert attentions(apart) == 0 and reasons(apart) == {"the rule 'attention' is turned off"}
    assert len(j.lowered.record.kernels) < len(apart.lowered.record.kernels)
    # a launch costs nothing on edge-8x8, and with so few queries products take the time there
    assert j.simulated.cycles < (1.08 if machine == "edge-8x8" else 1.0) * apart.simulated.cycles
    moved, before = (each.simulated.trace.counters for each in (j, apart))
    assert moved["dram_write_bytes"] < before["dram_write_bytes"]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("shape", [(24,), (), (1,), (2, 1, 1, 1, 24)], ids=str)
def test_a_mask_of_any_number_of_dims(shape: tuple[int, ...]):
    added = agrees(lambda q, k, v, m: (q @ k.mT + m).softmax(-1) @ v, *qkv(2, 3), torch.randn(shape))
    hidden = agrees(
        lambda q, k, v, m: (q @ k.mT).masked_fill(m, -1e9).softmax(-1) @ v, *qkv(2, 3), torch.rand(shape) > 0.5
    )
    assert attentions(added) == attentions(hidden) == 1


@pytest.mark.test_all
def test_a_query_that_sees_no_key_is_nan_as_in_pytorch():
    q, k, v = qkv(2, queries=6, keys=12)
    mask = torch.rand(6, 12) > 0.5
    mask[3] = True
    mapping = {"*": {"tile": {"keys": 5, "queries": 4}}}
    j = agrees(lambda q, k, v, m: (q @ k.mT).masked_fill(m, -INF).softmax(-1) @ v, q, k, v, mask, mapping=mapping)
    made = j.run(q, k, v, mask)
    assert made[:, 3].isnan().all() and made[:, [0, 1, 2, 4, 5]].isfinite().all()


@pytest.mark.test_all
def test_a_query_all_of_whose_scores_are_replaced_has_the_mean_of_the_values():
    q, k, v = qkv(2, queries=6, keys=12)
    mask = torch.zeros(6, 12, dtype=torch.bool)
    mask[3] = True
    j = agrees(lambda q, k, v, m: (q @ k.mT).masked_fill(m, -1e4).softmax(-1) @ v, q, k, v, mask)
    torch.testing.assert_close(j.run(q, k, v, mask)[:, 3], v.mean(1))


def test_the_whole_scores_never_go_to_dram():
    q, k, v = qkv(4, queries=256, keys=256, width=64)
    j = wb.trace(lambda q, k, v: (q @ k.mT / 8).softmax(-1) @ v, q, k, v, machine="tpu-v3")
    moved = j.simulated.stats
    assert moved["dram_read_bytes"] + moved["dram_write_bytes"] == 4 * q.nbytes


REFUSED: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]], str]] = {
    "scores are a result": (lambda q, k, v: ((s := q @ k.mT).softmax(-1) @ v, s), lambda: qkv(2), "matmul is a result"),
    "weights are read twice": (
        lambda q, k, v: ((w := (q @ k.mT).softmax(-1)) @ v, w.sum(-2)), lambda: qkv(2),
        "softmax is read by matmul_1 and",
    ),
    "scores are added to themselves": (
        lambda q, k, v: ((s := q @ k.mT) + s).softmax(-1) @ v, lambda: qkv(2), "read by add more than once",
    ),
    "weights are multiplied with themselves": (
        lambda q, k, v: (w := (q @ k.mT).softmax(-1)) @ w, lambda: qkv(2), "read by matmul_1 more than once",
    ),
    "a mask of bools that is added": (
        lambda q, k, v, m: (q @ k.mT + m).softmax(-1) @ v, lambda: [*qkv(2), lower_left()], "adds the bools of m",
    ),
    "two masks": (lambda q, k, v, m: (q @ k.mT + m + m.T).softmax(-1) @ v, lambda: [*qkv(2), torch.randn(24, 24)],
                  "add is a second mask"),
    "a scale after the mask": (
        lambda q, k, v, m: ((q @ k.mT + m) / 4).softmax(-1) @ v, lambda: [*qkv(2), torch.randn(24, 24)],
        "scaled after the mask of add",
    ),
    "a cap on the scores": (
        lambda q, k, v: (q @ k.mT / 4).tanh().softmax(-1) @ v, lambda: qkv(2), "tanh changes the scores",
    ),
    "a scale that is data": (
        lambda q, k, v, s: (q @ k.mT * s).softmax(-1) @ v, lambda: [*qkv(2), torch.tensor(0.5)],
        "mul changes the scores",
    ),
    "a number for each head": (
        lambda q, k, v, h: ((q @ k.mT).softmax(-1) * h) @ v, lambda: [*qkv(2), torch.randn(2, 1, 1)],
        "mul changes the weights",
    ),
    "keys before queries": (
        lambda q, k, v: v.mT @ (k @ q.mT / 4).softmax(-2), lambda: qkv(2), "weights as its second factor",
    ),
    "scores that are rounded": (
        lambda q, k, v: (q @ k.mT).bfloat16().softmax(-1).float() @ v, lambda: qkv(2), "to_copy rounds to bf16",
    ),
    "values of another type": (
        lambda q, k, v: (q @ k.mT).softmax(-1).bfloat16() @ v,
        lambda: [*qkv(2)[:2], torch.randn(2, 24, 16, dtype=torch.bfloat16)], "queries are f32 and values bf16",
    ),
    "a mask that is no condition": (
        lambda q, k, v, m: torch.where(m, q @ k.mT, m.float()).softmax(-1) @ v, lambda: [*qkv(2), lower_left()],
        "other numbers than one constant",
    ),
    "a wide head": (
        lambda q, k, v: (q @ k.mT).softmax(-1) @ v, lambda: qkv(1, queries=4, keys=4, width=600), "600 wide",
    ),
}  # fmt: skip


@pytest.mark.test_all
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_is_right(name: str):
    function, given, said = REFUSED[name]
    j = agrees(function, *given())
    assert attentions(j) == 0
    assert any(said in reason for reason in reasons(j)), j.lowered.fusions.to_string()


@pytest.mark.parametrize(
    "function",
    [lambda q, k, v: (q @ k.mT).softmax(-2) @ v, lambda q, k, v: v.mT @ (q @ k.mT).softmax(-1)],
    ids=["over queries", "of columns that are summed"],
)
def test_where_there_is_no_attention_other_rules_are_told(function: Callable[..., Any]):
    """The softmax's results add up to one along another dim than the product's sum."""
    j = agrees(function, *qkv(4, queries=64, keys=64))
    told = [text for text in j.findings.reason if "come back" in text]
    assert told and not reasons(j) and not any("attention" in text for text in told)
    assert any("the rule 'product prologue' did not fuse them" in text for text in told)


def test_a_finding_tells_what_it_costs():
    j = wb.trace(lambda q, k, v: ((w := (q @ k.mT).softmax(-1)) @ v, w), *qkv(4, queries=128, keys=128))
    (told,) = [text for text in j.findings.reason if "the rule 'attention'" in text]
    assert "softmax is a result" in told and "bytes" in told


@pytest.mark.test_all
def test_nodes_kept_apart_are_not_one_and_others_can_be_named():
    function, given = FOUND["eager"]()
    j = wb.trace(function, *given, fusion=[("softmax", "matmul_1")])
    assert attentions(j) == 0 and reasons(j) == {"kept apart on request: matmul_1 and softmax"}
    assert attentions(wb.trace(function, *given, fusion=[("softmax", "clone_3")])) == 1
    with pytest.raises(FusionError, match="softmix"):
        wb.trace(function, *given, fusion=[("softmix", "matmul_1")])


@pytest.mark.test_all
def test_a_kernel_of_ones_own_for_one_of_its_ops_is_used():
    shipped = choice("mask", "value", "self")

    def hides(op: NodeBuilder) -> Value:
        return shipped(op)

    function, given = FOUND["a large number where hidden"]()
    with wb.ops.scope():
        wb.ops.builder("aten.masked_fill.Scalar", dialect="linalg", kind="elementwise")(hides)
        j = agrees(function, *given)
    assert attentions(j) == 0
    (reason,) = reasons(j)
    assert reason.startswith("aten.masked_fill.Scalar has a kernel of its own, at") and __file__ in reason
    assert attentions(wb.trace(function, *given)) == 1


NODES = {"transpose_3", "matmul", "mul", "masked_fill", "softmax", "clone", "matmul_1"}


@pytest.mark.test_all
def test_all_its_nodes_are_selected_together():
    function, given = FOUND["a module with a buffer"]()
    j = wb.trace(function, *given)
    (kernel,) = [kernel.name for kernel in j.lowered.record.kernels if "attention" in kernel.name]
    for name in NODES:
        found = j.select(name)
        assert {*found.nodes} >= NODES and kernel in found.kernels and found.spans


@pytest.mark.test_all
def test_a_pattern_before_it_counts_its_nodes_as_well():
    with wb.ops.scope():
        wb.pattern("scaled relu", op=scaled_relu_op, example=(torch.empty(4, 8), 2.0))(scaled_relu)
        j = wb.trace(
            lambda q, k, v: torch.relu((torch.relu(q * 0.5) @ k.mT).softmax(-1) @ v * 3.0), *qkv(2), on_missing="host"
        )
    assert attentions(j) == 1
    assert {*j.select("softmax").nodes} == {"transpose", "matmul", "softmax", "matmul_1"}
    assert {*j.select("relu").nodes} == {"mul", "relu"} and {*j.select("relu_1").nodes} == {"mul_1", "relu_1"}


@pytest.mark.test_all
def test_a_journey_of_a_file_is_lowered_anew_to_the_same(tmp_path: Path):
    function, given = FOUND["eager"]()
    j = wb.trace(function, *given)
    j.save(tmp_path / "j.wb")
    loaded = wb.load(tmp_path / "j.wb")
    assert loaded.lowered.record == j.lowered.record
    apart = loaded.with_(fusion=OFF)
    assert attentions(apart) == 0 and attentions(apart.with_(fusion=None)) == 1


@pytest.mark.test_all
def test_of_two_attentions_that_share_ops_one_is_a_kernel():
    """The weights of the first are the queries of the second."""

    def chained(x: Tensor, y: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        weights = torch.softmax(x @ y, -1)
        return torch.softmax(weights @ k.transpose(-1, -2) * 0.25 + mask, -1) @ v

    shapes = (5, 17), (17, 2), (8, 2), (8, 9), (5, 8)
    j = wb.trace(chained, *(torch.randn(shape) for shape in shapes))
    assert j.check().ok
    assert any("is an attention of some of its ops" in each.reason for each in j.lowered.record.fusions)


NUMBERS = {
    "a whole number": (2.7, torch.int64),
    "a bool": (3, torch.bool),
    "bf16": (3.001, torch.bfloat16),
    "infinite in f16": (-1e9, torch.float16),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_in_a_tensor_is_that_of_its_type(name: str):
    number, dtype = NUMBERS[name]

    def hides(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        return torch.where(m, q @ k.mT, torch.full((), number, dtype=dtype)).softmax(-1) @ v

    def scales(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        return (q @ k.mT * torch.full((), number, dtype=dtype)).softmax(-1) @ v

    given = [*qkv(2, queries=7, keys=9), torch.rand(7, 9) > 0.5]
    given[3][2] = False
    for function in (hides, scales) if number > 0 else (hides,):
        wanted = function(*given)
        torch.testing.assert_close(wb.trace(function, *given).run(*given), wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.test_all
def test_keys_that_are_the_mask_as_well_stay():
    def twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = k.mT
        return (q @ turned + turned).softmax(-1) @ v

    agrees(twice, *qkv(2, queries=16, keys=16, width=16))


def test_queries_that_have_no_keys_give_zeros():
    given = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 0, 8), torch.randn(2, 3, 0, 5)
    found: Any = wb.trace(F.scaled_dot_product_attention, *given).run(*given)
    assert torch.equal(found, torch.zeros(2, 3, 7, 5))
