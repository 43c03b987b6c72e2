"""Tests the search for tensors in a callable that holds objects which answer wrongly when they are looked into."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.operators.tensors.reachable_tensors import reachable


class AnswersAll:
    """As wrappers of libraries do: any attribute is there, `__dict__` among them, and none is what it should be."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return AnswersAll()

    def __call__(self, *args: object) -> Any:
        return AnswersAll()


class Raises:
    """Every look into it is an exception of its own code."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise ValueError("no class")

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ValueError("no attributes")

    def __iter__(self) -> Iterator[object]:
        raise ValueError("no items")


class Stubborn:
    """It has an attribute that cannot be read."""

    def __init__(self) -> None:
        vars(self)["weight"] = torch.ones(3)

    @property
    def weight(self) -> torch.Tensor:
        raise ValueError("not now")


ODD: dict[str, Callable[[], object]] = {
    "answers all": AnswersAll,
    "raises": Raises,
    "stubborn": Stubborn,
    "says it is a list": lambda: Mock(spec=list),
    "says it is a dict": lambda: Mock(spec=dict),
    "says it is a module": lambda: Mock(spec=nn.Module),
    "says it is a tensor": lambda: MagicMock(spec=torch.Tensor),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_answers_wrongly_holds_nothing_and_hides_nothing(odd: str) -> None:
    class Box:
        def __init__(self) -> None:
            self.odd, self.weight = ODD[odd](), torch.full((3,), 2.0)

    box = Box()

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * box.weight

    found = reachable(scaled)
    assert [(each.path, each.tensor is box.weight) for each in found.tensors.values()] == [("box.weight", True)]
    assert not found.modules
    assert wb.trace(scaled, torch.randn(3)).check().ok


def test_modules_are_found_behind_a_proxy() -> None:
    layer = nn.Linear(2, 2)
    found = reachable(lambda x: weakref.proxy(layer)(x))
    assert {each.path for each in found.tensors.values()} == {"layer.weight", "layer.bias"}
    behind = weakref.proxy(layer)
    assert {each.path for each in reachable(lambda x: behind(x)).tensors.values()} == {"behind.weight", "behind.bias"}


def test_a_module_whose_own_code_raises_is_told_as_it_is() -> None:
    class Broken(nn.Module):
        def named_parameters(self, *args: object, **kwargs: object) -> Any:
            raise ValueError("no parameters today")

    with pytest.raises(ValueError, match="no parameters today"):
        reachable(Broken())
