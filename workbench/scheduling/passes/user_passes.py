"""A user's passes: Python functions and classes, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from torch_mlir.passmanager import PassManager

from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.environment.owners import misfit
from workbench.ground.environment.registered import PASSES
from workbench.ground.errors import BadRegistration
from workbench.mlir.context import new_context
from workbench.scheduling.passes.kernel_pass import KernelPass, OptionMistake, check_options
from workbench.scheduling.passes.pass_places import OURS

if TYPE_CHECKING:
    from torch_mlir import ir

PassFunction: TypeAlias = "Callable[[ir.Module, dict[str, str]], None]"
P = TypeVar("P", bound="PassFunction | type[KernelPass]")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@checks_what_it_is_given
def mlir_pass(name: str) -> Callable[[P], P]:
    """Registers a Python function, or a `wb.KernelPass`, as the MLIR pass `name`, which pipelines may then name. A
    second definition replaces the first.

    A function is called with the module, which it changes in place, and the options of `name{key=value ...}` as texts.
    A `KernelPass` is made from the options, converted to the types of its fields, and its `run` is called. MLIR
    verifies the module afterwards.
    """
    if not _NAME.fullmatch(name):
        raise BadRegistration(f"mlir_pass({name!r}): a pass has a name like 'count-loads': small letters, digits, '-'")
    if name.startswith(OURS) or _is_upstreams(name):
        whose = "the workbench" if name.startswith(OURS) else "MLIR"
        raise BadRegistration(f"mlir_pass({name!r}): passes of {whose} have this name; choose another name")

    def register(made: P) -> P:
        _name_class(name, made)
        PASSES.add(name, made)
        return made

    return register


def _name_class(name: str, made: object) -> None:
    """Sets the name of a pass that is a class; raises for anything that is no pass."""
    if not isinstance(made, type):
        if not callable(made):
            raise BadRegistration(f"mlir_pass({name!r}): {made!r:.60} is no function or class; expected one of both")
        if wrong := misfit(made, "module", "options"):
            raise BadRegistration(f"mlir_pass({name!r}): {wrong}; a pass takes the module and the options as texts")
        return
    if not issubclass(made, KernelPass) or "__dataclass_fields__" not in vars(made) or "run" not in vars(made):
        raise BadRegistration(
            f"mlir_pass({name!r}): {made.__name__} is a class; expected a function of the module and its options, or a "
            "frozen dataclass that derives from wb.KernelPass and has a run(self, module)"
        )
    if inspect.iscoroutinefunction(made.run):
        raise BadRegistration(f"mlir_pass({name!r}): {made.__name__}.run is async; a pass must be synchronous")
    try:
        check_options(made)
    except OptionMistake as mistake:
        raise BadRegistration(f"mlir_pass({name!r}): {made.__name__}: {mistake}") from None
    made.name = name


def _is_upstreams(name: str) -> bool:
    try:
        PassManager.parse(f"builtin.module({name})", new_context())
    except ValueError:
        return False
    return True
