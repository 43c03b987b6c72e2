"""The verbs of `wb`: the whole journey from a function, from a file or from Dynamo's graph, and each stage alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from simulator import Machine, machine_names
from simulator.machine.machine import Override
from workbench.explaining.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated
from workbench.explaining.views.graphs.kernel_groups import Run
from workbench.explaining.views.timelines.machine_table import told_apart
from workbench.exploring.tuning.tuning_budget import BUDGET
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, FusionError, HostRoute, IdleStep, JourneyFileEdited, MappingError
from workbench.ir import AtenGraph, KernelGraph, RecordFormatError, archive
from workbench.journey import Journey
from workbench.stages.journey_request import GraphCall, Request
from workbench.stages.option_checks import checked_seconds, machine_of, warn_without_common_memory
from workbench.stages.options import checked_options, options_among, options_of_file
from workbench.stages.pipeline import Grouped, Stages, loaded

if TYPE_CHECKING:
    from workbench.exploring.comparison import Comparison
    from workbench.exploring.tuning.measured import Executor
    from workbench.exploring.tuning.tuning_answer import Tuning
    from workbench.lowering.fusion_options import UserFusion
    from workbench.lowering.layout_options import UserLayout
    from workbench.scheduling.user_mapping import UserMapping


@knows_its_options
def trace(
    fn_or_module: Callable[..., object],
    /,
    *inputs: object,
    kwargs: Mapping[str, object] | None = None,
    machine: str | Machine = "tpu-v3",
    capture: str = "dynamo",
    on_missing: str = "host",
    mapping: Mapping[str, UserMapping] | str | os.PathLike[str] | None = None,
    tuned: str | os.PathLike[str] | None = None,
    fusion: UserFusion = None,
    prefer: str | None = None,
    simulate_seconds: float | None = None,
    resident: str | Sequence[str] | None = None,
    placement: Mapping[str, int | str] | None = None,
    layout: UserLayout = None,
    train: bool = False,
) -> Journey:
    """Captures one call of a function or module, and returns the journey from there to the timeline.

    `capture` is `dynamo` (reads the bytecode: closures, data structures) or `export` (`torch.export`). `machine` is a
    shipped machine's name (`wb.machines()`), a file (`mine.toml`) or a `wb.machine(...)`. `mapping` tiles by hand:
    `{kernel: {"tile": {dim: size}, "order": [dims], "buffers": slots}}`, where a kernel is a name, a pattern such as
    `"k?_linear*"`, or `"*"` for all others. A kernel's own name comes first, then the first pattern that matches, then
    `"*"`; a key that applies to no kernel is an error. The path of a TOML or JSON file gives mappings by ops and shapes
    instead. `tuned` is the path of a table that `j.tuned().save(path)` wrote, for kernels without an entry in
    `mapping`: see docs/tuning.md. `fusion` turns fusions off, as in `Journey.with_`. `on_missing`
    is for ops without a route: with `host` PyTorch computes them, with a warning and at the cost of the host link,
    `error` refuses them. `prefer` names the dialect whose builders are used if an op has several.
    `simulate_seconds` is the time limit of the simulation. `resident` names tensors that stay in the machine's common
    memory (`["fc1.weight", "relu"]`), or lets a heuristic choose them (`"auto"`). `placement` gives tensors a chiplet
    or a policy (`{"fc1.weight": 1, "x": "local"}`). `layout` is the order in which axes of tensors lie in DRAM: `given`
    is PyTorch's order, `least` the order with the least padding to the machine's blocks (`dram_tile`), and a mapping
    such as `{"fc1.weight": (1, 0)}` is for some tensors; None is `least` on a machine with blocks. `train=True` traces
    a training step: the function calls `loss.backward()` and an optimizer's `step()`, see docs/training.md.
    """
    asked = options_among(locals())
    from workbench.capturing.user_call import refuse_uncallable
    from workbench.operators.host.host_steps import break_texts, warning_text

    refuse_uncallable(fn_or_module)
    given, options = MappingProxyType(dict(kwargs or {})), checked_options(**asked)
    request = Request(fn_or_module, inputs, given, train=train, **options).given(**options)
    request.check_rules_named()
    warn_without_common_memory(request.resident, request.machine)
    made = Stages(request)
    _ = made.captured(), made.sources()
    journey = Journey(request, made)
    request.check_kernels_named(journey.lowered.record)
    breaks = break_texts(journey.lowered.record, journey.captured.breaks)
    for text in filter(None, [warning_text(journey.lowered.record), *breaks]):
        warnings.warn(text, HostRoute, stacklevel=3)
    training = program.training if (program := made.captured().program) else None
    for text in training.idle if training else ():
        warnings.warn(text, IdleStep, stacklevel=3)
    return journey


@knows_its_options
def tune(
    fn_or_module: Callable[..., object],
    /,
    *inputs: object,
    kwargs: Mapping[str, object] | None = None,
    machine: str | Machine = "tpu-v3",
    capture: str = "dynamo",
    on_missing: str = "host",
    mapping: Mapping[str, UserMapping] | str | os.PathLike[str] | None = None,
    tuned: str | os.PathLike[str] | None = None,
    fusion: UserFusion = None,
    prefer: str | None = None,
    simulate_seconds: float | None = None,
    resident: str | Sequence[str] | None = None,
    placement: Mapping[str, int | str] | None = None,
    layout: UserLayout = None,
    budget: int = BUDGET,
    kernels: Sequence[str] | None = None,
    seed: int = 0,
    executor: Executor | None = None,
) -> Tuning[Journey]:
    """Traces one call and looks for faster mappings of its kernels: `wb.trace(...).tuned(...)`."""
    asked = options_among(locals())
    journey = trace(fn_or_module, *inputs, kwargs=kwargs, **asked)
    return journey.tuned(budget=budget, kernels=kernels, seed=seed, executor=executor)


@knows_its_options
def load(path: str | os.PathLike[str], *, trust: bool = False) -> Journey:
    """The journey that `j.save(path)` wrote. Opening, reading and simulating it needs neither PyTorch nor MLIR.

    Views and selections work as for any journey. `wb.simulate(j.lowered, j.scheduled, machine=...)` simulates the
    journey again, on any machine whose scratchpad holds the tiles. `with_` works from the records and needs MLIR, but
    not the function; `run` and `check` need the function and are refused.

    A file may come from anybody. Without `trust=True`, its scripts and passes may only change kernels: all others are
    shown, but refused when a stage would run them. See docs/sharing.md.
    """
    found = archive.load(path)
    request = Request(machine=found.machine, registrations=None, path=str(path), trusted=trust)
    kept = {each.name: each for each in found.lowered.rewrites}
    try:
        request = replace(request, rewrites=kept, **options_of_file(found.options))
    except (BadOption, FusionError, MappingError, RecordFormatError) as error:
        raise JourneyFileEdited(str(path), f"its options make no sense: {error}") from None
    return Journey(request, loaded(request, found))


def of_graph(call: GraphCall, inputs: tuple[object, ...], options: Mapping[str, Any]) -> Journey:
    """The journey of a graph that `torch.compile(backend="npu")` runs."""
    request = Request(call, inputs, **checked_options(**{"machine": "tpu-v3", **options}))
    warn_without_common_memory(request.resident, request.machine)
    return Journey(request, Stages(request))


@knows_its_options
def capture(
    fn_or_module: Callable[..., object],
    /,
    *inputs: object,
    kwargs: Mapping[str, object] | None = None,
    capture: str = "dynamo",
) -> Captured:
    """Runs the first stage alone: captures the function's calls of ATen."""
    named = MappingProxyType(dict(kwargs or {}))
    request = Request(fn_or_module, inputs, named, **checked_options(machine="tpu-v3", capture=capture))
    return Stages(request).captured()


