"""What users give for options, checked: machines, mappings, and those of `torch.compile`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, TypedDict, cast

from simulator import Machine, load_machine
from workbench.errors import BadOption, NoCommonMemory

if TYPE_CHECKING:
    from workbench.mlir.user_mapping import UserMapping


class CompileOptions(TypedDict, total=False):
    """What `torch.compile(backend="npu", options=...)` takes: the options of `wb.trace` that mean something there."""

    machine: str | Machine
    on_missing: str
    mapping: Mapping[str, UserMapping] | None
    prefer: str | None


def checked_mapping(given: Mapping[str, UserMapping] | None) -> Mapping[str, UserMapping] | None:
    """The mapping, if it has the form of one; what it says is checked against each kernel when it is scheduled."""
    form = "{kernel_name or '*': {'tile': {dim: size}, 'order': [dims], 'buffers': slots}}"
    if given is None:
        return None
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - what a user passes
        raise BadOption(f"mapping={given!r} is no mapping; expected {form}")
    for kernel, wanted in given.items():
        tile: object = wanted.get("tile", {}) if isinstance(wanted, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if not isinstance(tile, Mapping):
            raise BadOption(f"mapping of {kernel!r} is {wanted!r}; expected {form}")
    return deepcopy(given)  # what the caller makes of it later is another question


def checked_resident(given: object) -> str | tuple[str, ...] | None:
    """What is to stay in the common memory, if it has the form of that; the names are looked up when it is planned."""
    if given is None or given == "auto":
        return None if given is None else "auto"
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in cast("list[object]", given)):
        return tuple(cast("list[str]", given))
    raise BadOption(f"resident={given!r}; expected names of tensors, ['fc1.weight', 'relu'], or 'auto', or None")


def warn_without_common_memory(resident: object, machine: Machine) -> None:
    """Tells the user of the verb that calls this that there is nothing for a heuristic to fill."""
    if resident == "auto" and not machine.common_memory_bytes:
        told = (
            f"resident='auto': machine {machine.name!r} has no common memory (common_memory_bytes = 0), so nothing "
            f"stays in one. Take a machine that has one, such as 'tpu-v4'"
        )
        warnings.warn(told, NoCommonMemory, stacklevel=4)  # the verb, and what checks its options, lie between


def checked_seconds(given: object) -> float | None:
    """A time limit, if it is one."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool) and given > 0):
        return given
    raise BadOption(f"{given!r} is no time limit; expected seconds, a number above 0, or None for as long as it takes")


def checked_tolerance(name: str, given: object) -> float | None:
    """A tolerance, if it is one; None is the default of the result's type."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool) and given >= 0):
        return given
    raise BadOption(f"{name}={given!r} is no tolerance; expected a number, 0 or more, or None for the type's default")


def machine_of(given: object) -> Machine:
    if isinstance(given, Machine):
        return given
    if not isinstance(given, str | os.PathLike):
        raise BadOption(
            f"machine={given!r} is no machine; expected a name of wb.machines(), a file like 'mine.toml' or a "
            "wb.machine(...)"
        )
    return load_machine(cast("str | os.PathLike[str]", given))
