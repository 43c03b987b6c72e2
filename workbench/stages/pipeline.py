"""The stages of a call, from PyTorch to the timeline, in the order in which `wb.trace` runs them.

    capture -> rewrite -> lower -> render -> schedule -> plan -> simulate

Each method is a stage. Its parameters are artefacts of earlier stages; it returns its own artefact, which is made at
the first use: `Stages(request).scheduled()` makes everything that scheduling needs. Users see several methods as one
stage, with the name in `@stage(...)`: grouping nodes and laying out tensors are both *lower*. The compiler, and so
PyTorch and MLIR, is imported in the methods that call it: a journey from a file opens without these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulator.errors import CommonMemoryFull, DoesNotFit, NoSuchPlace
from workbench.explaining.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated, naming_tensors
from workbench.explaining.views.graphs.titles import kernel_titles, scheduled_titles
from workbench.ground.environment.progress import at, reached
from workbench.ground.errors import BadOption, FusionError, MappingError, TooManyInstructions
from workbench.ir import HOST, KernelGraph, KernelModule, Rewritten
from workbench.scheduling.planning import chiplet_plan, common_memory_plan
from workbench.stages.journey_request import GraphCall, Request
from workbench.stages.stage import StageTable, stage

if TYPE_CHECKING:
    from workbench.explaining.views.selections.origins import OriginIndex
    from workbench.ir import Kernel
    from workbench.ir.archive import Archive
    from workbench.running.run_program import KernelCache
    from workbench.scheduling.schedule import UserCode
    from workbench.simulating.launched_programs import Filled

_COMPILING = "compiling the simulator, once"
_OF_MAPPINGS = (MappingError, DoesNotFit, TooManyInstructions)


@dataclass(frozen=True)
class Grouped:
    """The nodes grouped into kernels, before tensors are laid out in DRAM."""

    record: KernelGraph
    """The graph of kernels. In a loaded journey it has the file's layout; lowering first restores PyTorch's order."""
    rendered: tuple[KernelModule, ...] = ()
    """The kernels' texts in a file. A kernel's text stays with every layout that leaves its tensors unchanged, since
    the templates and builders that made it may not be registered here."""


def without_templates(lowered: Lowered, imported: Rendered) -> bool:
    """True if no kernel is a template's: then rendering does not depend on machine and mapping."""
    return not any(module.handwritten for module in imported.record)


