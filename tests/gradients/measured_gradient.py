"""One case in one type: the gradients of a journey beside eager PyTorch's, and beside differences of its own loss."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

import workbench as wb
from tests.gradients.gradient_case import DTYPES, Case
from tests.gradients.on_the_host import REFUSED
from workbench.ground.errors import HostRoute, NoTrainingStep, WorkbenchError
from workbench.ir import HOST

T = torch.Tensor

STEP = 1e-5
"""Distance of a move each way. A third derivative of 100 and a loss of 100 each leave some 1e-9 of error."""
BOUND = 1e-6
"""Largest distance between gradient and difference, in units of the largest gradient, or of one."""
MOST = 24
"""Elements of a leaf that are moved one by one; besides, all elements of all leaves are moved together twice."""


@dataclass(frozen=True)
class Found:
    """The result of a case in a type."""

    name: str
    dtype: str
    hosted: tuple[str, ...]
    """Ops that the host computes."""
    eager: float
    """The largest distance of a gradient from eager's, in units of the largest gradient of its leaf."""
    differences: float | None
    """The same from differences, in f64."""
    problem: str = ""

    refused: bool = False
    """The step is refused, by an error that says why and what to do."""

    @property
    def ok(self) -> bool:
        return not self.problem


class _Step:
    """A training step of a case; each result has weights of its own, so that no gradient is just ones."""

    def __init__(self, case: Case, leaves: list[T]) -> None:
        self.case, self.leaves = case, leaves
        with torch.no_grad():
            drawn = [torch.randint(1, 16, each.shape) / 8.0 for each in self._results()]
            self.weights = [(each - 2 * each * (torch.rand(each.shape) < 0.3)).to(self._dtype) for each in drawn]

    @property
    def _dtype(self) -> torch.dtype:
        return next(each.dtype for each in self.leaves if each.requires_grad)

    def _results(self) -> list[T]:
        with torch.enable_grad():
            return self.case.results(self.leaves)

    def gradients(self) -> list[T]:
        """Takes the gradients that the leaves have."""
        found = [torch.zeros_like(each) if each.grad is None else each.grad.clone() for each in self.leaves]
        for each in self.leaves:
            each.grad = None
        return found

    def function(self) -> Callable[[], T]:
        case, leaves, weights = self.case, self.leaves, self.weights

        def step() -> T:
            loss = torch.zeros(())
            for result, weight in zip(case.results(leaves), weights, strict=True):
                loss = loss + (result * weight).sum()
            loss.backward()
            return loss.detach()

        return step


def measured(case: Case, name: str, dtype: str) -> Found | None:
    """None where eager PyTorch has no such gradient."""
    torch.manual_seed(zlib.crc32(name.encode()))
    try:
        step = _Step(case, case.leaves(DTYPES[dtype]))
        step.function()()
    except (RuntimeError, NotImplementedError):
        return None
    eager = step.gradients()
    assert any(each.count_nonzero() for each in eager), f"{name} has no gradients"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HostRoute)
        try:
            journey = wb.trace(step.function(), train=True)
            check = journey.check()
        except NoTrainingStep as error:
            return Found(name, dtype, (), math.nan, None, "" if name in REFUSED else str(error), refused=True)
        except WorkbenchError as error:
            return Found(name, dtype, (), math.nan, None, f"{type(error).__name__}: {error}")
        hosted = sorted({each.node.op for each in journey.lowered.record.nodes if each.route == HOST})
        journey.run()
        made = step.gradients()
        apart = max(map(_apart, made, eager))
        problem = "" if check.ok else check.text()
        worst = None
        if dtype == "f64" and case.true:
            worst = _from_differences(journey, step.leaves, made)
            problem = problem or (f"{worst:.2g} from differences" if not worst <= BOUND else "")
    return Found(name, dtype, tuple(hosted), apart, worst, problem)


def _apart(made: T, other: T) -> float:
    if not made.is_floating_point() or not made.numel():
        return 0.0
    return float((made.double() - other.double()).abs().max() / other.double().abs().max().clamp_min(1e-30))


def _from_differences(journey: wb.Journey, leaves: list[T], gradients: list[T]) -> float:
    """The largest distance from differences of the loss that the journey computes at numbers nearby."""
    pairs = [(leaf, found) for leaf, found in zip(leaves, gradients, strict=True) if leaf.requires_grad]
    size = max(1.0, *(float(found.abs().max()) for _, found in pairs))
    worst = 0.0
    for leaf, found in pairs:
        for place in torch.randperm(leaf.numel())[:MOST].tolist():
            way = torch.zeros(leaf.numel(), dtype=leaf.dtype)
            way[place] = 1.0
            slope = _slope(journey, [leaf], [way.reshape(leaf.shape)])
            worst = max(worst, abs(slope - float(found.flatten()[place])))
    for _ in range(2):
        ways = [torch.randn_like(found) / math.sqrt(found.numel()) for _, found in pairs]
        slope = _slope(journey, [leaf for leaf, _ in pairs], ways)
        expected = sum(float((found * way).sum()) for (_, found), way in zip(pairs, ways, strict=True))
        worst = max(worst, abs(slope - expected))
    return worst / size


def _slope(journey: wb.Journey, leaves: list[T], ways: list[T]) -> float:
    losses: list[float] = []
    before = [leaf.detach().clone() for leaf in leaves]
    for sign in (1.0, -1.0):
        with torch.no_grad():
            for leaf, way, old in zip(leaves, ways, before, strict=True):
                leaf.copy_(old + sign * STEP * way)
        losses.append(float(journey.run()))
    with torch.no_grad():
        for leaf, old in zip(leaves, before, strict=True):
            leaf.copy_(old)
    return (losses[0] - losses[1]) / (2 * STEP)
