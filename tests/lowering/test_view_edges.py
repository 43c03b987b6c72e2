"""Edges that a view stands on say what would keep the two apart without it, or how the view shows the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.ground import errors
from workbench.lowering.fusion_rules import RULES, SWITCHES

X, ROWS, W = (2, 8, 64), (16, 64), (64, 64)
NORM: Any = {"normalized_shape": (64,)}

EDGES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str, str]] = {
    "a norm of sequences": (
        lambda x, w: F.linear(F.layer_norm(x, **NORM), w), [X, W], "product prologue", "only pointwise ops run",
    ),
    "products of sequences": (
        lambda x, w: F.linear(F.gelu(F.linear(x, w)), w), [X, W], "product prologue", "a second product needs",
    ),
    "another order": (
        lambda x, w: torch.softmax(x, -1).transpose(0, 1) + w, [ROWS, ROWS[::-1]],
        "never across a view", "transpose reads the result with other strides",
    ),
    "another shape": (
        lambda x: torch.softmax(x, -1).view(8, 128).sum(-1), [X],
        "never across a view", "view reads the result in another shape",
    ),
    "a copy that nobody can tell from it": (
        lambda x: (h := (x + 1).clone(), h.sum(-1)), [ROWS],
        "never across a view", "clone is a view of the result",
    ),
}  # fmt: skip


@pytest.mark.test_all
@pytest.mark.parametrize("name", EDGES)
def test_an_edge_through_a_view_says_why_it_is_not_fused(name: str):
    function, shapes, rule, reason = EDGES[name]
    j = wb.trace(function, *map(torch.randn, shapes))
    told = [(each.rule, each.reason) for each in j.lowered.record.fusions if not each.fused]
    assert any(each[0] == rule and reason in each[1] for each in told), told
    assert j.check().ok


@pytest.mark.test_all
def test_a_view_is_a_limit_and_every_switch_of_the_column_can_be_turned_off():
    j = wb.trace(lambda x, w: torch.softmax(F.linear(torch.relu(x), w), -1).view(8, 128).sum(-1), torch.randn(2, 8, 64),
                 torch.randn(64, 64))  # fmt: skip
    decisions = j.lowered.fusions
    assert decisions.set_index("rule").switch.to_dict() | {"never across a view": False} == {
        rule: rule != "never across a view" for rule in decisions.rule
    }
    assert not decisions[~decisions.switch].fused.any()
    for rule in decisions[decisions.switch].rule.unique():
        assert len(j.with_(fusion={"off": [rule]}).lowered.kernels) >= len(j.lowered.kernels)
    with pytest.raises(errors.FusionError, match=r"a view' is a limit, not a switch.* 'elementwise chain'"):
        _ = j.with_(fusion={"off": ["never across a view"]}).lowered


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("limit", [rule.name for rule in RULES if rule.name not in SWITCHES])
def test_no_limit_can_be_turned_off(limit: str):
    with pytest.raises(errors.FusionError, match=f"'{limit}' is a limit, not a switch.* turned off is 'gather into"):
        _ = wb.trace(torch.tanh, torch.randn(8), fusion={"off": [limit]}).lowered
