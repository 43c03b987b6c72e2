"""Lists and dicts whose class answers something else than they hold: a call leaves them as they were."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.operators.tensors.raw_contents import contents, refill


class _Made(OrderedDict[str, Any]):
    """Makes what it is asked for of what it holds, as a registry of layers does."""

    def __getitem__(self, name: str) -> Any:
        kind, arguments = super().__getitem__(name)
        return kind(**arguments)


class _Doubled(list[Any]):
    def __getitem__(self, place: Any) -> Any:
        return 2 * super().__getitem__(place)

    def __iter__(self) -> Any:
        return (2 * each for each in super().__iter__())


LAYERS: Any = _Made(gelu=(torch.nn.GELU, {"approximate": "tanh"}), relu=(torch.nn.ReLU, {}))
NUMBERS: Any = _Doubled([torch.ones(4), torch.arange(4.0)])


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_a_registry_that_makes_layers_holds_what_it_held(capture: str):
    held = contents(LAYERS)
    journey = wb.trace(lambda x: LAYERS["gelu"](x) + LAYERS["relu"](x), torch.randn(6), capture=capture)
    assert journey.check().ok
    assert contents(LAYERS) == held and list(LAYERS) == ["gelu", "relu"]


def test_a_list_that_answers_otherwise_holds_what_it_held():
    held = contents(NUMBERS)
    x = torch.randn(4)
    journey = wb.trace(lambda x: x + NUMBERS[1], x, capture="export")
    assert journey.check().ok
    ran: Any = journey.run(x)
    assert torch.equal(ran, x + 2 * torch.arange(4.0))
    assert all(now is before for now, before in zip(contents(NUMBERS), held, strict=True))


def test_an_ordered_dict_gets_its_order_back():
    store = OrderedDict[Any, Any](a=1, b=2, c=3)
    store.move_to_end("a")
    held = contents(store)
    store.pop("b")
    refill(store, held)
    assert list(store.items()) == [("b", 2), ("c", 3), ("a", 1)]
    store.move_to_end("b")  # what it keeps its order in is whole
    assert list(store) == ["c", "a", "b"]
