"""Checks of options: each returns the value that a journey keeps, or raises an error that says what was expected."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from simulator import Machine, load_machine
from simulator.did_you_mean import did_you_mean, sentences
from simulator.machine.parts import POLICIES
from workbench.ground.argument_types import plain_value, short
from workbench.ground.errors import BadOption, MappingError, NoCommonMemory
from workbench.lowering.fusion_options import check_form
from workbench.scheduling.mappings import mapping_file, tuned_table
from workbench.scheduling.user_mapping import OF_A_KERNEL, mistake_in

if TYPE_CHECKING:
    from workbench.scheduling.mappings.mapping_file import MappingFile
    from workbench.scheduling.mappings.tuned_table import TunedTable
    from workbench.scheduling.user_mapping import UserMapping


def refused(name: str, expected: str, given: object, hint: str = "") -> BadOption:
    """The error for an invalid value of an option."""
    return BadOption(f"{name} must be {expected}, got {short(given)}{hint}")


def one_of(name: str, *texts: str) -> Callable[[object], str]:
    """Returns the check of an option that must be one of these texts."""

    def checked(given: object) -> str:
        if not isinstance(given, str) or given not in texts:
            raise refused(name, " or ".join(map(repr, texts)), given)
        return given

    return checked


def checked_prefer(given: object) -> str | None:
    """Returns the name of a dialect; lowering checks that a builder uses it."""
    if given is None or isinstance(given, str):
        return given
    raise refused("prefer", "the name of a dialect, or None", given)


def checked_schedule(given: object) -> dict[str, str] | None:
    """Returns a copy of the transform scripts; raises if the form is wrong. Scheduling checks the kernels' names."""
    if given is None:
        return None
    scripts = dict(cast("Mapping[object, object]", given)) if isinstance(given, Mapping) else None
    if scripts is None or not all(isinstance(each, str) for pair in scripts.items() for each in pair):
        raise refused("schedule", "{kernel_name: text of a transform script}, or None", cast("object", given))
    return cast("dict[str, str]", scripts)


_FORM: Final = "{kernel_name or '*': {'tile': {dim: size}, 'order': [dims], 'buffers': slots, 'cores': {dim: count}}}"


def checked_mapping(
    given: Mapping[str, UserMapping] | MappingFile | str | os.PathLike[str] | None,
) -> Mapping[str, UserMapping] | MappingFile | None:
    """Returns a copy of the mapping, or reads the file; raises if the form is wrong. Scheduling checks it against the
    kernels."""
    if given is None or isinstance(given, mapping_file.MappingFile):
        return given
    if isinstance(given, str | os.PathLike):
        return mapping_file.read_mapping_file(given)
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - what a user passes
        raise refused("mapping", f"{_FORM}, a file or None", given)
    for kernel, wanted in cast("Mapping[object, object]", given).items():
        if kernel in OF_A_KERNEL:
            text = f"mapping has {kernel!r} under no kernel; for all of them write it under '*'"
            raise BadOption(sentences(text, f"Expected {_FORM}"))
        if not isinstance(kernel, str) or not isinstance(wanted, Mapping):
            raise refused("mapping", _FORM, {kernel: wanted})
        for key, value in cast("Mapping[object, object]", wanted).items():
            if mistake := mistake_in(key, value):
                raise MappingError(kernel, mistake)
    return _plain_copy(given)  # the caller may change the given one later


def _plain_copy(given: Any) -> Any:
    """A deep copy, with NumPy's numbers as Python numbers."""
    if isinstance(given, Mapping):
        return {name: _plain_copy(value) for name, value in cast("Mapping[object, object]", given).items()}
    if isinstance(given, list | tuple):
        copied = [_plain_copy(value) for value in cast("list[object]", given)]
        return tuple(copied) if isinstance(given, tuple) else copied
    return plain_value(given)


def checked_tuned(given: object) -> TunedTable | None:
    """Reads the table of tuned mappings in a file."""
    if given is None or isinstance(given, tuned_table.TunedTable):
        return given
    if not isinstance(given, str | os.PathLike):
        raise refused("tuned", "the file that j.tuned().save(path) wrote, or None", given)
    return tuned_table.read_tuned_table(cast("str | os.PathLike[str]", given))


def checked_fusion(given: object) -> object:
    """Returns the fusion options; raises if the form is wrong. Lowering checks the names of rules and nodes."""
    kept = _listed(given)
    if isinstance(given, Mapping):
        kept = {key: _listed(value) for key, value in cast("Mapping[object, object]", given).items()}
    check_form(kept)
    return kept


def _listed(given: object) -> object:
    """The items of an iterable as a list, since a generator yields them only once; any other value unchanged."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        return cast("object", given)
    return list(cast("Iterable[object]", given))


def checked_resident(given: object) -> str | tuple[str, ...] | None:
    """Returns the tensors for the common memory; raises if the form is wrong. The plan checks the names."""
    if given is None or (isinstance(given, str) and given == "auto"):
        return given
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in cast("list[object]", given)):
        return tuple(cast("list[str]", given))
    hint = did_you_mean(given, ["auto"]) or f"; for one tensor write [{given!r:.60}]" if isinstance(given, str) else ""
    raise refused(
        "resident", "names of tensors, as in ['fc1.weight', 'relu'], or 'auto', or None", cast("object", given), hint
    )


def checked_placement(given: object) -> dict[str, int | str] | None:
    """Returns the placement of tensors; raises if the form is wrong. The plan checks names and chiplets."""
    if given is None:
        return None
    form = "names of tensors with the number of a chiplet or a policy, {'fc1.weight': 1, 'x': 'local'}, or None"
    if isinstance(given, str) and given in POLICIES:
        hint = f"; to place all tensors set the machine's figure, wb.machine(..., dram_placement={given!r})"
        raise refused("placement", form, given, hint)
    if not isinstance(given, Mapping):
        raise refused("placement", form, given)
    for name, where in cast("Mapping[object, object]", given).items():
        hint = did_you_mean(where, POLICIES) if isinstance(where, str) and where not in POLICIES else None
        if hint is not None or not isinstance(name, str) or isinstance(where, bool) or not isinstance(where, int | str):
            raise refused("placement", form, {name: where}, hint or "")
    return dict(cast("Mapping[str, int | str]", given))


def warn_without_common_memory(resident: object, machine: Machine) -> None:
    """Warns, at the line that called the verb, if `resident="auto"` has no effect: the machine has no common memory."""
    if resident == "auto" and not machine.common_memory.bytes:
        text = (
            f"resident='auto': machine {machine.name!r} has no common memory (common_memory_bytes = 0), so no "
            "tensor stays in one. Use a machine that has one, such as 'tpu-v4'"
        )
        warnings.warn(text, NoCommonMemory, stacklevel=4)  # skips the verb and the check of its options


def checked_seconds(given: object) -> float | None:
    """Returns a time limit in seconds; raises if it is invalid."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool) and given > 0):
        return given
    raise refused("a time limit", "seconds, a number above 0, or None for no limit", given)


def checked_tolerance(name: str, given: object) -> float | None:
    """Returns a tolerance; raises if it is invalid. None means the bound that follows from rounding."""
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= sys.float_info.max:
        return float(given)
    raise refused(name, "a finite number, 0 or more, or None for the bound that follows from rounding", given)


def machine_of(given: object) -> Machine:
    """Returns the machine with this name or from this file."""
    if isinstance(given, Machine):
        return given
    if not isinstance(given, str | os.PathLike):
        raise refused("machine", "a name of wb.machines(), a file like 'mine.toml' or a wb.machine(...)", given)
    return load_machine(cast("str | os.PathLike[str]", given))
