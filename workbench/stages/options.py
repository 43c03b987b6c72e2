"""The options of a journey: each is a field of `Options`, with all that is known of it.

`wb.trace`, `j.with_`, `torch.compile`, flags of the command line, the stages that a change repeats and what a file
keeps follow from these fields, or are compared with them by `tests/stages/test_options.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast

from simulator import Machine
from workbench.ground.errors import BadOption
from workbench.lowering.layout_options import checked_layout
from workbench.scheduling.passes.wanted_passes import as_texts
from workbench.stages.option_checks import (
    checked_fusion,
    checked_mapping,
    checked_on_missing,
    checked_placement,
    checked_resident,
    checked_seconds,
    checked_tuned,
    machine_of,
)

if TYPE_CHECKING:
    from workbench.lowering.fusion_options import UserFusion
    from workbench.lowering.layout_options import UserLayout
    from workbench.scheduling.mappings.mapping_file import MappingFile
    from workbench.scheduling.mappings.tuned_table import TunedTable
    from workbench.scheduling.passes.wanted_passes import UserPasses
    from workbench.scheduling.user_mapping import UserMapping

Kept: TypeAlias = Literal["text", "json", "no"]
SECONDS: Final = "SECONDS"


def _as_given(given: object) -> object:
    return given


@dataclass(frozen=True)
class Option:
    """An option's stage, sentence, check, form in a file and flag."""

    read_by: str
    """The first stage that reads it, by its method in `pipeline.py`: a change makes this stage anew, and all below."""
    doc: str
    check: Callable[[Any], object] = _as_given
    """Makes what a person gives what a journey keeps, or raises `BadOption`."""
    kept: Kept = "json"
    """Its form in a file: as it is, as JSON in a text, or none."""
    flag: str = ""
    """The value behind its flag of `workbench trace`; empty for an option that a command line cannot give."""


def _known(read_by: str, doc: str, **more: Any) -> dict[str, Option]:
    return {"option": Option(read_by, doc, **more)}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `wb.trace` and `j.with_`, as a journey keeps them.

    Each field is an option: its type, its default, and in `OPTIONS` all that is known of it. To add one: a field here,
    the stage that reads it, and its place in the signatures of `wb.trace`, `j.with_` and `CompileOptions`, which
    `tests/stages/test_options.py` compares with these fields.
    """

    machine: Machine = field(
        metadata=_known(
            "rendered",
            "a shipped machine (see workbench machines), or a file like mine.toml (default: tpu-v3)",
            check=machine_of,
            kept="no",  # the timeline has it
            flag="M",
        )
    )
    capture: str = field(
        default="dynamo",
        metadata=_known("captured", "how the graph is captured", kept="text", flag="dynamo|export"),
    )
    on_missing: str = field(
        default="host",
        metadata=_known(
            "grouped",
            "whether PyTorch computes ops without a route, or they are refused",
            check=checked_on_missing,
            kept="text",
            flag="host|error",
        ),
    )
    prefer: str | None = field(
        default=None,
        metadata=_known(
            "grouped", "the dialect whose builders are used where an op has several", kept="text", flag="DIALECT"
        ),
    )
    mapping: Mapping[str, UserMapping] | MappingFile | None = field(
        default=None,
        metadata=_known(
            "rendered",
            "tiles by hand: a file of mappings by ops and shapes, or mappings by kernel",
            check=checked_mapping,
            flag="FILE",
        ),
    )
    tuned: TunedTable | None = field(
        default=None,
        metadata=_known(
            "rendered",
            "a table of tuned mappings, for kernels that `mapping` does not speak of",
            check=checked_tuned,
            kept="no",  # but its mappings are
            flag="FILE",
        ),
    )
    fusion: UserFusion = field(
        default=None,
        metadata=_known(
            "grouped",
            "fusion rules that are turned off (none: all of them), and nodes kept apart",
            check=checked_fusion,
            flag="none",
        ),
    )
    schedule: Mapping[str, str] | None = field(
        default=None, metadata=_known("tiled", "transform scripts by kernel", check=deepcopy)
    )
    passes: UserPasses | None = field(
        default=None,
        metadata=_known("tiled", "pipelines that run after steps, by the steps' names", check=as_texts),
    )
    layout: UserLayout = field(
        default=None,
        metadata=_known(
            "lowered", "the order in which axes of tensors lie in DRAM", check=checked_layout, flag="given|least"
        ),
    )
    resident: str | tuple[str, ...] | None = field(
        default=None,
        metadata=_known(
            "scheduled",
            "the tensors that stay in the common memory: names, or auto",
            check=checked_resident,
            flag="auto",
        ),
    )
    placement: Mapping[str, int | str] | None = field(
        default=None,
        metadata=_known("scheduled", "the chiplet or the policy of tensors, by name", check=checked_placement),
    )
    simulate_seconds: float | None = field(
        default=None,
        metadata=_known(
            "simulated", "the longest time of the simulation", check=checked_seconds, kept="no", flag=SECONDS
        ),
    )

    @property
    def options(self) -> dict[str, object]:
        """The options that differ from their defaults, without the machine."""
        mine = {each.name: (getattr(self, each.name), each.default) for each in fields(Options)}
        return {name: value for name, (value, usual) in mine.items() if name != "machine" and value != usual}


OPTIONS: Final[Mapping[str, Option]] = {each.name: each.metadata["option"] for each in fields(Options)}


def options_among(values: Mapping[str, object]) -> dict[str, object]:
    """The values that are options, by their names: of a verb's arguments."""
    return {name: value for name, value in values.items() if name in OPTIONS}


def checked_options(**given: Any) -> dict[str, Any]:
    """The options, checked, and copied where the caller may change them later."""
    return {name: OPTIONS[name].check(value) for name, value in given.items()}


class CompileOptions(TypedDict, total=False):
    """The options of `torch.compile(backend="npu", options=...)`: those of `wb.trace` that apply there."""

    machine: str | Machine
    on_missing: str
    mapping: Mapping[str, UserMapping] | str | os.PathLike[str] | None
    tuned: str | os.PathLike[str] | None
    fusion: UserFusion
    prefer: str | None
    simulate_seconds: float | None
    resident: str | Sequence[str] | None
    placement: Mapping[str, int | str] | None
    layout: UserLayout


def checked_compile_options(given: object) -> CompileOptions:
    """The options of `torch.compile`, if all names are known; values are checked later, like those of `wb.trace`."""
    known = ", ".join(CompileOptions.__annotations__)
    if not isinstance(given, Mapping):
        raise BadOption(f"torch.compile(backend='npu', options={given!r}): expected {{name: value}} of {known}")
    for name in cast("Mapping[object, object]", given):
        if name not in CompileOptions.__annotations__:
            raise BadOption(f"torch.compile(backend='npu') has no option {name!r}; its options are {known}")
    options = cast("CompileOptions", given)
    if "machine" in options:
        machine_of(options["machine"])  # else a mistake in it would look like one of the graph
    return options
