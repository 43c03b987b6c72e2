"""Tests that containers of arguments and results are the same, of the same classes, as PyTorch's."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import pytest
import torch

import workbench as wb
from tests.eager import same_as_eager
from workbench.ground.errors import InputMismatch, UnsupportedContainer

R = torch.randn
Old = namedtuple("Old", "only")


class Pair(NamedTuple):
    left: Any
    right: Any


def containers(pair: Pair, options: dict[str, Any], *rest: torch.Tensor) -> dict[str, Any]:
    total = pair.left + pair.right[0] * options["scale"]
    return {
        "pair": Pair(total, [rest[0] * 2, None]),
        "old": (Old(total),),
        "top": torch.topk(rest[0] * 2, 2),
        "size": total.shape,
        "numbers": (3, 2.5, True, "text", None, torch.float16),
        "one": (total,),
        "nothing": [],
    }


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_named_tuples_and_what_torch_returns_keep_their_classes(capture: str):
    same_as_eager(
        containers,
        lambda: (Pair(R(3), (R(3), R(1))), {"scale": 2.5, "flag": None}, R(6)),
        capture=capture,
        hosted=None,
    )


@pytest.mark.test_all
def test_extremes_and_sorting_come_back_as_torch_names_them():
    def results(x: torch.Tensor) -> list[Any]:
        return [torch.max(x * 2, 1), x.min(dim=0), torch.sort(x), torch.linalg.qr(x)]

    same_as_eager(results, lambda: (R(4, 4),), hosted=None)


def test_a_class_defined_in_a_function_is_given_back_too():
    class Inner(NamedTuple):
        x: torch.Tensor

    journey = wb.trace(lambda x: Inner(x + 1), R(3), machine="edge-8x8")
    assert type(journey.run(R(3))) is Inner


def test_inputs_have_the_names_of_their_fields():
    journey = wb.trace(lambda p: p.left + p.right[0], Pair(R(3), (R(3),)), machine="edge-8x8")
    assert [given.path for given in journey.captured.record.inputs] == ["p.left", "p.right[0]"]
    with pytest.raises(InputMismatch, match=r"captured with the inputs \(Pair\(·, \(·,\)\)\), and was given \(\(·, "):
        journey.run((R(3), (R(3),)))


def test_other_classes_are_refused_by_name():
    class Odd(tuple[int, ...]):
        __slots__ = ()

    with pytest.raises(UnsupportedContainer, match="Odd"):
        wb.trace(lambda x: Odd((x + 1,)), R(3))
    with pytest.raises(UnsupportedContainer, match=r"inputs\[0\].*set"):
        wb.trace(lambda x: x, {1, 2})
