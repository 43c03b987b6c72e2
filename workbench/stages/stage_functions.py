"""The function of each stage: from the request and the artefacts of earlier stages to its own artefact."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulator import Machine
from simulator.errors import CommonMemoryFull, DoesNotFit, NoSuchPlace
from workbench import (
    capturing,
    environment,
    lowering,
    planning,
    rendering,
    rewriting,
    running,
    scheduling,
    simulating,
    views,
)
from workbench.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated, naming_tensors
from workbench.errors import BadOption, MappingError, MissingExtra, TooManyInstructions
from workbench.ir import HOST, KernelGraph, KernelModule, Rewritten, ScheduledProgram
from workbench.ir.kernel_names import by_full_names
from workbench.stages.journey_request import GraphCall, Request

if TYPE_CHECKING:
    from workbench.ir import Kernel
    from workbench.running.run_program import KernelCache
    from workbench.views.selections.origins import OriginIndex


_OF_MAPPINGS = (MappingError, DoesNotFit, TooManyInstructions)


@contextlib.contextmanager
def _compiler(what: str) -> Generator[None]:
    """Turns the import error of a missing compiler into the workbench's own error: opening a saved journey needs no
    compiler."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "torch_mlir"):
            raise
        raise MissingExtra(
            f"{error.name} is not installed, and {what} needs it: pip install aten-workbench. On a loaded "
            "journey, views, selections and simulation work without it: wb.simulate(j.lowered, j.scheduled, "
            "machine=...)"
        ) from None


def captured_of(request: Request) -> Captured:
    assert request.target is not None, "a loaded journey is captured already"
    if isinstance(request.target, GraphCall):
        called = request.target
        program = capturing.capture.capture_graph(called.module, request.inputs, request.registrations, called.name)
        if called.part:
            program = replace(program, graph=replace(program.graph, saved=called.saved_in(program.graph)))
        return Captured(program.graph, program)
    program = capturing.capture.capture(
        request.target,
        request.inputs,
        request.kwargs,
        mode=request.capture,
        registrations=request.registrations,
        train=request.train,
    )
    return Captured(program.graph, program)


@dataclass(frozen=True)
class Grouped:
    """Nodes in kernels, before tensors are laid out in DRAM."""

    record: KernelGraph
    """In a loaded journey, that of the file, whose tensors are laid out: lowering begins with PyTorch's order."""
    rendered: tuple[KernelModule, ...] = ()
    """The texts of its kernels in a file. They stay with every layout that leaves a kernel's tensors as they are, since
    the templates and builders that made them may not be here."""


def rewritten_of(request: Request, captured: Captured) -> Rewritten:
    """The captured graph as passes and patterns have it."""
    if not request.rewrites:
        return Rewritten(captured.record, ())
    with _compiler("a graph pass or a pattern"):
        verb = rewriting.rewrite.rewritten
    return verb(captured.record, request.rewrites, request.rewrites_off)


def grouped_of(request: Request, rewritten: Rewritten) -> Grouped:
    with _compiler("lowering"):
        verb = lowering.lower.lower
    made = verb(
        rewritten.graph,
        on_missing=request.on_missing,
        fusion=request.fusion,
        prefer=request.prefer,
        registrations=request.registrations,
        rewrites=[each.name for each in rewritten.rewrites],
        room=request.room_here,
    )
    return Grouped(rewriting.lowered_origins.with_origins(made, rewritten))


def lowered_of(request: Request, grouped: Grouped) -> Lowered:
    with _compiler("lowering"):
        layouts = lowering.layouts
    with request.blaming("layout", BadOption):
        return Lowered(layouts.laid_out(layouts.as_in_pytorch(grouped.record), request.layout_here))


def imported_of(request: Request, grouped: Grouped, lowered: Lowered) -> Rendered:
    """Every kernel except those of templates, which have no text before the machine is known."""
    graph = lowered.record
    with _compiler("rendering"):
        render = rendering.render
    known = render.by_structure(grouped.record, grouped.rendered)
    made = render.render(graph, request.registrations, known, rendering.module_store.default_module_store())
    return Rendered(made, hosts_of(graph), views.titles.kernel_titles(graph), request.held)


def without_templates(lowered: Lowered, imported: Rendered) -> bool:
    """Whether no kernel is a template's, so that rendering does not depend on the machine and the mapping."""
    return not any(module.handwritten for module in imported.record)


def rendered_of(request: Request, lowered: Lowered, imported: Rendered) -> Rendered:
    """The same with the texts of templates for this machine and mapping."""
    if without_templates(lowered, imported):
        return imported
    with _compiler("rendering"):
        verb, store = rendering.write_templates.written, rendering.module_store.default_module_store()
    asked = request.mappings(lowered.record)
    with request.blaming("mapping", *_OF_MAPPINGS), asked.blaming(), naming_tensors(lowered.record):
        made = verb(lowered.record, imported.record, request.machine, asked.mapping, request.registrations, store)
    return replace(imported, record=made)


