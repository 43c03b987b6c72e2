"""The option `passes`: pipelines and passes, by the name of the step after which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from workbench.ground.environment.registered import PASSES
from workbench.ground.errors import BadOption
from workbench.scheduling.passes.kernel_pass import KernelPass, OptionMistake, text_of
from workbench.scheduling.passes.pass_places import OURS

UserPasses: TypeAlias = Mapping[str, "str | KernelPass | Sequence[str | KernelPass]"]

_FORM = "{step: pipeline, or a list of them}, e.g. passes={'fuse elementwise': 'canonicalize'}"


def checked_passes(given: object) -> dict[str, tuple[str, ...]]:
    """A user's `passes` in one form: step -> pipelines. The names of steps are checked when the steps run."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadOption(f"passes={given!r}: expected {_FORM}")
    made: dict[str, tuple[str, ...]] = {}
    for step, value in given.items():  # pyright: ignore[reportUnknownVariableType]
        pipelines = (value,) if isinstance(value, str | KernelPass) else value  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(step, str) or not isinstance(pipelines, list | tuple):
            raise BadOption(f"passes={given!r}: expected {_FORM}")
        try:
            made[step] = tuple(map(_pipeline, pipelines))  # pyright: ignore[reportUnknownArgumentType]
        except OptionMistake as mistake:
            raise BadOption(f"passes[{step!r}]: {mistake}") from None
    return made


def as_texts(given: UserPasses | None) -> UserPasses | None:
    """A user's `passes` with each pass as its pipeline string, as a journey and its file keep them."""
    if given is None:
        return None
    checked = checked_passes(given)
    return {
        step: checked[step][0] if isinstance(value, str | KernelPass) else list(checked[step])
        for step, value in given.items()
    }


def _pipeline(given: object) -> str:
    if not isinstance(given, KernelPass):
        return str(given)
    text = text_of(given)
    if not given.name.startswith(OURS) and PASSES.get(given.name) is not type(given):
        raise OptionMistake(
            f"{type(given).__name__} is not the class that is registered as {given.name!r} now: make the pass "
            "anew from that class"
        )
    return text


def check_steps(wanted: Mapping[str, tuple[str, ...]], seen: Sequence[str]) -> None:
    """Raises if a step that the user named did not run; `seen` are the steps that ran."""
    for step in wanted:
        if step not in seen:
            steps = ", ".join(map(repr, dict.fromkeys(seen))) or "none: its kernels are written by hand"
            raise BadOption(f"passes: no kernel has a step {step!r}; the steps that run are {steps}")
