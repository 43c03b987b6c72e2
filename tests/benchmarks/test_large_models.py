"""The large models are those of their papers, and a model that is wrong is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from benchmarks import large_models


@pytest.mark.parametrize(("name", "parameters"), [("vgg16", 138_357_544), ("resnet101", 44_549_160)])
def test_a_model_has_the_parameters_that_are_published(name: str, parameters: int) -> None:
    with torch.device("meta"):
        model = large_models.made(name)
    assert sum(each.numel() for each in model.parameters()) == parameters
    assert not model.training


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_every_step_is_timed_and_the_result_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_models, "made", lambda _: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval())
    found = large_models.measure("vgg16", 1, check=True)
    assert set(found["took"]) == set(large_models.STEPS)
    assert found["kernels"] == 1 and found["right"] is True


@pytest.mark.parametrize("right", [True, False])
def test_a_wrong_result_is_an_error(right: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    found = {"took": dict.fromkeys(large_models.STEPS, (1.0, 0.5)), "kernels": 1, "right": right, "told": "off by 3"}
    monkeypatch.setattr(large_models, "in_a_process", lambda *_: found)
    monkeypatch.setattr("sys.argv", ["large_models.py", "--only", "vgg16"])
    assert large_models.main() == (0 if right else 1)
    assert ("vgg16: off by 3" in capsys.readouterr().out) is not right
