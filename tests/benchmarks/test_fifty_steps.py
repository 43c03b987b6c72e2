"""Steps beside PyTorch's, what they leave behind, and what the benchmark of training says when they are wrong."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import fifty_steps
import trained_models
import training_memory

needs_proc = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        yield


@pytest.mark.test_all
def test_steps_are_as_near_to_pytorchs_as_rounding_explains() -> None:
    row = fifty_steps.measured("mlp", "sgd", 4, "tpu-v3")
    assert row["ok"] and row["host"] == {} and set(row["kernels"]) == {"forward", "backward", "step"}
    assert row["loss"] < 1e-5 and row["cycles"] > 0
    assert len(fifty_steps.line(row).split("|")) == len(fifty_steps.COLUMNS) + 2


def test_differences_are_those_of_losses_and_of_all_weights() -> None:
    theirs = fifty_steps.Learned([2.0, 4.0], {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([4.0])})
    ours = fifty_steps.Learned([2.0, 3.0], {"a": torch.tensor([3.0, 0.3]), "b": torch.tensor([3.6])})
    assert ours.beside(theirs) == (0.25, pytest.approx(0.1))
    assert ours.greatest(theirs) == (pytest.approx(0.4), "b")


@pytest.mark.test_all
def test_a_step_that_is_a_little_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours learns a thousandth faster than PyTorch; the first optimizer that is made is ours."""
    made: list[torch.optim.Optimizer] = []

    def optimizer_of(way: str, model: torch.nn.Module) -> torch.optim.Optimizer:
        made.append(trained_models.optimizer_of(way, model))
        made[0].param_groups[0]["lr"] *= 1.001 if len(made) == 1 else 1
        return made[-1]

    monkeypatch.setattr(fifty_steps, "optimizer_of", optimizer_of)
    assert not fifty_steps.measured("mlp", "sgd", 2, "tpu-v3")["ok"]


@pytest.mark.parametrize(("dtype", "at_most"), [(torch.float32, 2.0**-23), (torch.bfloat16, 2.0**-8)])
def test_a_moved_weight_is_as_far_off_as_one_rounding(dtype: torch.dtype, at_most: float) -> None:
    begun = trained_models.mlp()
    made = fifty_steps.moved(begun, dtype)
    for one, other in zip(begun.parameters(), made.parameters(), strict=True):
        apart = ((one.double() - other.double()) / one.double()).abs()
        assert at_most / 4 < apart.max() <= at_most * (1 + 1e-6)


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("name", trained_models.TRAINED)
def test_batches_can_be_learned_and_their_order_is_no_matter(name: str) -> None:
    torch.manual_seed(0)
    model = trained_models.TRAINED[name].model()
    step = trained_models.step_of(model, trained_models.optimizer_of("adamw", model), narrow=False)
    batches = [trained_models.TRAINED[name].batch() for _ in range(40)]
    losses = [step(*batch).item() for batch in batches]
    assert sum(losses[-5:]) < 0.97 * sum(losses[:5])
    assert not torch.equal(fifty_steps.reordered(batches[0])[1], batches[0][1])


@needs_proc
def test_a_peak_is_seen_and_set_back() -> None:
    training_memory.set_peak_back()
    before = training_memory.peak_mb()
    with mmap.mmap(-1, 64 << 20) as held:  # a tensor may lie where others were let go, and raise no peak
        held.write(b"1" * (64 << 20))
    assert training_memory.peak_mb() > before + 60
    training_memory.set_peak_back()
    assert training_memory.peak_mb() < before + 30


@pytest.mark.test_all
@needs_proc
def test_steps_leave_no_objects_behind() -> None:
    seen = training_memory.left_behind("mlp", "sgd", (20, 60))
    assert [each["steps"] for each in seen] == [20, 60] and seen[0]["tensors"] > 8
    assert training_memory.growing(seen) == []


def test_what_grows_is_named() -> None:
    seen: list[dict[str, Any]] = [{"mb": 1.0, "objects": 5, "tensors": 2 + number} for number in range(3)]
    assert training_memory.growing(seen) == ["tensors"]
    seen[-1] = {"mb": 9.0, "objects": 5, "tensors": 2}
    assert training_memory.growing(seen) == ["resident memory"]


@pytest.mark.parametrize(("ours", "code"), [(200.0, 0), (300.0, 1)])
def test_a_peak_that_is_too_high_is_an_error(ours: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {"eager": {"later": 100.0}, "run": {"later": ours}}
    monkeypatch.setattr(training_memory, "in_a_process", lambda way, _: peaks[way])
    assert training_memory.compare("small") == code
