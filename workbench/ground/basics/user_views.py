"""Views that a user registers: functions of a stage's handle, by stage and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.environment.registered import Named
from workbench.ground.errors import BadOption, BadRegistration

View: TypeAlias = Callable[..., object]
V = TypeVar("V", bound=Callable[..., Any])

STAGES = ("captured", "lowered", "rendered", "scheduled", "simulated")

_REGISTERED: Final = {stage: Named[View](f"view of {stage}") for stage in STAGES}


@checks_what_it_is_given
def view(stage: str, name: str = "") -> Callable[[V], V]:
    """Registers a function of a stage's handle as the view `name`, by default the function's name. A function that is
    defined again replaces its older version.

    `@wb.view("simulated")` makes `j.simulated.view("heat")` of `def heat(simulated, ...)`.
    """
    if stage not in STAGES:
        raise BadRegistration(f"view({stage!r}): there is no such stage; expected one of {', '.join(STAGES)}")

    def register(function: V) -> V:
        _REGISTERED[stage].add(name or function.__name__, function)
        return function

    return register


def names(stage: str) -> tuple[str, ...]:
    """The views of a stage."""
    return tuple(sorted(_REGISTERED[stage]))


def named(stage: str, name: str) -> View:
    """A view of a stage by its name."""
    known = _REGISTERED[stage]
    if name not in known:
        hint = did_you_mean(name, known) or f"; registered: {', '.join(names(stage)) or 'none yet'}"
        raise BadOption(
            sentences(f"{stage} has no view {name!r}{hint}", f"@wb.view({stage!r}) before a function makes one")
        )
    return known[name]