@knows_its_options
def lower(
    captured: Captured | AtenGraph,
    *,
    machine: str | Machine = "tpu-v3",
    on_missing: str = "host",
    fusion: UserFusion = None,
    prefer: str | None = None,
    layout: UserLayout = None,
) -> Lowered:
    """Runs the second stage alone. From the machine it reads only the blocks in which tensors lie; `layout` is as in
    `trace`."""
    given = captured if isinstance(captured, Captured) else Captured(captured)
    options = checked_options(machine=machine, on_missing=on_missing, fusion=fusion, prefer=prefer, layout=layout)
    request = Request(**options).given(**options)
    return Stages(request, captured=given).lowered()


@knows_its_options
def render(lowered: Lowered | KernelGraph) -> Rendered:
    """Runs the third stage alone. Templates are rendered for tpu-v3, which is also the default machine of `schedule`;
    for another machine or with a mapping, `schedule` renders them again."""
    given = lowered if isinstance(lowered, Lowered) else Lowered(lowered)
    request = Request(machine=machine_of("tpu-v3"))
    return Stages(request, grouped=Grouped(given.record), lowered=given).rendered()


@knows_its_options
def schedule(
    lowered: Lowered,
    rendered: Rendered,
    *,
    machine: str | Machine = "tpu-v3",
    mapping: Mapping[str, UserMapping] | str | os.PathLike[str] | None = None,
    tuned: str | os.PathLike[str] | None = None,
    scripts: Mapping[str, str] | None = None,
    resident: str | Sequence[str] | None = None,
    placement: Mapping[str, int | str] | None = None,
) -> Scheduled:
    """Runs the fourth stage alone. `scripts` are transform scripts by kernel; all other options are as in `trace`."""
    options = checked_options(
        machine=machine, mapping=mapping, tuned=tuned, schedule=scripts, resident=resident, placement=placement
    )
    request = Request(**options).given(**options)
    warn_without_common_memory(request.resident, request.machine)
    return Stages(request, lowered=lowered, imported=rendered).scheduled()


