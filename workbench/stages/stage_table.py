"""The stages as a table: the inputs of each, its function, and the options that it is the first to read.

The table determines which stages a changed option repeats, the contents of a file, and `j.seconds`. A new stage, or a
new option of one, is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from workbench import planning, simulating, views
from workbench.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated
from workbench.ir import Rewritten
from workbench.stages import stage_functions as functions
from workbench.stages.journey_request import Request
from workbench.stages.once import Once

if TYPE_CHECKING:
    from workbench.ir.archive import Archive
    from workbench.running.run_program import KernelCache
    from workbench.views.selections.origins import OriginIndex


@dataclass(frozen=True)
class Stage:
    """A row of the table."""

    artefact: str
    """Its result: a field of `Stages`."""
    name: str
    """Its name in the progress line and in `j.seconds`; stages of one name are one entry there."""
    inputs: tuple[str, ...]
    function: Callable[..., Any]
    """A function of the request and the inputs."""
    options: tuple[str, ...] = ()
    """The options that it is the first to read: if one changes, the artefact is made anew, and all artefacts that
    depend on it."""
    compiles: bool = True
    """Whether it uses PyTorch or MLIR, one thread at a time; otherwise it runs beside other work."""
    stays: Callable[..., bool] | None = None
    """A function of the inputs: whether the artefact does not depend on its options, so that it need not be made
    anew."""

    def once(self, request: Request, made: Mapping[str, Once[Any]]) -> Once[Any]:
        """Its artefact, made at its first use."""
        inputs = [made[name] for name in self.inputs]
        return Once(self.name, partial(self._made, request), inputs, compiles=self.compiles)

    def _made(self, request: Request, *inputs: Any) -> Any:
        with request.blaming_the_file():
            return self.function(request, *inputs)


STAGES: Final[tuple[Stage, ...]] = (
    Stage("captured", "capture", (), functions.captured_of, ("capture",)),
    Stage("rewritten", "lower", ("captured",), functions.rewritten_of, ("rewrites",)),
    Stage("grouped", "lower", ("rewritten",), functions.grouped_of, ("on_missing", "prefer", "fusion", "room")),
    Stage("lowered", "lower", ("grouped",), functions.lowered_of, ("layout",)),
    Stage("imported", "render", ("grouped", "lowered"), functions.imported_of),
    Stage(
        "rendered",
        "render",
        ("lowered", "imported"),
        functions.rendered_of,
        ("machine", "mapping", "tuned"),
        stays=functions.without_templates,
    ),
    Stage("tiled", "schedule", ("lowered", "rendered"), functions.tiled_of, ("schedule", "passes")),
    Stage("scheduled", "plan", ("lowered", "rendered", "tiled"), functions.planned_of, ("resident", "placement")),
    Stage(
        "simulated",
        "simulate",
        ("captured", "lowered", "scheduled"),
        functions.simulated_of,
        ("simulate_seconds",),
        compiles=False,
    ),
)
"""From PyTorch to the timeline."""

BESIDE: Final[tuple[Stage, ...]] = (
    Stage("kernels", "compile", (), functions.native_kernels),
    Stage("sources", "read the sources", ("captured",), functions.sources_of, compiles=False),
    Stage(
        "origins",
        "follow the origins",
        ("lowered", "rendered", "scheduled", "simulated", "sources"),
        functions.origins_of,
        compiles=False,
    ),
)
"""Other values that a journey makes once."""


@dataclass(frozen=True)
class Stages:
    """The artefacts of a journey; each is made once, from earlier ones."""

    captured: Once[Captured]
    rewritten: Once[Rewritten]
    """The captured graph after graph passes and patterns."""
    grouped: Once[functions.Grouped]
    lowered: Once[Lowered]
    imported: Once[Rendered]
    """Rendered kernels without those of templates: these do not depend on machine and mapping."""
    rendered: Once[Rendered]
    tiled: Once[Scheduled]
    """Scheduled, before the plan of the common memory and of the chiplets."""
    scheduled: Once[Scheduled]
    simulated: Once[Simulated]
    kernels: Once[KernelCache]
    sources: Once[dict[str, str]]
    origins: Once[OriginIndex]

    @staticmethod
    def of(request: Request) -> Stages:
        return _begun(request, {})

    def changed(self, request: Request, options: Collection[str]) -> Stages:
        """The stages of a request in which these options differ; unaffected stages are shared, also if they are not
        made yet."""
        stale = _touched_by(options)
        stale -= {stage.artefact for stage in _ALL if stage.artefact in stale and self._stays(stage, stale)}
        return _begun(request, {each.name: getattr(self, each.name) for each in fields(self) if each.name not in stale})

    def _stays(self, stage: Stage, stale: Collection[str]) -> bool:
        """Whether the artefact is known to stay the same in spite of the changes; an input that is not made yet leaves
        this unknown."""
        if stage.stays is None or not set(stage.inputs).isdisjoint(stale):
            return False
        inputs: list[Once[Any]] = [getattr(self, name) for name in stage.inputs]
        return all(each.made for each in inputs) and stage.stays(*(each() for each in inputs))

    @staticmethod
    def loaded(request: Request, found: Archive) -> Stages:
        """The stages of a file, made as far as the file has them."""
        scheduled = found.scheduled
        kept = tuple(planning.common_memory_plan.residents(scheduled, scheduled.residence))
        lie = tuple(planning.chiplet_plan.placed(scheduled))
        titles = views.titles.kernel_titles(found.lowered)
        shared = views.titles.scheduled_titles(found.lowered, scheduled)
        launched = simulating.simulate.launched(found.lowered, scheduled)
        trace = replace(found.trace, launches=launched, asked={"residents": kept, "placed": lie})
        rendered = Rendered(found.rendered, functions.hosts_of(found.lowered), titles, request.held)
        planned = Scheduled(scheduled, found.lowered, found.rendered, shared)
        # a new plan replaces the old one, but not the tiles that were made for what the old one serves
        serves = planning.common_memory_plan.served(scheduled)
        tiled = dict[str, object]() if serves else dict[str, object](tiled=planned)
        made: dict[str, object] = {
            "captured": Captured(found.lowered.captured),
            "rewritten": Rewritten(found.lowered.captured, found.lowered.rewrites),
            "grouped": functions.Grouped(found.lowered, found.rendered),
            "lowered": Lowered(found.lowered),
            "imported": rendered,
            "rendered": rendered,
            "scheduled": planned,
            "simulated": Simulated(trace, scheduled, found.lowered),
            "sources": found.sources,
            **tiled,
        }
        names = {stage.artefact: stage.name for stage in _ALL}
        last = {name: artefact for artefact, name in names.items()}
        took = {last[name]: seconds for name, seconds in found.seconds.items() if name in last}
        return _begun(
            request, {name: Once(names[name], _given(each)).keep(took.get(name)) for name, each in made.items()}
        )

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds of every stage from PyTorch to the timeline that has run, by name and in order."""
        took: dict[str, float] = {}
        for stage in STAGES:
            once: Once[Any] = getattr(self, stage.artefact)
            if once.seconds is not None:
                took[stage.name] = took.get(stage.name, 0.0) + once.seconds
        return took


_ALL: Final = (*STAGES, *BESIDE)


def _begun(request: Request, shared: Mapping[str, Once[Any]]) -> Stages:
    """The stages of a request, with those that are shared."""
    made: dict[str, Any] = {}
    for stage in _ALL:
        made[stage.artefact] = shared.get(stage.artefact) or stage.once(request, made)
    return Stages(**made)


def _touched_by(options: Collection[str]) -> set[str]:
    """The artefacts that these options change: of the stages that read them first, and all that depend on these."""
    touched = set[str]()
    for stage in _ALL:
        if not touched.isdisjoint(stage.inputs) or not set(options).isdisjoint(stage.options):
            touched.add(stage.artefact)
    return touched


def _given(artefact: object) -> Callable[[], object]:
    return lambda: artefact