def hosts_of(lowered: KernelGraph) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in lowered.kernels if kernel.kind == HOST)


def check_kernels_named(lowered: KernelGraph, request: Request) -> None:
    """Raises for a mapping of unknown kernels, as soon as the kernels' names are known."""
    if isinstance(request.mapping, dict):
        names = [kernel.name for kernel in lowered.kernels]
        scheduling.user_mapping.check_kernels(by_full_names(request.mapping, names), names)


def code_of(request: Request, rendered: Rendered) -> scheduling.schedule.UserCode:
    """The scripts and passes of a journey, to be run on its kernels. Nothing else hands them to MLIR; those of a file,
    and its kernels' texts, may ask for what is on the lists alone."""
    code = scheduling.schedule.UserCode(request.schedule, request.passes)
    if path := request.held or rendered.file:
        scheduling.foreign_code.check(path, code.scripts, code.passes, rendered.record)
    return code


def tiled_of(
    request: Request, lowered: Lowered, rendered: Rendered, near: Mapping[str, frozenset[int]] | None = None
) -> Scheduled:
    """Every kernel as loops over tiles; the plan places the tensors. `near` are arguments, by kernel, that the common
    memory serves."""
    with _compiler("scheduling"):
        verb, store = scheduling.schedule.schedule, scheduling.kernel_store.default_store()
        code = code_of(request, rendered)
    registered, asked = environment.registered.PASSES.as_of(request.own_passes), request.mappings(lowered.record)
    told = (request.blaming("mapping", *_OF_MAPPINGS), asked.blaming())
    with registered, told[0], told[1], naming_tensors(lowered.record):
        made = verb(
            lowered.record,
            rendered.record,
            request.machine,
            asked.mapping,
            store,
            request.registrations,
            code,
            near,
        )
    return Scheduled(asked.told(made), lowered.record, rendered.record)


def planned_of(request: Request, lowered: Lowered, rendered: Rendered, tiled: Scheduled) -> Scheduled:
    """The same with the plan of the common memory and of the tensors' chiplets.

    Kernels with tensors in the common memory are tiled anew: what it serves takes no time of DRAM's bus.
    """
    graph, machine, plan = lowered.record, request.machine, planning.common_memory_plan
    with request.blaming("resident", BadOption, CommonMemoryFull):
        record = plan.planned(graph, tiled.record, machine, request.resident)
    if near := plan.served(record):
        tiled = tiled_of(request, lowered, rendered, near)
        with request.blaming("resident", BadOption, CommonMemoryFull):
            record = plan.planned(graph, tiled.record, machine, request.resident)
    with request.blaming("placement", BadOption, NoSuchPlace):
        record = planning.chiplet_plan.planned(graph, record, machine, request.placement)
    return replace(tiled, record=record, titles=views.titles.scheduled_titles(graph, record))


def simulated_of(request: Request, captured: Captured, lowered: Lowered, scheduled: Scheduled) -> Simulated:
    filled = _filled(captured, lowered.record, request)
    return simulated_from(lowered.record, scheduled.record, request.machine, request.simulate_seconds, filled)


def simulated_from(
    lowered: KernelGraph,
    scheduled: ScheduledProgram,
    machine: Machine,
    seconds: float | None = None,
    filled: simulating.simulate.Filled | None = None,
) -> Simulated:
    with naming_tensors(lowered):
        return Simulated(
            simulating.simulate.simulate(lowered, scheduled, machine, seconds, filled or {}), scheduled, lowered
        )


def _filled(captured: Captured, lowered: KernelGraph, request: Request) -> simulating.simulate.Filled:
    """The nonzero places of the call's current tensors, if the machine skips zero tiles and the call is known."""
    program = captured.program
    if not request.machine.core.skips_zero_tiles or program is None or program.parts:
        return {}
    return simulating.nonzero_tiles.filled(program, lowered, request.inputs, request.kwargs)


def native_kernels(request: Request) -> KernelCache:
    """Native code by its source text, for all journeys of one trace."""
    return running.run_program.KernelCache(running.native_store.default_native_store())


def sources_of(request: Request, captured: Captured) -> dict[str, str]:
    """`file:line` -> the user's line of Python, read when the journey is traced."""
    return views.source_lines.source_lines(captured.record)


def origins_of(
    request: Request,
    lowered: Lowered,
    rendered: Rendered,
    scheduled: Scheduled,
    simulated: Simulated,
    sources: dict[str, str],
) -> OriginIndex:
    """The index for `select`."""
    return views.origins.OriginIndex(lowered.record, rendered.record, scheduled.record, simulated.record, sources)
