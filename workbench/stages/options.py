"""The options of a journey: each is a field of `Options`, with an `Option` that describes it.

From these fields follow the options of `torch.compile`, the flags of the command line, the stages that a change
repeats, and the options that a file keeps. `scripts/write_options.py` writes the signatures of `wb.trace`, `wb.tune`
and `j.with_` from the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, cast

from simulator import Machine
from workbench.ground.errors import BadOption
from workbench.lowering.layout_options import checked_layout
from workbench.scheduling.passes.wanted_passes import as_texts
from workbench.stages.option_checks import (
    checked_fusion,
    checked_mapping,
    checked_placement,
    checked_prefer,
    checked_resident,
    checked_schedule,
    checked_seconds,
    checked_tuned,
    machine_of,
    one_of,
)

if TYPE_CHECKING:
    from workbench.lowering.fusion_options import UserFusion
    from workbench.lowering.layout_options import UserLayout
    from workbench.scheduling.mappings.mapping_file import MappingFile
    from workbench.scheduling.mappings.tuned_table import TunedTable
    from workbench.scheduling.passes.wanted_passes import UserPasses
    from workbench.scheduling.user_mapping import UserMapping

SECONDS: Final = "SECONDS"


def _as_given(given: object) -> object:
    return given


@dataclass(frozen=True)
class Option:
    """The description of an option: its stage, sentence, check, form in a file and flag."""

    read_by: str
    """The first stage that reads the option, by its method in `pipeline.py`: a change repeats it and all later ones."""
    doc: str
    given: str = ""
    """The type that a user may give, if it differs from the field's type."""
    check: Callable[[Any], object] = _as_given
    """Returns the value that a journey keeps for a user's value, or raises `BadOption`."""
    kept: tuple[type, ...] = ()
    """The JSON types of the option in a file; empty for an option that is not kept in a file."""
    flag: str = ""
    """The value after the option's flag of `workbench trace`, for the help; empty for an option without a flag."""
    verbs: tuple[str, ...] = ("trace", "with_", "compile")
    """The verbs that have the option: `wb.trace` (and `wb.tune`), `j.with_`, `torch.compile`."""


def option(read_by: str, doc: str, default: Any = None, **more: Any) -> Any:
    """Returns a field of `Options` with a default, and with the option's description."""
    return field(default=default, metadata={"option": Option(read_by, doc, **more)})


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `wb.trace` and `j.with_`, as a journey keeps them.

    Each field is an option, with its type and default; `OPTIONS` has its description. To add an option, write a field
    here, read it in its stage, and run `scripts/write_options.py`, which writes the signatures and the page of docs.
    """

    machine: Machine = field(
        metadata={
            "option": Option(
                "rendered",
                "a shipped machine (see workbench machines), or a file like mine.toml (default: tpu-v3)",
                given="str | Machine",
                check=machine_of,
                flag="M",
            )
        }
    )
    capture: str = option(
        "captured",
        "how the graph is captured",
        "dynamo",
        check=one_of("capture", "dynamo", "export"),
        kept=(str,),
        flag="dynamo|export",
        verbs=("trace",),
    )
    on_missing: str = option(
        "grouped",
        "whether PyTorch computes ops without a route, or they are refused",
        "host",
        check=one_of("on_missing", "host", "error"),
        kept=(str,),
        flag="host|error",
        verbs=("trace", "compile"),
    )
    mapping: Mapping[str, UserMapping] | MappingFile | None = option(
        "rendered",
        "tiles by hand: a file of mappings by ops and shapes, or mappings by kernel",
        given="Mapping[str, UserMapping] | str | os.PathLike[str] | None",
        check=checked_mapping,
        kept=(dict,),
        flag="FILE",
    )
    tuned: TunedTable | None = option(  # a file keeps its mappings instead
        "rendered",
        "a table of tuned mappings, for kernels that `mapping` does not speak of",
        given="str | os.PathLike[str] | None",
        check=checked_tuned,
        flag="FILE",
    )
    fusion: UserFusion = option(
        "grouped",
        "fusion rules that are turned off (none: all of them), and nodes kept apart",
        check=checked_fusion,
        kept=(str, dict, list),
        flag="none",
    )
    prefer: str | None = option(
        "grouped",
        "the dialect whose builders are used where an op has several",
        check=checked_prefer,
        kept=(str,),
        flag="DIALECT",
        verbs=("trace", "compile"),
    )
    schedule: Mapping[str, str] | None = option(
        "tiled", "transform scripts by kernel", check=checked_schedule, kept=(dict,), verbs=("with_",)
    )
    passes: UserPasses | None = option(
        "tiled", "pipelines that run after steps, by the steps' names", check=as_texts, kept=(dict,), verbs=("with_",)
    )
    simulate_seconds: float | None = option(
        "simulated", "the longest time of the simulation", check=checked_seconds, flag=SECONDS
    )
    resident: str | tuple[str, ...] | None = option(
        "scheduled",
        "the tensors that stay in the common memory: names, or auto",
        given="str | Sequence[str] | None",
        check=checked_resident,
        kept=(str, list),
        flag="auto",
    )
    placement: Mapping[str, int | str] | None = option(
        "scheduled", "the chiplet or the policy of tensors, by name", check=checked_placement, kept=(dict,)
    )
    layout: UserLayout = option(
        "lowered",
        "the order in which axes of tensors lie in DRAM",
        check=checked_layout,
        kept=(str, dict),
        flag="given|least",
    )

    @property
    def options(self) -> dict[str, object]:
        """The options that differ from their defaults, without the machine."""
        mine = {each.name: (getattr(self, each.name), each.default) for each in fields(Options)}
        return {name: value for name, (value, usual) in mine.items() if name != "machine" and value != usual}

    @property
    def kept(self) -> dict[str, object]:
        """The options that are kept in a file."""
        return {name: value for name, value in self.options.items() if OPTIONS[name].kept}


OPTIONS: Final[Mapping[str, Option]] = {each.name: each.metadata["option"] for each in fields(Options)}


def options_among(values: Mapping[str, object]) -> dict[str, Any]:
    """The options among a verb's arguments, by name."""
    return {name: value for name, value in values.items() if name in OPTIONS}


def checked_options(**given: Any) -> dict[str, Any]:
    """The checked options; values that the caller may change later are copied."""
    return {name: OPTIONS[name].check(value) for name, value in given.items()}


def options_of_file(kept: Mapping[str, object]) -> dict[str, Any]:
    """The options of a file, checked like a user's, since a file may come from anybody."""
    for name, value in kept.items():
        kinds = OPTIONS[name].kept if name in OPTIONS else ()
        if not isinstance(value, kinds):
            raise BadOption(f"{name}={value!r} is none" if kinds else f"no file has an option {name!r}")
    return checked_options(**kept)


def of_compile() -> tuple[str, ...]:
    """The names of the options of `torch.compile(backend="npu", options=...)`."""
    return tuple(name for name, option in OPTIONS.items() if "compile" in option.verbs)


def checked_compile_options(given: object) -> dict[str, Any]:
    """The options of `torch.compile`; raises for unknown names. Values are checked later, like those of `wb.trace`."""
    names = of_compile()
    if not isinstance(given, Mapping):
        raise BadOption(
            f"torch.compile(backend='npu', options={given!r}): expected {{name: value}} of {', '.join(names)}"
        )
    options = dict(cast("Mapping[str, Any]", given))
    for name in options:
        if name not in names:
            raise BadOption(f"torch.compile(backend='npu') has no option {name!r}; its options are {', '.join(names)}")
    if "machine" in options:
        machine_of(options["machine"])  # checked now: a later error would seem to be about the graph
    return options