class Stages(StageTable):
    """The stages of one journey."""

    @stage("capture")
    def captured(self) -> Captured:
        """The calls of ATen that PyTorch makes when it runs the function."""
        from workbench.capturing.capture import capture, capture_graph

        asked, called = self.request, self.request.target
        assert called is not None, "a loaded journey is captured already"
        if isinstance(called, GraphCall):
            program = capture_graph(called.module, asked.inputs, asked.registrations, called.name)
            if called.part:
                program = replace(program, graph=replace(program.graph, saved=called.saved_in(program.graph)))
            if called.broken_off:
                program = replace(program, breaks=(called.broken_off,))
        else:
            program = capture(
                called,
                asked.inputs,
                asked.kwargs,
                mode=asked.capture,
                registrations=asked.registrations,
                train=asked.train,
            )
        return Captured(program.graph, program)

    @stage("lower", "rewrites")
    def rewritten(self, captured: Captured) -> Rewritten:
        """The captured graph after graph passes and patterns."""
        if not self.request.rewrites:
            return Rewritten(captured.record, ())
        from workbench.capturing.rewriting.rewrite import rewritten

        return rewritten(captured.record, self.request.rewrites, self.request.rewrites_off)

    @stage("lower", "room")
    def grouped(self, rewritten: Rewritten) -> Grouped:
        """The nodes with their routes, grouped into kernels."""
        from workbench.capturing.rewriting.rewrite import with_origins
        from workbench.lowering.lower import lower

        with self.request.blaming("fusion", FusionError):
            made = lower(
                rewritten.graph,
                on_missing=self.request.on_missing,
                fusion=self.request.fusion,
                prefer=self.request.prefer,
                registrations=self.request.registrations,
                rewrites=[each.name for each in rewritten.rewrites],
                room=self.request.room_here,
            )
        return Grouped(with_origins(made, rewritten))

    @stage("lower")
    def lowered(self, grouped: Grouped) -> Lowered:
        """The kernels with their tensors laid out in DRAM."""
        from workbench.lowering.layouts import as_in_pytorch, laid_out

        with self.request.blaming("layout", BadOption):
            return Lowered(laid_out(as_in_pytorch(grouped.record), self.request.layout_here))

    @stage("render")
    def imported(self, grouped: Grouped, lowered: Lowered) -> Rendered:
        """Every kernel as MLIR, except those of templates: these have no text before machine and mapping are known."""
        from workbench.rendering.module_store import default_module_store
        from workbench.rendering.render import by_structure, render

        known = by_structure(grouped.record, grouped.rendered)
        made = render(lowered.record, self.request.registrations, known, default_module_store())
        return Rendered(made, hosts_of(lowered.record), kernel_titles(lowered.record), self.request.held)

    @stage("render", stays=without_templates)
    def rendered(self, lowered: Lowered, imported: Rendered) -> Rendered:
        """Every kernel as MLIR, including the texts of templates for this machine and mapping."""
        if without_templates(lowered, imported):
            return imported
        from workbench.rendering.module_store import default_module_store
        from workbench.rendering.write_templates import written

        graph, machine, known = lowered.record, self.request.machine, self.request.registrations
        asked = self.request.mappings(graph)
        with self.request.blaming("mapping", *_OF_MAPPINGS), asked.blaming(), naming_tensors(graph):
            made = written(graph, imported.record, machine, asked.mapping, known, default_module_store())
        return replace(imported, record=made)

    @stage("schedule")
    def tiled(self, lowered: Lowered, rendered: Rendered) -> Scheduled:
        """Every kernel as loops over tiles, and as the program that its machine runs."""
        return tiled(self.request, lowered, rendered)

    @stage("plan")
    def scheduled(self, lowered: Lowered, rendered: Rendered, tiled: Scheduled) -> Scheduled:
        """The scheduled kernels with the plan of the common memory and of the tensors' chiplets."""
        return planned(self.request, lowered, rendered, tiled)

    @stage("simulate", compiles=False)
    def simulated(self, captured: Captured, lowered: Lowered, scheduled: Scheduled) -> Simulated:
        """The timeline of the programs on the machine."""
        from simulator.compiled import when_compiling
        from simulator.engine.engine import simulate
        from workbench.simulating.launched_programs import launched, lying

        graph, program, asked = lowered.record, scheduled.record, self.request
        launches, lie = launched(graph, program, _filled(asked, captured, graph)), lying(program)
        with naming_tensors(graph), when_compiling(lambda begins: at(_COMPILING if begins else "")):
            trace = simulate(launches, asked.machine, seconds=asked.simulate_seconds, progress=reached, **lie)
        return Simulated(trace, program, graph)

    @stage("compile", beside=True)
    def kernels(self) -> KernelCache:
        """The cache of native code by source text, for all journeys of one trace; `run_and_check.py` runs the code."""
        from workbench.running.native_store import default_native_store
        from workbench.running.run_program import KernelCache

        return KernelCache(default_native_store())

    @stage("read the sources", compiles=False, beside=True)
    def sources(self, captured: Captured) -> dict[str, str]:
        """`file:line` -> the user's line of Python, read when the journey is traced."""
        from workbench.explaining.views.graphs.source_lines import source_lines

        return source_lines(captured.record)

    @stage("follow the origins", compiles=False, beside=True)
    def origins(
        self,
        lowered: Lowered,
        rendered: Rendered,
        scheduled: Scheduled,
        simulated: Simulated,
        sources: dict[str, str],
    ) -> OriginIndex:
        """The index for `select`."""
        from workbench.explaining.views.selections.origins import OriginIndex

        return OriginIndex(lowered.record, rendered.record, scheduled.record, simulated.record, sources)


