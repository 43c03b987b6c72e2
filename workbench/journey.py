"""The journey: the only file that knows the order of the stages. It keeps every artefact on the way.

A journey is immutable and lazy. Each stage runs when it is first asked for and is kept; `with_` makes a new journey
that shares the stages which the change does not touch.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypedDict, TypeVar, cast, final

import templates
from simulator import Machine, load_machine, machine_names
from workbench import mlir, ops, stages
from workbench.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated
from workbench.check import Check
from workbench.errors import BadOption, HostRoute, NoData, not_yet
from workbench.ir import HOST, AtenGraph, KernelGraph, KernelModule, ScheduledProgram
from workbench.progress import waiting

if TYPE_CHECKING:
    import torch

    from workbench.mlir.runtime import KernelCache, NativeProgram
    from workbench.mlir.user_mapping import UserMapping
    from workbench.ops.compare import Pair
    from workbench.ops.registry import Registrations
    from workbench.stages.capture import CapturedProgram

T = TypeVar("T")

ops.registry.DEFAULT.fill_from(templates.builtin)


@final
class _Keep:
    """The value of an option that `with_` leaves as it is."""

    def __repr__(self) -> str:
        return "unchanged"


KEEP: Final = _Keep()


class Once(Generic[T]):
    """A value that is made when it is first asked for, and the seconds this took."""

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self.name, self._make = name, make
        self._made: list[T] = []
        self.seconds: float | None = None

    def __call__(self) -> T:
        if not self._made:
            with waiting(self.name):
                began = time.perf_counter()
                self._made.append(self._make())
                self.seconds = time.perf_counter() - began
        return self._made[0]


@dataclass(frozen=True)
class _Graph:
    """A graph that Dynamo has made, as the callable of a journey."""

    module: torch.fx.GraphModule

    def __call__(self, *inputs: object) -> object:
        return cast("object", self.module(*inputs))


@dataclass(frozen=True)
class Request:
    """What a journey was asked for."""

    target: Callable[..., object]
    inputs: tuple[object, ...]
    kwargs: Mapping[str, object]
    machine: Machine
    capture: str = "dynamo"
    on_missing: str = "host"
    mapping: Mapping[str, UserMapping] | None = None
    fusion: object = None
    prefer: str | None = None
    registrations: Registrations = field(default_factory=lambda: ops.registry.DEFAULT.now())
    """What was registered when the journey was asked for; later changes do not reach it."""


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

    @staticmethod
    def of(request: Request) -> Stages:
        captured = Once("capture", lambda: _capture(request))
        lowered = Once("lower", lambda: _lower(captured().record, request))
        rendered = Once("render", lambda: _render(lowered().record, request.registrations))
        kernels = Once("compile", lambda: mlir.runtime.KernelCache(mlir.native_store.default_native_store()))
        return Stages._scheduled(request, captured, lowered, rendered, kernels)

    def rescheduled(self, request: Request) -> Stages:
        """The same capture, lowering and rendering, whether made already or not; the rest anew."""
        return Stages._scheduled(request, self.captured, self.lowered, self.rendered, self.kernels)

    @staticmethod
    def _scheduled(
        request: Request,
        captured: Once[Captured],
        lowered: Once[Lowered],
        rendered: Once[Rendered],
        kernels: Once[KernelCache],
    ) -> Stages:
        scheduled = Once(
            "schedule",
            lambda: _schedule(
                lowered().record, rendered().record, request.machine, request.mapping, request.registrations
            ),
        )
        simulated = Once("simulate", lambda: _simulate(lowered().record, scheduled().record, request.machine))
        return Stages(captured, lowered, rendered, scheduled, simulated, kernels)

    def all(self) -> tuple[Once[Captured], Once[Lowered], Once[Rendered], Once[Scheduled], Once[Simulated]]:
        return self.captured, self.lowered, self.rendered, self.scheduled, self.simulated


def _capture(request: Request) -> Captured:
    if isinstance(request.target, _Graph):
        program = stages.capture.capture_graph(request.target.module, request.inputs, request.registrations)
        return Captured(program.graph, program)
    program = stages.capture.capture(
        request.target,
        request.inputs,
        request.kwargs,
        mode=request.capture,
        registrations=request.registrations,
    )
    return Captured(program.graph, program)


def _lower(graph: AtenGraph, request: Request) -> Lowered:
    made = stages.lower.lower(
        graph,
        on_missing=request.on_missing,
        fusion=request.fusion,
        prefer=request.prefer,
        registrations=request.registrations,
    )
    return Lowered(made)


def _render(lowered: KernelGraph, registrations: Registrations | None = None) -> Rendered:
    hosts = tuple(kernel for kernel in lowered.kernels if kernel.kind == HOST)
    return Rendered(stages.render.render(lowered, registrations), hosts)


def _schedule(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    machine: Machine,
    mapping: Mapping[str, UserMapping] | None,
    registrations: Registrations | None = None,
) -> Scheduled:
    store = mlir.kernel_store.default_store()
    return Scheduled(stages.schedule.schedule(lowered, rendered, machine, mapping, store, registrations))


def _simulate(lowered: KernelGraph, scheduled: ScheduledProgram, machine: Machine) -> Simulated:
    return Simulated(stages.simulate.simulate(scheduled, machine), scheduled, lowered)


class CompileOptions(TypedDict, total=False):
    """What `torch.compile(backend="npu", options=...)` takes: the options of `wb.trace` that mean something there."""

    machine: str | Machine
    on_missing: str
    mapping: Mapping[str, UserMapping] | None
    prefer: str | None


CHECKED_STAGES: Final = ("captured", "rendered", "scheduled")


@dataclass(frozen=True, eq=False)
class Journey:
    """One function on its way from PyTorch to the timeline. Made by `wb.trace`."""

    _request: Request
    _stages: Stages

    @property
    def captured(self) -> Captured:
        """What the function asks of ATen."""
        return self._stages.captured()

    @property
    def lowered(self) -> Lowered:
        """Every node routed and grouped into kernels."""
        return self._stages.lowered()

    @property
    def rendered(self) -> Rendered:
        """Every kernel as MLIR on whole tensors."""
        return self._stages.rendered()

    @property
    def scheduled(self) -> Scheduled:
        """Every kernel as loops over scratchpad tiles."""
        return self._stages.scheduled()

    @property
    def simulated(self) -> Simulated:
        """The timeline on the machine."""
        return self._stages.simulated()

    @property
    def machine(self) -> Machine:
        return self._request.machine

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds of every stage that has run. A stage shared with another journey shows what it took there."""
        return {stage.name: stage.seconds for stage in self._stages.all() if stage.seconds is not None}

    def run(self, *inputs: object, kwargs: Mapping[str, object] | None = None) -> object:
        """Runs the scheduled MLIR natively and returns what the function returns.

        Weights and closed-over tensors are read as they are now; what the function changes in place is changed.
        """
        program = self._program()
        values = self._with_data("run", program.flatten(inputs, kwargs or {}) + program.live())
        return program.rebuild(self._native("scheduled").run(values))

    def check(
        self,
        *inputs: object,
        kwargs: Mapping[str, object] | None = None,
        stage: str = "scheduled",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Check:
        """Compares a stage's numbers with PyTorch's, on these inputs or, when there are none, on the traced ones.

        `captured` runs the record with PyTorch, `rendered` the MLIR before scheduling, `scheduled` the tiled loops.
        Nothing the function would change is changed.
        """
        if stage not in CHECKED_STAGES:
            raise BadOption(f"stage={stage!r} cannot be checked; the stages with numbers are {_listed(CHECKED_STAGES)}")
        if not inputs and kwargs is None:
            inputs, kwargs = self._request.inputs, self._request.kwargs
        program = self._program()
        user, held = program.flatten(inputs, kwargs or {}), program.live()
        self._with_data("check", [*user, *held])
        with waiting("check"):
            pairs = self._pairs(stage, user, held)
        return Check(stage, ops.compare.compare(pairs, rtol=rtol, atol=atol))

    def compiled(self) -> NativeProgram:
        """The native program of `run`, for callers that flatten inputs and rebuild results themselves."""
        return self._native("scheduled")

    def _with_data(self, asked: str, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The values, if all of them hold numbers."""
        slots = self.captured.record.inputs
        empty = [slot.path for slot, value in zip(slots, values, strict=True) if value.is_meta]
        if empty:
            shown = ", ".join(empty[:4]) + (f" and {len(empty) - 4} more" if len(empty) > 4 else "")
            raise NoData(
                f"{self.captured.record.name} cannot {asked}: {shown} lie on the meta device, which has shapes and no "
                f"numbers. Everything but run and check works without them; for these, trace again with the model "
                f"and its inputs on the CPU, e.g. model.to_empty(device='cpu') and load its weights"
            )
        return values

    def _pairs(self, stage: str, user: list[torch.Tensor], held: list[torch.Tensor]) -> list[Pair]:
        """Outputs and mutated inputs, each as this stage makes it beside what PyTorch makes."""
        graph, pair = self.captured.record, ops.compare.Pair
        changed = {change.target for change in graph.mutations}
        values = [
            value.detach().clone() if slot.value in changed else value
            for slot, value in zip(graph.inputs, [*user, *held], strict=True)
        ]
        expected = ops.reference.reference(self._request.target, graph, user, held)
        if stage == "captured":
            got = ops.execute.execute(graph, values, self._request.registrations)
        else:
            outputs = self._native(stage).run(values)
            after = {slot.value: value for slot, value in zip(graph.inputs, values, strict=True)}
            got = ops.execute.Executed(outputs, {name: after[name] for name in changed})
        paths = {slot.value: slot.path for slot in graph.inputs}
        pairs = [
            pair(name, mine, theirs, graph.types[name])
            for name, mine, theirs in zip(graph.outputs, got.outputs, expected.outputs, strict=True)
        ]
        return pairs + [
            pair(paths[name], got.mutated[name], expected.mutated[name], graph.types[name]) for name in sorted(changed)
        ]

    def _native(self, stage: str) -> NativeProgram:
        program, cache = mlir.runtime.NativeProgram, self._stages.kernels()
        hosts = ops.host.functions(self.lowered.record, self._request.registrations)
        if stage == "rendered":
            return program.from_rendered(self.lowered.record, self.rendered.record, cache, hosts)
        return program.from_scheduled(self.lowered.record, self.scheduled.record, cache, hosts)

    def _program(self) -> CapturedProgram:
        program = self.captured.program
        assert program is not None, "a traced journey holds its function"
        return program

    def with_(
        self,
        *,
        machine: str | Machine | _Keep = KEEP,
        mapping: Mapping[str, UserMapping] | _Keep | None = KEEP,
        fusion: object = KEEP,
        schedule: object = KEEP,
    ) -> Journey:
        """A new journey with another machine or mapping; capture, lowering and rendering are shared.

        `mapping=None` goes back to the heuristic's choice.
        """
        if fusion is not KEEP:
            raise not_yet("with_(fusion=...)")
        if schedule is not KEEP:
            raise not_yet("with_(schedule=...)", "Use with_(mapping=...).")
        request = self._request
        if not isinstance(machine, _Keep):
            request = replace(request, machine=_machine(machine))
        if not isinstance(mapping, _Keep):
            request = replace(request, mapping=mapping)
        return Journey(request, self._stages.rescheduled(request))

    def select(self, what: object) -> object:
        raise not_yet("j.select")

    def save(self, path: str) -> None:
        raise not_yet("j.save", "j.captured.record.to_json() saves the captured graph.")

    def to_perfetto(self, path: str) -> None:
        raise not_yet("j.to_perfetto", "j.simulated.events is the timeline as a DataFrame.")

    def to_html(self, path: str) -> None:
        raise not_yet("j.to_html", "Each artefact has its own .html().")

    def __repr__(self) -> str:
        done = ", ".join(self.seconds) or "nothing yet"
        return f"Journey({self.captured.record.name!r} on {self.machine.name}; done: {done})"


def trace(
    fn_or_module: Callable[..., object],
    /,
    *inputs: object,
    kwargs: Mapping[str, object] | None = None,
    machine: str | Machine = "tpu-v3",
    capture: str = "dynamo",
    on_missing: str = "host",
    mapping: Mapping[str, UserMapping] | None = None,
    fusion: object = None,
    prefer: str | None = None,
    train: bool = False,
) -> Journey:
    """Captures one call of a function or module, and returns the journey from there to the timeline.

    `capture` is `dynamo` (reads the bytecode: closures, data structures) or `export` (`torch.export`). `machine` is a
    shipped machine's name (`wb.machines()`) or a `wb.machine(name, figure=value)`. `mapping` tiles by hand:
    `{kernel_name or "*": {"tile": {dim: size}, "order": [dims], "buffers": slots}}`. `on_missing` says what becomes of
    ops that no route makes: `host` lets PyTorch compute them, with a warning and at the price of the host link, `error`
    refuses. `prefer` names the dialect whose builders are taken where an op has several.
    """
    if on_missing not in ("host", "error"):
        raise BadOption(f"on_missing={on_missing!r} is unknown; expected 'host' or 'error'")
    if train:
        raise not_yet("train=True", "Forward passes without gradients work.")
    given = MappingProxyType(dict(kwargs or {}))
    request = Request(fn_or_module, inputs, given, _machine(machine), capture, on_missing, mapping, fusion, prefer)
    journey = Journey(request, Stages.of(request))
    if told := ops.host.warning_text(journey.lowered.record):
        warnings.warn(told, HostRoute, stacklevel=2)
    return journey


def of_graph(module: torch.fx.GraphModule, inputs: tuple[object, ...], options: CompileOptions) -> Journey:
    """The journey of a graph that Dynamo has made: what `torch.compile(backend="npu")` runs."""
    for name in options:
        if name not in CompileOptions.__annotations__:
            known = ", ".join(CompileOptions.__annotations__)
            raise BadOption(f"torch.compile(backend='npu') has no option {name!r}; its options are {known}")
    request = Request(
        _Graph(module),
        inputs,
        MappingProxyType(dict[str, object]()),
        _machine(options.get("machine", "tpu-v3")),
        on_missing=options.get("on_missing", "host"),
        mapping=options.get("mapping"),
        prefer=options.get("prefer"),
    )
    return Journey(request, Stages.of(request))


def capture(
    fn_or_module: Callable[..., object],
    /,
    *inputs: object,
    kwargs: Mapping[str, object] | None = None,
    capture: str = "dynamo",
) -> Captured:
    """The first stage alone."""
    program = stages.capture.capture(fn_or_module, inputs, kwargs, mode=capture)
    return Captured(program.graph, program)


def lower(
    captured: Captured | AtenGraph, *, on_missing: str = "host", fusion: object = None, prefer: str | None = None
) -> Lowered:
    """The second stage alone."""
    graph = captured.record if isinstance(captured, Captured) else captured
    return Lowered(stages.lower.lower(graph, on_missing=on_missing, fusion=fusion, prefer=prefer))


def render(lowered: Lowered | KernelGraph) -> Rendered:
    """The third stage alone."""
    return _render(lowered.record if isinstance(lowered, Lowered) else lowered)


def schedule(
    lowered: Lowered,
    rendered: Rendered,
    *,
    machine: str | Machine = "tpu-v3",
    mapping: Mapping[str, UserMapping] | None = None,
) -> Scheduled:
    """The fourth stage alone."""
    return _schedule(lowered.record, rendered.record, _machine(machine), mapping)


def simulate(lowered: Lowered, scheduled: Scheduled, *, machine: str | Machine = "tpu-v3") -> Simulated:
    """The fifth stage alone."""
    return _simulate(lowered.record, scheduled.record, _machine(machine))


def machine(name: str, **overrides: int | float | str) -> Machine:
    """A shipped machine, with some of its figures replaced: `wb.machine("tpu-v3", vector_lanes=64)`."""
    return load_machine(name, **overrides)


def machines() -> tuple[str, ...]:
    """Names of the shipped machines."""
    return machine_names()


def _machine(given: str | Machine) -> Machine:
    return load_machine(given) if isinstance(given, str) else given


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
