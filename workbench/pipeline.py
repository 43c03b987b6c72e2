"""The order of the stages: what each of the five artefacts is made from, each made once and when it is asked for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from simulator import Machine
from simulator.errors import CommonMemoryFull, DoesNotFit, NoSuchPlace
from workbench import (
    aten,
    capturing,
    environment,
    lowering,
    planning,
    rendering,
    running,
    scheduling,
    simulating,
    views,
)
from workbench.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated, naming_tensors
from workbench.environment.progress import waiting
from workbench.environment.turns import own_lock, turn
from workbench.errors import (
    BadOption,
    MappingError,
    MappingOrder,
    MissingExtra,
    TooManyInstructions,
    WorkbenchError,
)
from workbench.ir import HOST, AtenGraph, KernelGraph, KernelModule, ScheduledProgram
from workbench.ir.kernel_names import by_full_names

if TYPE_CHECKING:
    import torch

    from simulator import Trace
    from workbench.aten.registry import Registrations
    from workbench.ir import Kernel
    from workbench.ir.archive import Archive
    from workbench.lowering.fusion_options import UserFusion
    from workbench.running.run_program import KernelCache
    from workbench.scheduling.passes.user_passes import UserPasses
    from workbench.scheduling.user_mapping import UserMapping
    from workbench.views.selections.origins import OriginIndex

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is made when it is first asked for, and the seconds it took. Threads that ask wait for one."""

    def __init__(self, name: str, make: Callable[[], T], after: Callable[[], object] | None = None) -> None:
        """Is made by one who has the turn; with `after`, once that was asked, by one thread beside others' work.

        `after` asks for every stage that `make` reads: they may need the turn, and nobody waits for it with a lock of
        one stage in hand.
        """
        self.name, self._make, self._after = name, make, after
        self._made: list[T] = []
        self._alone = own_lock()
        self.seconds: float | None = None

    def keep(self, seconds: float | None) -> Once[T]:
        """The same, made now, with the seconds that it once took elsewhere."""
        self._made.append(self._make())
        self.seconds = seconds
        return self

    @property
    def made(self) -> bool:
        return bool(self._made)

    def __call__(self) -> T:
        if not self._made:
            if self._after:
                self._after()
            with self._alone if self._after else turn():
                if not self._made:
                    self._make_now()
        return self._made[0]

    def _make_now(self) -> None:
        with waiting(self.name):
            began = time.perf_counter()
            made = self._make()
            self.seconds = time.perf_counter() - began
        self._made.append(made)


@dataclass(frozen=True)
class GraphCall:
    """A graph that Dynamo has made, as the callable of a journey."""

    module: torch.fx.GraphModule

    def __call__(self, *inputs: object) -> object:
        return cast("object", self.module(*inputs))


_OPTIONS: Final = (
    *("capture", "on_missing", "prefer", "mapping", "fusion", "schedule", "passes"),
    *("resident", "placement", "simulate_seconds"),
)


@dataclass(frozen=True)
class Request:
    """What a journey was asked for."""

    target: Callable[..., object] | None
    """None in a journey that was loaded from `path`."""
    inputs: tuple[object, ...]
    kwargs: Mapping[str, object]
    machine: Machine
    capture: str = "dynamo"
    on_missing: str = "host"
    mapping: Mapping[str, UserMapping] | None = None
    fusion: UserFusion = None
    schedule: Mapping[str, str] | None = None
    """Transform scripts by kernel."""
    passes: UserPasses | None = None
    """Pipelines of the user's own, by the step that each runs after."""
    prefer: str | None = None
    simulate_seconds: float | None = None
    resident: str | tuple[str, ...] | None = None
    """What stays in the common memory: names, `auto`, or nothing."""
    placement: Mapping[str, int | str] | None = None
    """On which chiplet tensors lie, or by which policy, by name."""
    registrations: Registrations | None = field(default_factory=lambda: aten.registry.DEFAULT.now())
    """What was registered when the journey was asked for; later changes do not reach it. None, in a loaded journey, is
    what is registered when a stage runs: what was registered once is code, which a file does not hold."""
    path: str = ""
    given_at: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where in the user's code an option was given, for mistakes that only a later stage can notice."""

    @property
    def options(self) -> dict[str, object]:
        """The options besides the machine that are not as they are when nobody gives them."""
        usual = {each.name: each.default for each in fields(self) if each.name in _OPTIONS}
        return {name: getattr(self, name) for name in _OPTIONS if getattr(self, name) != usual[name]}

    def given(self, **options: object) -> Request:
        """The same, with what is not None of these options given where the user's code calls us now."""
        file, line = environment.call_sites.called_from()
        kept = {option: place for option, place in self.given_at.items() if option not in options}
        now = {option: f"{file}:{line}" for option, value in options.items() if file and value is not None}
        return replace(self, given_at=kept | now)

    @contextlib.contextmanager
    def blaming(self, option: str, *mistakes: type[WorkbenchError]) -> Generator[None]:
        """Says of such mistakes found inside which option they are about, and where that was given."""
        try:
            yield
        except mistakes as error:
            if place := self.given_at.get(option):
                error.args = (f"{error}\n{option}= was given at {place}",)
            raise