@knows_its_options
def simulate(
    lowered: Lowered, scheduled: Scheduled, *, machine: str | Machine = "tpu-v3", seconds: float | None = None
) -> Simulated:
    """Runs the fifth stage alone, in at most `seconds`."""
    on, limit = machine_of(machine), checked_seconds(seconds)
    request = Request(machine=on, simulate_seconds=limit, registrations=None)  # registrations need PyTorch
    captured = Captured(lowered.record.captured)
    return Stages(request, captured=captured, lowered=lowered, scheduled=scheduled).simulated()


@checks_what_it_is_given
def machine(name: str | os.PathLike[str] | Machine, /, **overrides: Override) -> Machine:
    """A shipped machine, a machine of a TOML file, or a given machine, with some of its figures replaced.

    `wb.machine("tpu-v3", vector_lanes=64)`, `wb.machine("mine.toml")`; with cores that differ,
    `wb.machine("tpu-v3", cores=[{}, {"vector_lanes": 64}])`.
    """
    of = machine_of(name)
    return of.with_(**overrides) if overrides else of


def machines() -> tuple[str, ...]:
    """Names of the shipped machines."""
    return machine_names()


@knows_its_options
def compare(*journeys: Journey, names: Sequence[str] | None = None) -> Comparison:
    """Compares two to eight journeys: the differences in cycles and bytes, by place.

    All others are compared with the first. Journeys may be on different machines, fused and tiled differently, come
    from files, or be of a function before and after an edit: captured nodes are matched by op, module and order, and
    kernels by the nodes that they compute. `names` are the journeys' names in the tables; by default they are named by
    the first of machine, function, and both that differs for each, else by numbers.
    """
    for journey in journeys:
        if not isinstance(journey, Journey):  # pyright: ignore[reportUnnecessaryIsInstance] - what a user passes
            raise BadOption(_no_journey(journey))
    if not 2 <= len(journeys) <= _MOST_COMPARED:
        raise BadOption(_not_so_many(len(journeys)))
    if names is not None and not _are_names(names, len(journeys)):
        raise BadOption(f"names={list(names)!r}: expected {len(journeys)} different names, one a journey")
    runs = (
        Run(name, journey.lowered.record, journey.scheduled.record, journey.simulated.record, journey.options)
        for name, journey in zip(names or _names(journeys), journeys, strict=True)
    )
    from workbench.exploring.comparison import compared  # only here: it loads all rules of findings

    return compared(tuple(runs))


@knows_its_options
def lab(journey: Journey | str | os.PathLike[str], *, stage: str = "capture") -> object:
    """Shows the lab in a notebook: all stages of a journey, or of a saved journey's file, with one selection.

    The lab opens at `stage`: capture, lower, render, schedule, program or timeline.
    """
    return (journey if isinstance(journey, Journey) else load(journey)).widget(stage=stage)


_MOST_COMPARED = 8


def _are_names(given: Sequence[object], count: int) -> bool:
    return all(isinstance(name, str) for name in given) and len(given) == len(set(given)) == count


def _not_so_many(count: int) -> str:
    text = f"wb.compare takes 2 to {_MOST_COMPARED} journeys, but was given {count or 'none'}"
    if count > _MOST_COMPARED:
        return f"{text}: compare them in parts, each with the same first one"
    return f"{text}: wb.compare(j, j.with_(machine='edge-8x8')), for instance"


def _no_journey(given: object) -> str:
    """The mistake in an argument of `compare`, and how to give journeys in a list or by name instead."""
    text = f"wb.compare was given an object of type {type(given).__name__!r}"
    if isinstance(given, Mapping):
        return f"{text}; give the journeys one by one: wb.compare(*those.values(), names=list(those))"
    if isinstance(given, list | tuple):
        return f"{text}; give the journeys one by one: wb.compare(*those)"
    return f"{text}; give journeys, the results of wb.trace and wb.load"


def _names(journeys: Sequence[Journey]) -> tuple[str, ...]:
    machines = told_apart([journey.machine for journey in journeys])
    functions = [journey.captured.record.name for journey in journeys]
    for names in (machines, functions, [f"{f} on {m}" for f, m in zip(functions, machines, strict=True)]):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"j{number}" for number in range(1, len(journeys) + 1))
