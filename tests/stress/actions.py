"""One use of each verb, on programs that other threads use as well."""

from __future__ import annotations

import copy
import random
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from tests.stress.shared import COUNTED, PROGRAMS, broken, step

STAGES = "captured", "rendered", "scheduled", "simulated"


class Wrong(Exception):
    """A verb gave something else than it gives alone."""


class Actor:
    """Does the actions of one thread, with random numbers of its own."""

    def __init__(self, seed: int, journeys: dict[str, Any]) -> None:
        """`journeys` are those that all threads share, by program."""
        self.choose, self.lot, self.journeys = random.Random(seed), torch.Generator().manual_seed(seed), journeys

    def given(self, name: str) -> torch.Tensor:
        return torch.randn(PROGRAMS[name][1], generator=self.lot)

    def one(self) -> str:
        return self.choose.choice(sorted(PROGRAMS))

    def act(self, verb: str) -> None:
        VERBS[verb](self)


def _same(got: object, wanted: torch.Tensor, what: str) -> None:
    try:
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    except AssertionError as error:
        raise Wrong(f"{what}: {error}") from None


def _checked(check: Any) -> None:
    if not check.ok:
        raise Wrong(str(check))


def _traced(actor: Actor, capture: str) -> None:
    name = actor.one()
    x = actor.given(name)
    journey = wb.trace(PROGRAMS[name][0], x, capture=capture)
    _same(journey.run(x), PROGRAMS[name][0](x).detach(), f"{name} by {capture}")


def _check(actor: Actor) -> None:
    name = actor.one()
    _checked(actor.journeys[name].check(actor.given(name), stage=actor.choose.choice(STAGES)))


def _effects(actor: Actor) -> None:
    """Checks of a module that changes its buffers, and of a function with a graph break."""
    x = torch.randn(4, 16, generator=actor.lot)
    _checked(wb.trace(actor.choose.choice([COUNTED, broken]), x).check(stage=actor.choose.choice(STAGES)))


def _run(actor: Actor) -> None:
    name = actor.one()
    x = actor.given(name)
    _same(actor.journeys[name].run(x), PROGRAMS[name][0](x).detach(), f"a run of {name}")


def _with(actor: Actor) -> None:
    name, buffers = actor.one(), actor.choose.choice([1, 2])
    other = actor.journeys[name].with_(mapping={"*": {"buffers": buffers}})
    known = actor.journeys.setdefault(f"{name} {buffers}", other.simulated.cycles)
    if other.simulated.cycles != known:
        raise Wrong(f"{name} with {buffers} buffers took {other.simulated.cycles} cycles, and {known} before")


def _simulated(actor: Actor) -> None:
    name = actor.one()
    cycles = wb.trace(PROGRAMS[name][0], actor.given(name)).simulated.cycles
    if cycles != actor.journeys[name].simulated.cycles:
        raise Wrong(f"{name} took {cycles} cycles, and {actor.journeys[name].simulated.cycles} before")


def _tried(actor: Actor) -> None:
    repr(actor.journeys[actor.one()].findings.tried())


def _tuned(actor: Actor) -> None:
    name = actor.choose.choice(["softmax", "shifted"])
    if actor.journeys[name].tuned(budget=2).journey.simulated.cycles > actor.journeys[name].simulated.cycles:
        raise Wrong(f"{name} takes longer when it is tuned")


def _compare(actor: Actor) -> None:
    name = actor.one()
    repr(wb.compare(actor.journeys[name], actor.journeys[name].with_(mapping={"*": {"buffers": 1}})))


def _saved(actor: Actor) -> None:
    name = actor.one()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journey.json"
        actor.journeys[name].save(path)
        if wb.load(path).simulated.cycles != actor.journeys[name].simulated.cycles:
            raise Wrong(f"{name} takes other cycles when it is loaded")


def _compiled(actor: Actor) -> None:
    name = actor.one()
    x, function = actor.given(name), PROGRAMS[name][0]
    code: Any = (lambda function: lambda x: function(x))(function)
    fresh = types.FunctionType(code.__code__.replace(), code.__globals__, name, None, code.__closure__)
    with torch.no_grad():
        _same(torch.compile(fresh, backend="npu")(x), function(x).detach(), f"{name} compiled")


def _step_of_its_own(actor: Actor) -> None:
    """A step that is run, beside the same step in PyTorch."""
    model = made_here(actor)
    other, x = copy.deepcopy(model), torch.randn(4, 16, generator=actor.lot)

    def training(of: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        optimizer = torch.optim.Adam(of.parameters(), lr=0.01)

        def once(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = of(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return once

    journey = wb.trace(training(model), x, train=True)
    _checked(journey.check())
    _same(journey.run(x), training(other)(x), "the loss of a step")
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        _same(mine.detach(), theirs.detach(), "a parameter after a step")


def made_here(actor: Actor) -> torch.nn.Module:
    model = torch.nn.Linear(16, 4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=actor.lot))
    return model


def _step_that_is_shared(actor: Actor) -> None:
    _checked(wb.trace(step, torch.randn(4, 16, generator=actor.lot), train=True).check())


VERBS: dict[str, Callable[[Actor], None]] = {
    "trace dynamo": lambda actor: _traced(actor, "dynamo"),
    "trace export": lambda actor: _traced(actor, "export"),
    "check": _check,
    "check of effects": _effects,
    "run": _run,
    "with_": _with,
    "simulated": _simulated,
    "tried": _tried,
    "tuned": _tuned,
    "compare": _compare,
    "save and load": _saved,
    "torch.compile": _compiled,
    "step": _step_of_its_own,
    "shared step": _step_that_is_shared,
}
