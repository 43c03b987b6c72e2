"""Conversions and executors: another record of a node, another way of computing it, and what can go wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.ground import errors
from workbench.ir import AtenGraph

X, Y = torch.randn(31, 17), torch.randn(31, 17)


@torch.library.custom_op("conversiontest::gate", mutates_args=())
def gate(gate: torch.Tensor, value: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.sigmoid(gate) * value * scale


@gate.register_fake
def _(gate: torch.Tensor, value: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.empty_like(value)


@torch.library.custom_op("conversiontest::halves", mutates_args=())
def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 0.5, x * 2.0


@halves.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return gate(x, y, 2.0) + 1


pytestmark = pytest.mark.usefixtures("own_scope")


def taken_apart(info: Any) -> Any:
    given = info.arguments
    opened = info.call("aten.sigmoid.default", given["gate"])
    return info.call("aten.mul.Tensor", info.call("aten.mul.Tensor", opened, given["value"]), given["scale"])


def ops(journey: wb.Journey) -> list[str]:
    return list(journey.captured.table.op)


@pytest.mark.test_all
@pytest.mark.parametrize("mode", ["dynamo", "export"])
def test_a_conversion_records_other_ops_under_the_nodes_name(mode: str):
    wb.ops.conversion(gate)(taken_apart)
    journey = wb.trace(gated, X, Y, capture=mode)
    assert ops(journey) == ["aten.sigmoid.default", "aten.mul.Tensor", "aten.mul.Tensor", "aten.add.Tensor"]
    nodes = {node.name: node for node in journey.captured.record.nodes}
    assert {node.origin.op for node in nodes.values()} == {"conversiontest.gate.default", "aten.add.Tensor"}
    assert nodes["gate"].origin.line == gated.__code__.co_firstlineno + 1
    assert journey.check().ok and journey.check(stage="captured").ok
    assert AtenGraph.from_json(journey.captured.record.to_json()) == journey.captured.record


def test_a_conversion_may_change_the_node_itself():
    wb.ops.conversion(gate)(lambda info: replace(info.node, op="aten.mul.Tensor", args=info.node.args[:2]))
    journey = wb.trace(gated, X, Y)
    assert ops(journey) == ["aten.mul.Tensor", "aten.add.Tensor"]
    torch.testing.assert_close(journey.run(X, Y), X * Y + 1)


def test_a_conversion_of_several_results_gives_one_for_each():
    def convert(info: Any) -> Any:
        (x,) = info.operands
        assert [kind.shape for kind in info.result_types] == [(31, 17), (31, 17)]
        return info.call("aten.mul.Tensor", x, 0.5), info.call("aten.add.Tensor", x, x)

    wb.ops.conversion(halves)(convert)
    journey = wb.trace(lambda x: torch.add(*halves(x)), X)
    assert ops(journey) == ["aten.mul.Tensor", "aten.add.Tensor", "aten.add.Tensor"]
    assert journey.check().ok


def test_a_conversion_may_say_that_nothing_is_to_be_done():
    wb.ops.conversion(gate)(lambda info: info.operands[1])
    journey = wb.trace(gated, X, Y)
    torch.testing.assert_close(journey.run(X, Y), Y + 1)


def fails(info: Any) -> Any:
    raise ValueError("not today")


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize(
    ("conversion", "error", "message"),
    [
        (fails, errors.ConversionFailed, "raised ValueError: not today"),
        (lambda info: sys.exit(3), errors.ConversionFailed, "raised SystemExit: 3"),
        (lambda info: 3, errors.ConversionResult, r"returned \['int'\]; expected"),
        (lambda info: info.operands, errors.ConversionResult, "expected info.node"),
        (lambda info: info.call("aten.sum.default", info.operands[0]), errors.ConversionResult, "expected 31x17xf32"),
        (lambda info: replace(info.node, results=("other",)), errors.ConversionResult, "expected .'gate',."),
    ],
)
def test_a_conversion_that_goes_wrong_is_named_with_its_node(
    conversion: Callable[..., Any], error: type[Exception], message: str
):
    wb.ops.conversion(gate)(conversion)
    with pytest.raises(error, match=message) as caught:
        wb.trace(gated, X, Y)
    assert f"{__file__}:{conversion.__code__.co_firstlineno}" in str(caught.value)
    assert f"{__file__}:{gated.__code__.co_firstlineno + 1}" in str(caught.value)


def test_an_executor_computes_in_place_of_the_overload():
    seen: list[tuple[int, dict[str, object]]] = []

    def execute(inputs: list[torch.Tensor], attributes: dict[str, object]) -> list[torch.Tensor]:
        seen.append((len(inputs), attributes))
        return [inputs[0] - inputs[1]]

    wb.ops.executor(gate)(execute)
    with pytest.warns(errors.HostRoute):
        journey = wb.trace(gated, X, Y)
    torch.testing.assert_close(journey.run(X, Y), X - Y + 1)
    assert seen == [(2, {"scale": 2.0})]
    assert not journey.check(stage="captured").ok


def test_an_executor_gives_a_tensor_for_each_result():
    wb.ops.executor(halves)(lambda inputs, attributes: [inputs[0] + 1, inputs[0] + 2])
    with pytest.warns(errors.HostRoute):
        journey = wb.trace(lambda x: torch.add(*halves(x)), X)
    torch.testing.assert_close(journey.run(X), 2 * X + 3)


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize(
    ("executor", "error", "message"),
    [
        (lambda inputs, attributes: inputs[7], errors.ExecutorFailed, "raised IndexError"),
        (lambda inputs, attributes: sys.exit(3), errors.ExecutorFailed, "raised SystemExit: 3"),
        (lambda inputs, attributes: inputs[0], errors.ExecutorResult, "returned Tensor; expected a list"),
        (lambda inputs, attributes: inputs, errors.ExecutorResult, "a list of Tensor, Tensor; expected 1 tensor"),
        (lambda inputs, attributes: [3], errors.ExecutorResult, "a list of int"),
        (
            lambda inputs, attributes: [inputs[0].double()],
            errors.ExecutorResult,
            r"at .*test_conversions.py:\d+, returned float64 \[31, 17\]; expected float32 \[31, 17\], as the call was",
        ),
        (
            lambda inputs, attributes: [inputs[0][0]],
            errors.ExecutorResult,
            r"float32 \[17\]; expected float32 \[31, 17",
        ),
        (lambda inputs, attributes: [], errors.ExecutorResult, "a list of nothing"),
    ],
)
def test_an_executor_that_goes_wrong_is_named_with_its_node(
    executor: Callable[..., Any], error: type[Exception], message: str
):
    wb.ops.executor(gate)(executor)
    with pytest.warns(errors.HostRoute):
        journey = wb.trace(gated, X, Y)
    with pytest.raises(error, match=message) as caught:
        journey.run(X, Y)
    assert f"{__file__}:{executor.__code__.co_firstlineno}" in str(caught.value)
