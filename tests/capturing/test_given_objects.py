"""Plain objects that are given and returned, and what a call leaves in lists, dicts and objects that it is given."""

from __future__ import annotations

import enum
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.ground.errors import InputMismatch, SharedElements, UnsupportedContainer

R = torch.randn
both = pytest.mark.parametrize("capture", ["dynamo", "export"])


class Layer:
    """Keys and values that grow."""

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.filled = False

    def update(self, new: torch.Tensor) -> torch.Tensor:
        if self.keys is None:
            self.filled, self.width, self.keys = True, new.shape[-1], new * 1
        else:
            self.keys = torch.cat([self.keys, new])
        return self.keys


class Wide(Layer):
    pass


class Kind(enum.Enum):
    GROWS = "grows"
    SLIDES = "slides"


class Cache:
    """Layers that are made when they are first asked for."""

    def __init__(self, kind: type[Layer] = Layer, layers: tuple[Layer, ...] = ()) -> None:
        self.layers = [*layers]
        self.kind, self.how = kind, Kind.GROWS

    def update(self, new: torch.Tensor, place: int) -> torch.Tensor:
        while len(self.layers) <= place:
            self.layers.append(self.kind())
        return self.layers[place].update(new)


class Output(OrderedDict[str, Any]):
    """A dict whose items are attributes as well, as the results of many models are."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__.update(items)


def model(x: torch.Tensor, cache: Cache | None = None) -> Output:
    cache = Cache(Layer, (Layer(), Layer())) if cache is None else cache
    for place in range(2):
        keys = cache.update(x, place)
        x = torch.softmax(x @ keys.T, 1) @ keys
    return Output(logits=x + 1, cache=cache)


def filled(rows: int, kind: type[Layer] = Layer) -> Cache:
    cache = Cache(kind)
    for place in range(2):
        cache.update(R(rows, 4), place)
    return cache


def copied(cache: Cache) -> Cache:
    again = Cache(cache.kind)
    again.layers = [type(each)() for each in cache.layers]
    for mine, theirs in zip(again.layers, cache.layers, strict=True):
        mine.__dict__.update(theirs.__dict__)
    return again


def hosted(journey: Any) -> list[str]:
    return [item.node.op for item in journey.lowered.record.nodes if item.route == "host"]


def alike(ours: Cache, theirs: Cache) -> None:
    assert ours.kind is theirs.kind and ours.how is Kind.GROWS and len(ours.layers) == len(theirs.layers)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        assert type(mine) is type(other) and mine.__dict__.keys() == other.__dict__.keys()
        torch.testing.assert_close(mine.keys, other.keys)


@pytest.mark.test_all
@both
def test_an_object_that_is_returned_is_made_without_a_call_of_its_class(capture: str):
    journey = wb.trace(model, R(3, 4), machine="edge-8x8", capture=capture)
    assert hosted(journey) == [] and journey.check().ok
    x = R(3, 4)
    theirs = model(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Cache, "__init__")
        ours: Any = journey.run(x)
    assert type(ours) is Output and type(ours.cache) is Cache
    torch.testing.assert_close(ours["logits"], theirs["logits"])
    alike(ours.cache, theirs.cache)


@pytest.mark.test_all
@both
def test_a_cache_that_a_call_lets_grow_has_grown_after_a_run(capture: str):
    journey = wb.trace(model, R(1, 4), filled(5), machine="edge-8x8", capture=capture)
    assert hosted(journey) == [] and journey.check().ok
    paths = [slot.path for slot in journey.captured.record.inputs]
    assert paths == ["x", "cache.layers[0].keys", "cache.layers[1].keys"]
    x, cache = R(1, 4), filled(5)
    theirs = model(x, copied(cache))
    layers = cache.layers
    ours: Any = journey.run(x, cache)
    assert ours.cache is cache and cache.layers is layers
    torch.testing.assert_close(ours["logits"], theirs["logits"])
    alike(cache, theirs.cache)
    assert journey.check(x, filled(5)).ok
    with pytest.raises(InputMismatch, match=r"cache\.layers\[0\]\.keys was captured as 5x4xf32"):
        journey.run(x, cache)


@pytest.mark.test_all
@both
def test_an_empty_cache_has_layers_after_a_run(capture: str):
    journey = wb.trace(model, R(3, 4), kwargs={"cache": Cache()}, machine="edge-8x8", capture=capture)
    assert hosted(journey) == [] and journey.check().ok
    x, cache = R(3, 4), Cache()
    ours: Any = journey.run(x, kwargs={"cache": cache})
    assert ours.cache is cache
    alike(cache, model(x).cache)


@pytest.mark.test_all
@both
def test_lists_and_dicts_hold_afterwards_what_was_put_there(capture: str):
    def function(x: torch.Tensor, seen: list[Any], state: dict[str, Any]) -> torch.Tensor:
        seen.append(x * 2)
        state["count"], state["last"] = state["count"] + 1, x + state["last"]
        return torch.stack(seen[-2:])

    journey = wb.trace(function, R(3), [R(3)], {"count": 4, "last": R(3)}, machine="edge-8x8", capture=capture)
    assert hosted(journey) == []
    x, first, last = R(3), R(3), R(3)
    seen, state = [first], {"count": 4, "last": last}
    ours = journey.run(x, seen, state)
    torch.testing.assert_close(ours, torch.stack([first, x * 2]))
    assert len(seen) == 2 and seen[0] is first and torch.equal(seen[1], x * 2)
    assert state["count"] == 5 and torch.equal(torch.as_tensor(state["last"]), x + last)
    assert journey.check().ok


@pytest.mark.test_all
def test_a_saved_journey_says_what_a_call_leaves(tmp_path: Path):
    journey = wb.trace(model, R(1, 4), filled(5), machine="edge-8x8")
    journey.save(tmp_path / "grows.journey")
    tree = wb.load(tmp_path / "grows.journey").captured.record.tree
    assert tree == journey.captured.record.tree and tree.kind == "call"
    assert tree.keys == ("", "[0][1].layers[0]", "[0][1].layers[1]")


def test_objects_that_hold_other_classes_are_told_apart():
    journey = wb.trace(model, R(1, 4), filled(5), machine="edge-8x8")
    with pytest.raises(InputMismatch, match=r"captured with <Kind.GROWS: .* in an object .* has <Kind.SLIDES"):
        other = filled(5)
        other.how = Kind.SLIDES
        journey.run(R(1, 4), other)
    with pytest.raises(InputMismatch, match=r"kind=Layer, .* and was given .* kind=Wide"):
        journey.run(R(1, 4), filled(5, Wide))


def test_two_objects_of_a_class_may_hold_different_attributes():
    def function(x: torch.Tensor) -> tuple[Layer, Layer]:
        one, other = Layer(), Layer()
        one.update(x + 1)
        return one, other

    one, other = wb.trace(function, R(2, 3), machine="edge-8x8").run(R(2, 3))
    assert vars(one).keys() == {"keys", "filled", "width"} and vars(other) == {"keys": None, "filled": False}


def test_a_container_that_is_given_twice_is_refused_where_it_is_changed():
    def function(x: torch.Tensor, one: list[Any], other: list[Any]) -> torch.Tensor:
        one.append(x * 2)
        return torch.stack(other)

    shared = [R(3)]
    with pytest.raises(SharedElements, match=r"list at inputs\[1\], and is given the very same at inputs\[2\]"):
        wb.trace(function, R(3), shared, shared, machine="edge-8x8")
    journey = wb.trace(function, R(3), [R(3)], [R(3)], machine="edge-8x8")
    with pytest.raises(SharedElements, match="give a copy as one of the two"):
        journey.run(R(3), shared, shared)
    assert len(shared) == 1


def test_objects_that_cannot_be_taken_apart_are_one_error():
    round_about, hiding = Cache(), Cache()
    round_about.layers.append(round_about)  # type: ignore[arg-type]
    hiding.extra = {R(2)}  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedContainer, match=r"inputs\[1\]\.layers\[0\] of model is a Cache that holds itself"):
        wb.trace(model, R(3, 4), round_about)
    with pytest.raises(UnsupportedContainer, match=r"\.extra of model is a builtins.set, which may hold tensors"):
        wb.trace(model, R(3, 4), hiding)