@dataclass(frozen=True)
class Stages:
    """The five artefacts, each made once, each from those before it."""

    captured: Once[Captured]
    lowered: Once[Lowered]
    rendered: Once[Rendered]
    scheduled: Once[Scheduled]
    simulated: Once[Simulated]
    kernels: Once[KernelCache]
    """Native code by the text it was compiled from: shared by all journeys that come from one trace."""
    sources: Once[dict[str, str]]
    """`file:line` -> the user's line of Python, read when the journey was traced."""
    origins: Once[OriginIndex]
    """What `select` walks."""

    @staticmethod
    def of(request: Request) -> Stages:
        captured = Once("capture", lambda: _capture(request))
        kernels = Once("compile", lambda: running.run_program.KernelCache(running.native_store.default_native_store()))
        sources = Once("read the sources", lambda: views.source_lines.source_lines(captured().record), captured)
        return Stages._lowered(request, captured, kernels, sources)

    def rescheduled(self, request: Request) -> Stages:
        """The same capture, lowering and rendering, whether made already or not; the rest anew."""
        return Stages._scheduled(request, self.captured, self.lowered, self.rendered, self.kernels, self.sources)

    def replanned(self, request: Request) -> Stages:
        """The same kernels, whether made already or not, with another plan of the common memory or of the chiplets."""
        earlier = (self.captured, self.lowered, self.rendered, self.kernels, self.sources)
        before = self.scheduled
        scheduled = Once("schedule", lambda: _planned(self.lowered().record, before(), request))
        return Stages._scheduled(request, *earlier, scheduled)

    def resimulated(self, request: Request) -> Stages:
        """The same up to scheduling, whether made already or not."""
        earlier = (self.captured, self.lowered, self.rendered, self.kernels, self.sources)
        return Stages._scheduled(request, *earlier, self.scheduled)

    def relowered(self, request: Request) -> Stages:
        """The same capture; the rest anew."""
        return Stages._lowered(request, self.captured, self.kernels, self.sources)

    @staticmethod
    def _lowered(
        request: Request, captured: Once[Captured], kernels: Once[KernelCache], sources: Once[dict[str, str]]
    ) -> Stages:
        lowered = Once("lower", lambda: _lower(captured().record, request))
        rendered = Once("render", lambda: rendered_of(lowered().record, request.registrations))
        return Stages._scheduled(request, captured, lowered, rendered, kernels, sources)

    @staticmethod
    def _scheduled(
        request: Request,
        captured: Once[Captured],
        lowered: Once[Lowered],
        rendered: Once[Rendered],
        kernels: Once[KernelCache],
        sources: Once[dict[str, str]],
        scheduled: Once[Scheduled] | None = None,
    ) -> Stages:
        scheduled = scheduled or Once("schedule", lambda: scheduled_of(lowered().record, rendered().record, request))
        simulated = Once(
            "simulate",
            lambda: simulated_of(
                lowered().record,
                scheduled().record,
                request.machine,
                request.simulate_seconds,
                _filled(captured(), lowered().record, request),
            ),
            lambda: (captured(), lowered(), scheduled()),
        )
        return Stages(
            captured,
            lowered,
            rendered,
            scheduled,
            simulated,
            kernels,
            sources,
            Once(
                "follow the origins",
                lambda: _origins(
                    lowered().record, rendered().record, scheduled().record, simulated().record, sources()
                ),
                lambda: (lowered(), rendered(), scheduled(), simulated(), sources()),
            ),
        )

    @staticmethod
    def loaded(found: Archive) -> Stages:
        """The stages of a file, all of them made."""
        took = found.seconds.get
        kept = tuple(planning.common_memory_plan.residents(found.scheduled, found.scheduled.residence))
        lie = tuple(planning.chiplet_plan.placed(found.scheduled))
        titles = views.titles.kernel_titles(found.lowered)
        shared = views.titles.scheduled_titles(found.lowered, found.scheduled)
        trace = replace(found.trace, launches=simulating.simulate.launched(found.scheduled), residents=kept, placed=lie)
        return Stages(
            Once("capture", lambda: Captured(found.lowered.captured)).keep(took("capture")),
            Once("lower", lambda: Lowered(found.lowered)).keep(took("lower")),
            Once("render", lambda: Rendered(found.rendered, _hosts(found.lowered), titles)).keep(took("render")),
            Once("schedule", lambda: Scheduled(found.scheduled, found.lowered, found.rendered, shared)).keep(
                took("schedule")
            ),
            Once("simulate", lambda: Simulated(trace, found.scheduled, found.lowered)).keep(took("simulate")),
            Once("compile", lambda: running.run_program.KernelCache(running.native_store.default_native_store())),
            Once("read the sources", lambda: found.sources).keep(None),
            Once(
                "follow the origins",
                lambda: _origins(found.lowered, found.rendered, found.scheduled, trace, found.sources),
                lambda: None,
            ),
        )

    def all(self) -> tuple[Once[Captured], Once[Lowered], Once[Rendered], Once[Scheduled], Once[Simulated]]:
        return self.captured, self.lowered, self.rendered, self.scheduled, self.simulated


