"""One selection of a journey, its history, and those who watch it."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench.explaining.views.selections.selection_model import KEPT
from workbench.ground.errors import UnknownSelection


@pytest.fixture(scope="module")
def traced() -> wb.Journey:
    return wb.trace(lambda x, y: torch.softmax(x @ y, 1), torch.randn(48, 32), torch.randn(32, 40))


@pytest.fixture
def model(traced: wb.Journey) -> wb.SelectionModel:
    """Of the same journey, with nothing selected yet."""
    return wb.SelectionModel(traced.select)


def test_it_selects_what_the_journey_selects(traced: wb.Journey, model: wb.SelectionModel):
    assert model.selection is None
    assert model.select("matmul") == traced.select("matmul") == model.selection
    assert model.select(None) is None and model.selection is None


def test_a_journey_has_one_and_a_changed_journey_another(traced: wb.Journey):
    assert traced.selection is traced.selection
    assert traced.with_(machine="tpu-v2").selection is not traced.selection


def test_back_and_forward(model: wb.SelectionModel):
    for row in (0, 1, 2):
        model.select(row)
    assert [model.back(), model.back(), model.back(), model.back()][-1] is None
    assert (model.steps_back, model.steps_forward) == (0, 3)
    again = model.forward()
    assert again is not None and again.what == "span 0"
    model.select(5)
    assert (model.steps_back, model.steps_forward) == (2, 0)
    assert model.forward() == model.selection


def test_selecting_the_same_again_is_no_step(model: wb.SelectionModel):
    heard = list[int]()
    model.observe(lambda: heard.append(1))
    model.select(3)
    model.select(3)
    assert model.steps_back == 1 and heard == [1]


def test_observers_hear_until_they_stop(model: wb.SelectionModel):
    heard = list[str]()

    def changed() -> None:
        heard.append(model.selection.what if model.selection else "nothing")

    stop = model.observe(changed)
    model.select(1)
    model.back()
    model.back()
    stop()
    stop()
    model.select(2)
    assert heard == ["span 1", "nothing"]


def test_what_nothing_has_changes_nothing(model: wb.SelectionModel):
    heard = list[int]()
    model.observe(lambda: heard.append(1))
    with pytest.raises(UnknownSelection):
        model.select("nothing like it")
    assert model.selection is None and heard == []


def test_history_is_bounded(traced: wb.Journey, model: wb.SelectionModel):
    count = len(traced.simulated.events)
    for number in range(KEPT + 20):
        model.select(number % count)
    assert model.steps_back == KEPT - 1
