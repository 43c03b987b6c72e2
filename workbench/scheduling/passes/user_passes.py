# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
"""Passes of a user's own: Python functions by name, and where among the steps of the schedule they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from torch_mlir.passmanager import PassManager

from simulator.argument_types import checks_what_it_is_given
from workbench.environment.registered import PASSES
from workbench.errors import BadOption, BadRegistration
from workbench.mlir.context import new_context
from workbench.scheduling.passes.kernel_pass import KernelPass, OptionMistake
from workbench.scheduling.passes.pass_places import OURS

if TYPE_CHECKING:
    from torch_mlir import ir

PassFunction: TypeAlias = "Callable[[ir.Module, dict[str, str]], None]"
UserPasses: TypeAlias = Mapping[str, "str | KernelPass | Sequence[str | KernelPass]"]
P = TypeVar("P", bound="PassFunction | type[KernelPass]")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FORM = "{step: pipeline, or a list of them}, e.g. passes={'fuse elementwise': 'canonicalize'}"


@checks_what_it_is_given
def mlir_pass(name: str) -> Callable[[P], P]:
    """Registers a Python function, or a `wb.KernelPass`, as the MLIR pass `name`, which pipelines may then name.
    Defined again, it replaces itself.

    A function is called with the module, which it changes in place, and the options of `name{key=value ...}` as texts;
    a `KernelPass` is made with them, of the types of its fields, and `run`. MLIR verifies the module afterwards.
    """
    if not _NAME.fullmatch(name):
        raise BadRegistration(f"mlir_pass({name!r}): a pass has a name like 'count-loads': small letters, digits, '-'")
    if name.startswith(OURS) or _is_upstreams(name):
        whose = "the workbench" if name.startswith(OURS) else "MLIR"
        raise BadRegistration(f"mlir_pass({name!r}): passes of {whose} are called so; choose another name")

    def register(made: P) -> P:
        _name_class(name, made)
        PASSES.add(name, made)
        return made

    return register


def _name_class(name: str, made: object) -> None:
    """Gives a pass that is a class its name."""
    if not isinstance(made, type):
        return
    if not issubclass(made, KernelPass) or "__dataclass_fields__" not in vars(made) or "run" not in vars(made):
        raise BadRegistration(
            f"mlir_pass({name!r}): {made.__name__} is a class; expected a function of the module and its options, or a "
            "frozen dataclass that derives from wb.KernelPass and has a run(self, module)"
        )
    made.name = name


def _is_upstreams(name: str) -> bool:
    try:
        PassManager.parse(f"builtin.module({name})", new_context())
    except ValueError:
        return False
    return True


def checked_passes(given: object) -> dict[str, tuple[str, ...]]:
    """A user's `passes` in one form; the names of steps are checked when they run."""
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
            made[step] = tuple(map(str, pipelines))  # pyright: ignore[reportUnknownArgumentType]
        except OptionMistake as mistake:
            raise BadOption(f"passes[{step!r}]: {mistake}") from None
    return made


def check_steps(wanted: Mapping[str, tuple[str, ...]], seen: Sequence[str]) -> None:
    """Checks that every step named by the user ran; `seen` are those that ran."""
    for step in wanted:
        if step not in seen:
            steps = ", ".join(map(repr, dict.fromkeys(seen))) or "none: its kernels are written by hand"
            raise BadOption(f"passes: no kernel has a step {step!r}; the steps that run are {steps}")