@contextlib.contextmanager
def _compiler(what: str) -> Generator[None]:
    """Turns a compiler that is not installed into the one error that says so: opening a saved journey needs none."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "torch_mlir"):
            raise
        raise MissingExtra(
            f"{error.name} is not installed, and {what} needs it: pip install aten-workbench. A loaded journey is "
            "read, selected in and simulated without it: wb.simulate(j.lowered, j.scheduled, machine=...)"
        ) from None


def _capture(request: Request) -> Captured:
    assert request.target is not None, "a loaded journey is captured already"
    if isinstance(request.target, GraphCall):
        program = capturing.capture.capture_graph(request.target.module, request.inputs, request.registrations)
        return Captured(program.graph, program)
    program = capturing.capture.capture(
        request.target,
        request.inputs,
        request.kwargs,
        mode=request.capture,
        registrations=request.registrations,
    )
    return Captured(program.graph, program)


def _lower(graph: AtenGraph, request: Request) -> Lowered:
    with _compiler("lowering"):
        verb = lowering.lower.lower
    made = verb(
        graph,
        on_missing=request.on_missing,
        fusion=request.fusion,
        prefer=request.prefer,
        registrations=request.registrations,
    )
    return Lowered(made)


def rendered_of(lowered: KernelGraph, registrations: Registrations | None = None) -> Rendered:
    with _compiler("rendering"):
        verb = rendering.render.render
    return Rendered(verb(lowered, registrations), _hosts(lowered), views.titles.kernel_titles(lowered))


def _hosts(lowered: KernelGraph) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in lowered.kernels if kernel.kind == HOST)


_OF_MAPPINGS = (MappingError, MappingOrder, DoesNotFit, TooManyInstructions)


def check_kernels_named(lowered: KernelGraph, request: Request) -> None:
    """Raises for a mapping of kernels that are not there, as soon as their names are known."""
    if request.mapping:
        names = [kernel.name for kernel in lowered.kernels]
        scheduling.user_mapping.check_kernels(by_full_names(request.mapping, names), names)


def scheduled_of(lowered: KernelGraph, rendered: tuple[KernelModule, ...], request: Request) -> Scheduled:
    with _compiler("scheduling"):
        verb, store = scheduling.schedule.schedule, scheduling.kernel_store.default_store()
    with request.blaming("mapping", *_OF_MAPPINGS), naming_tensors(lowered):
        made = verb(
            lowered,
            rendered,
            request.machine,
            request.mapping,
            store,
            request.registrations,
            request.schedule,
            request.passes,
        )
    return _planned(lowered, Scheduled(made, lowered, rendered), request)


def _planned(lowered: KernelGraph, scheduled: Scheduled, request: Request) -> Scheduled:
    with request.blaming("resident", BadOption, CommonMemoryFull):
        record = planning.common_memory_plan.planned(lowered, scheduled.record, request.machine, request.resident)
    with request.blaming("placement", BadOption, NoSuchPlace):
        record = planning.chiplet_plan.planned(lowered, record, request.machine, request.placement)
    return replace(scheduled, record=record, titles=views.titles.scheduled_titles(lowered, record))


def simulated_of(
    lowered: KernelGraph,
    scheduled: ScheduledProgram,
    machine: Machine,
    seconds: float | None = None,
    filled: simulating.simulate.Filled | None = None,
) -> Simulated:
    with naming_tensors(lowered):
        return Simulated(simulating.simulate.simulate(scheduled, machine, seconds, filled or {}), scheduled, lowered)


def _filled(captured: Captured, lowered: KernelGraph, request: Request) -> simulating.simulate.Filled:
    """Where the tensors of the call are not zero now, if the machine makes use of it and the call is at hand."""
    program = captured.program
    if not request.machine.skips_zero_tiles or program is None or program.parts:
        return {}
    return simulating.nonzero_tiles.filled(program, lowered, request.inputs, request.kwargs)


def _origins(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    scheduled: ScheduledProgram,
    trace: Trace,
    sources: dict[str, str],
) -> OriginIndex:
    return views.origins.OriginIndex(lowered, rendered, scheduled, trace, sources)