def tiled(
    request: Request, lowered: Lowered, rendered: Rendered, near: Mapping[str, frozenset[int]] | None = None
) -> Scheduled:
    """Schedules every kernel. `near` are arguments, by kernel, that the common memory serves."""
    from workbench.ground.environment.registered import PASSES
    from workbench.scheduling.kernel_store import default_store
    from workbench.scheduling.schedule import schedule

    graph, asked = lowered.record, request.mappings(lowered.record)
    texts, code, known = rendered.record, code_of(request, rendered), request.registrations
    with (
        PASSES.as_of(request.own_passes),
        request.blaming("mapping", *_OF_MAPPINGS),
        asked.blaming(),
        naming_tensors(graph),
    ):
        made = schedule(graph, texts, request.machine, asked.mapping, default_store(), known, code, near)
    return Scheduled(asked.with_sources(made), graph, texts)


def planned(request: Request, lowered: Lowered, rendered: Rendered, made: Scheduled) -> Scheduled:
    """Plans the common memory and the tensors' chiplets.

    Kernels with tensors in the common memory are tiled again, since these tensors take no time of DRAM's bus.
    """
    graph, machine = lowered.record, request.machine
    with request.blaming("resident", BadOption, CommonMemoryFull):
        record = common_memory_plan.planned(graph, made.record, machine, request.resident)
    if near := common_memory_plan.served(record):
        made = tiled(request, lowered, rendered, near)
        with request.blaming("resident", BadOption, CommonMemoryFull):
            record = common_memory_plan.planned(graph, made.record, machine, request.resident)
    with request.blaming("placement", BadOption, NoSuchPlace):
        record = chiplet_plan.planned(graph, record, machine, request.placement)
    return replace(made, record=record, titles=scheduled_titles(graph, record))


def code_of(request: Request, rendered: Rendered) -> UserCode:
    """The scripts and passes of a journey, for its kernels; MLIR gets them only through this function. Those of an
    untrusted file, and its kernels' texts, may use only what is on the lists of scheduling/foreign_code.py."""
    from workbench.scheduling.schedule import UserCode

    code = UserCode(request.schedule, request.passes)
    if path := request.held or rendered.file:
        from workbench.scheduling.foreign_code import check

        check(path, code.scripts, code.passes, rendered.record)
    return code


def hosts_of(lowered: KernelGraph) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in lowered.kernels if kernel.kind == HOST)


def _filled(request: Request, captured: Captured, lowered: KernelGraph) -> Filled:
    """Masks of the nonzero elements of the call's tensors, if the machine skips zero tiles and there is a call."""
    program = captured.program
    if not request.machine.core.skips_zero_tiles or program is None or program.parts:
        return {}
    from workbench.simulating.nonzero_tiles import filled

    return filled(program, lowered, request.inputs, request.kwargs)


def loaded(request: Request, found: Archive) -> Stages:
    """The stages of a journey from a file, with all artefacts that the file has."""
    from workbench.simulating.launched_programs import launched, lying

    graph, scheduled = found.lowered, found.scheduled
    trace = replace(found.trace, launches=launched(graph, scheduled), asked=lying(scheduled))
    rendered = Rendered(found.rendered, hosts_of(graph), kernel_titles(graph), request.held)
    planned = Scheduled(scheduled, graph, found.rendered, scheduled_titles(graph, scheduled))
    # without this, a new plan would keep tiles that were made for the tensors in the old plan's common memory
    tiled = {} if common_memory_plan.served(scheduled) else {"tiled": planned}
    return Stages(
        request,
        captured=Captured(graph.captured),
        rewritten=Rewritten(graph.captured, graph.rewrites),
        grouped=Grouped(graph, found.rendered),
        lowered=Lowered(graph),
        imported=rendered,
        rendered=rendered,
        scheduled=planned,
        simulated=Simulated(trace, scheduled, graph),
        sources=found.sources,
        **tiled,
    ).with_seconds(found.seconds)
