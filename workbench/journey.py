"""The journey: one function on its way through the stages, with every artefact on the way.

A journey is immutable and lazy. Each stage runs when it is first asked for and is kept; `with_` makes a new journey
that shares the stages which the change does not touch.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, cast, final

import templates
from simulator import Machine, load_machine, machine_names
from simulator.files import replace_file
from workbench import __version__, ir, mlir, ops, stages, views
from workbench.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated
from workbench.check import Check
from workbench.comparison import Comparison
from workbench.errors import BadOption, HostRoute, NoData, NoFunction, not_yet
from workbench.ir import AtenGraph, KernelGraph, TensorType
from workbench.pipeline import GraphCall, Request, Stages, rendered_of, scheduled_of, simulated_of
from workbench.progress import waiting

if TYPE_CHECKING:
    import torch

    from workbench.mlir.runtime import NativeProgram
    from workbench.mlir.user_mapping import UserMapping
    from workbench.mlir.user_passes import UserPasses
    from workbench.ops.choices import UserFusion
    from workbench.ops.compare import Pair
    from workbench.ops.registry import Registrations
    from workbench.stages.capture import CapturedProgram
    from workbench.views.selection import Selection

T = TypeVar("T")

ops.registry.DEFAULT.fill_from(templates.builtin)


@final
class _Keep:
    """The value of an option that `with_` leaves as it is."""

    def __repr__(self) -> str:
        return "unchanged"


KEEP: Final = _Keep()


class CompileOptions(TypedDict, total=False):
    """What `torch.compile(backend="npu", options=...)` takes: the options of `wb.trace` that mean something there."""

    machine: str | Machine
    on_missing: str
    mapping: Mapping[str, UserMapping] | None
    prefer: str | None


_RANDOM: Final = (
    "two runs in PyTorch disagree as well: the function draws random numbers, and no two runs draw the same. To "
    "compare, switch that off, e.g. model.eval() or a dropout of 0"
)

_TIES: Final = (
    "PyTorch leaves open which of equal elements {ops} names: where values are equal, another place is no error. To "
    "compare places, give values that all differ, or use a stable sort"
)
_NAMES_ANY_OF_EQUALS: Final = frozenset({"aten.topk.default", "aten.kthvalue.default", "aten.median.dim"})

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
        program = self._program("run")
        values = self._with_data("run", program.values(inputs, kwargs))
        if program.parts:
            return self._run_parts("scheduled", inputs, kwargs or {})
        return program.returned(values, self._native("scheduled").run(values))

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
        program = self._program("check")
        if not inputs and kwargs is None:
            inputs, kwargs = self._request.inputs, self._request.kwargs
        values = self._with_data("check", program.values(inputs, kwargs))
        count = sum(slot.kind == "user" for slot in program.graph.inputs)
        user, held = values[:count], values[count:]
        with waiting("check"):
            pairs = self._pairs_of_parts(stage, user) if program.parts else self._pairs(stage, user, held)
            check = Check(stage, ops.compare.compare(pairs, rtol=rtol, atol=atol))
            return check if check.ok or program.parts else replace(check, hint=self._hint(check, user, held))

    def _hint(self, check: Check, user: list[torch.Tensor], held: list[torch.Tensor]) -> str:
        """What is known about a failure: places of equals are open, and random functions disagree with themselves."""
        open_ops = sorted({node.op for node in self.captured.record.nodes} & _NAMES_ANY_OF_EQUALS)
        if open_ops and all(result.ok or "i64" in result.type for result in check.results):
            return _TIES.format(ops=" or ".join(op.split(".")[1] for op in open_ops))
        graph, pair = self.captured.record, ops.compare.Pair
        first, second = (ops.reference.reference(self._eager, graph, user, held).outputs for _ in range(2))
        twice = [pair(name, a, b, graph.types[name]) for name, a, b in zip(graph.outputs, first, second, strict=True)]
        return "" if all(each.ok for each in ops.compare.compare(twice)) else _RANDOM

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
        expected = ops.reference.reference(self._eager, graph, user, held)
        if stage == "captured":
            got = ops.execute.execute(graph, values, self._registered())
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

    def _run_parts(self, stage: str, inputs: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Runs a callable that is broken up, its graphs as `stage` has them."""
        parts = self._program("run").parts
        assert parts is not None

        def part(graph: AtenGraph) -> ops.parts.Run:
            if stage == "captured":
                return partial(ops.execute.execute_in_place, graph, registrations=self._registered())
            return self._native(stage, ops.parts.part_of(self.lowered.record, graph)).run

        def other(gm: torch.fx.GraphModule, given: tuple[object, ...]) -> ops.parts.Run:
            journey = of_graph(gm, given, {"machine": self.machine, "on_missing": self._request.on_missing})
            program, native = journey._program("run"), journey.compiled()
            return lambda tensors: program.outputs([*tensors, *program.live()], native.run)

        return parts.run(part, other, tuple(inputs), kwargs)

    def _pairs_of_parts(self, stage: str, user: list[torch.Tensor]) -> list[Pair]:
        """All that a call of a broken-up callable gives and changes, beside what PyTorch's does."""
        program, graph = self._program("check"), self.captured.record
        paths = [slot.path for slot in graph.inputs]

        def called(call: Callable[[list[torch.Tensor]], object]) -> list[tuple[str, torch.Tensor, TensorType]]:
            given, held = ops.memory.copies(user), program.live()
            with ops.memory.put_back(held):
                result = call(given)
                return ops.parts.leaves(result, list(zip(paths, [*given, *held], strict=True)))

        mine = called(lambda given: self._run_parts(stage, *program.arguments(given)))
        theirs = called(lambda given: ops.reference.computed(self._eager, graph, given))
        return [
            ops.compare.Pair(name, got, expected, kind)
            for (name, got, kind), (_, expected, _) in zip(mine, theirs, strict=True)
        ]

    def _eager(self, leaves: Sequence[torch.Tensor]) -> object:
        """Calls the user's own function."""
        assert self._request.target is not None
        arguments, keywords = self._program("check").arguments(leaves)
        return self._request.target(*arguments, **keywords)

    def _native(self, stage: str, part: KernelGraph | None = None) -> NativeProgram:
        """All kernels, or those of a part of the graph, as a program."""
        program, cache = mlir.runtime.NativeProgram, self._stages.kernels()
        lowered, known = part or self.lowered.record, self._registered()
        hosts, unproven = ops.host.functions(lowered, known), ops.proven.unproven(lowered, known)
        if stage == "rendered":
            return program.from_rendered(lowered, self.rendered.record, cache, hosts, unproven)
        changed = [kernel.kernel for kernel in self.scheduled.record.kernels] if self._request.passes else []
        changed += [*(self._request.schedule or {})]
        unproven |= ops.proven.changed(self.lowered.record, self.scheduled.record, changed)
        return program.from_scheduled(lowered, self.scheduled.record, cache, hosts, unproven)

    def _registered(self) -> Registrations:
        return self._request.registrations or ops.registry.DEFAULT.now()

    def _program(self, what: str) -> CapturedProgram:
        program = self.captured.program
        if program is None:
            raise NoFunction(self._request.path, what)
        return program

    def with_(
        self,
        *,
        machine: str | Machine | _Keep = KEEP,
        mapping: Mapping[str, UserMapping] | _Keep | None = KEEP,
        fusion: UserFusion | _Keep = KEEP,
        schedule: Mapping[str, str] | _Keep | None = KEEP,
        passes: UserPasses | _Keep | None = KEEP,
    ) -> Journey:
        """The journey with something changed, sharing every stage that the change does not touch.

        `mapping=None` goes back to the heuristic's choice. `fusion` turns fusion rules off by name
        (`{"off": ["product epilogue"]}`, or all of them: `"none"`) or keeps nodes in different kernels
        (`[("linear", "gelu")]`). `schedule` has transform scripts by kernel, each an edited
        `j.scheduled.kernels[i].schedule`; it takes the place of the mapping's own, whose number of buffers stays.
        `passes` are pipelines that run after steps of `j.scheduled.kernels[i].passes`, by the steps' names:
        `{"fuse elementwise": "canonicalize"}`; `wb.mlir_pass` makes passes of Python functions.
        """
        asked = self._request
        request = replace(
            asked,
            machine=asked.machine if isinstance(machine, _Keep) else _machine(machine),
            mapping=asked.mapping if isinstance(mapping, _Keep) else _checked_mapping(mapping),
            schedule=asked.schedule if isinstance(schedule, _Keep) else deepcopy(schedule),
            passes=asked.passes if isinstance(passes, _Keep) else deepcopy(passes),
            fusion=asked.fusion if isinstance(fusion, _Keep) else deepcopy(fusion),
        )
        if request.fusion != asked.fusion:
            return Journey(request, self._stages.relowered(request))
        if any(getattr(request, name) != getattr(asked, name) for name in ("machine", "mapping", "schedule", "passes")):
            return Journey(request, self._stages.rescheduled(request))
        return self

    def select(self, x: object) -> Selection:
        """One thing seen at every stage: its nodes, kernels, lines of MLIR, instructions, spans and lines of Python.

        `x` is one of these, or anything that a selection holds:

        - a node or an op: `"linear_1"`, `"aten.linear.default"`, `"linear"`
        - a kernel, `"k0_linear"`, or an `nn.Module` by its path, `"encoder.fc1"`
        - a line of Python: `"model.py:12"`, or the text of the line
        - a line of scheduled MLIR: `(kernel, line)` or `"kernel:12"`; a pair always means a line
        - an instruction: `wb.InstructionAt(kernel, 3)` or `"kernel#3"`
        - a span: a row of `j.simulated.events`, or its number
        """
        return views.selection.select(self._stages.origins(), x)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the whole journey, without weights and inputs, to one file that `wb.load` opens without PyTorch.

        What has not run yet runs now. The file is written all or nothing.
        """
        request = self._request
        asked = ir.archive.Asked(
            request.capture,
            request.on_missing,
            request.prefer,
            *map(_as_json, (request.mapping, request.fusion, request.schedule, request.passes)),
        )
        whole = ir.archive.Archive(
            asked,
            self.lowered.record,
            self.rendered.record,
            self.scheduled.record,
            self.simulated.record,
            self._stages.sources(),
            self.seconds,
        )
        ir.archive.save(path, whole, made_by=f"aten-workbench {__version__}")

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline for ui.perfetto.dev: a track a unit, real time, cycles in each event's arguments."""
        simulated = self.simulated
        _write(path, views.perfetto.perfetto_text(simulated.record, simulated.scheduled.launches))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the whole journey as one page that opens from disk, without network, script or Python."""
        simulated = self.simulated
        facts = {
            "machine": self.machine.name,
            "cycles": f"{simulated.cycles:,}",
            "µs": f"{simulated.time_us:,.2f}",
            "kernels": str(len(self.lowered.record.kernels)),
            "ATen calls": str(len(self.captured.record.nodes)),
        }
        stages = (self.captured, self.lowered, self.rendered, self.scheduled, simulated)
        bodies = [stage.body_html() for stage in stages]
        title = f"{self.captured.record.name} on {self.machine.name}"
        _write(path, views.journey_html.journey_page(title, facts, self._stages.sources(), bodies))

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
    fusion: UserFusion = None,
    prefer: str | None = None,
    train: bool = False,
) -> Journey:
    """Captures one call of a function or module, and returns the journey from there to the timeline.

    `capture` is `dynamo` (reads the bytecode: closures, data structures) or `export` (`torch.export`). `machine` is a
    shipped machine's name (`wb.machines()`), a file (`mine.toml`) or a `wb.machine(...)`. `mapping` tiles by hand:
    `{kernel_name or "*": {"tile": {dim: size}, "order": [dims], "buffers": slots}}`. `fusion` turns fusions off, as in
    `Journey.with_`. `on_missing` says what becomes of ops that no route makes: `host` lets PyTorch compute them, with a
    warning and at the price of the host link, `error` refuses. `prefer` names the dialect whose builders are taken
    where an op has several.
    """
    if on_missing not in ("host", "error"):
        raise BadOption(f"on_missing={on_missing!r} is unknown; expected 'host' or 'error'")
    if train:
        raise not_yet("train=True", "Forward passes without gradients work.")
    given = MappingProxyType(dict(kwargs or {}))
    request = Request(
        fn_or_module,
        inputs,
        given,
        _machine(machine),
        capture,
        on_missing,
        _checked_mapping(mapping),
        deepcopy(fusion),
        prefer=prefer,
    )
    made = Stages.of(request)
    _ = made.captured(), made.sources()
    journey = Journey(request, made)
    breaks = ops.host.break_texts(journey.lowered.record, journey.captured.breaks)
    for told in filter(None, [ops.host.warning_text(journey.lowered.record), *breaks]):
        warnings.warn(told, HostRoute, stacklevel=2)
    return journey


def load(path: str | os.PathLike[str]) -> Journey:
    """The journey that `j.save(path)` wrote. Neither PyTorch nor MLIR is needed to open, read and simulate it.

    It can be looked at and selected in like any other. `wb.simulate(j.lowered, j.scheduled, machine=...)` simulates it
    again, on any machine that its tiles fit. `with_` works from the records and needs MLIR, but not the function; `run`
    and `check` need the function and are refused.
    """
    found = ir.archive.load(path)
    asked, none = found.asked, MappingProxyType(dict[str, object]())
    request = Request(
        None,
        (),
        none,
        found.machine,
        asked.capture,
        asked.on_missing,
        prefer=asked.prefer,
        registrations=None,
        path=str(path),
    )
    texts = (asked.mapping, asked.fusion, asked.schedule, asked.passes)
    mapping, fusion, schedule, passes = map(json.loads, texts)
    request = replace(request, mapping=mapping, fusion=fusion, schedule=schedule, passes=passes)
    return Journey(request, Stages.loaded(found))


def of_graph(module: torch.fx.GraphModule, inputs: tuple[object, ...], options: CompileOptions) -> Journey:
    """The journey of a graph that Dynamo has made: what `torch.compile(backend="npu")` runs."""
    for name in options:
        if name not in CompileOptions.__annotations__:
            known = ", ".join(CompileOptions.__annotations__)
            raise BadOption(f"torch.compile(backend='npu') has no option {name!r}; its options are {known}")
    request = Request(
        GraphCall(module),
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
    captured: Captured | AtenGraph, *, on_missing: str = "host", fusion: UserFusion = None, prefer: str | None = None
) -> Lowered:
    """The second stage alone."""
    graph = captured.record if isinstance(captured, Captured) else captured
    return Lowered(stages.lower.lower(graph, on_missing=on_missing, fusion=fusion, prefer=prefer))


def render(lowered: Lowered | KernelGraph) -> Rendered:
    """The third stage alone."""
    return rendered_of(lowered.record if isinstance(lowered, Lowered) else lowered)


def schedule(
    lowered: Lowered,
    rendered: Rendered,
    *,
    machine: str | Machine = "tpu-v3",
    mapping: Mapping[str, UserMapping] | None = None,
    scripts: Mapping[str, str] | None = None,
) -> Scheduled:
    """The fourth stage alone. `scripts` are transform scripts by kernel."""
    none = MappingProxyType(dict[str, object]())
    request = Request(None, (), none, _machine(machine), mapping=mapping, schedule=scripts)
    return scheduled_of(lowered.record, rendered.record, request)


def simulate(lowered: Lowered, scheduled: Scheduled, *, machine: str | Machine = "tpu-v3") -> Simulated:
    """The fifth stage alone."""
    return simulated_of(lowered.record, scheduled.record, _machine(machine))


def machine(name: str | os.PathLike[str], **overrides: int | float | str) -> Machine:
    """A shipped machine, or one of a TOML file, with some of its figures replaced.

    `wb.machine("tpu-v3", vector_lanes=64)`, `wb.machine("mine.toml")`.
    """
    return load_machine(name, **overrides)


def machines() -> tuple[str, ...]:
    """Names of the shipped machines."""
    return machine_names()


def _checked_mapping(given: Mapping[str, UserMapping] | None) -> Mapping[str, UserMapping] | None:
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


def _machine(given: object) -> Machine:
    if isinstance(given, Machine):
        return given
    if not isinstance(given, str | os.PathLike):
        raise BadOption(
            f"machine={given!r} is no machine; expected a name of wb.machines(), a file like 'mine.toml' or a "
            "wb.machine(...)"
        )
    return load_machine(cast("str | os.PathLike[str]", given))


def compare(*journeys: Journey, names: Sequence[str] | None = None) -> Comparison:
    """Journeys side by side: cycles, time, bytes, kernels and stalls. The first is what ratios refer to.

    They may be on different machines, or of different functions. `names` are theirs in the table; without them they
    are told apart by their machines, where these differ, else by number.
    """
    if not journeys:
        raise BadOption("wb.compare takes one journey or more: wb.compare(j, j.with_(machine='edge-8x8'))")
    if names is not None and (len(names) != len(journeys) or len(set(names)) != len(names)):
        raise BadOption(f"names={list(names)!r}: expected {len(journeys)} different names, one a journey")
    for journey in journeys:
        if not isinstance(journey, Journey):  # pyright: ignore[reportUnnecessaryIsInstance] - what a user passes
            raise BadOption(f"wb.compare was given {journey!r}; it takes journeys, as wb.trace makes them")
    called = tuple(names) if names is not None else _names(journeys)
    return Comparison(views.compare.Compared(called, tuple(journey.simulated.record for journey in journeys)))


def _names(journeys: Sequence[Journey]) -> tuple[str, ...]:
    machines = [journey.machine.name for journey in journeys]
    functions = [journey.captured.record.name for journey in journeys]
    for names in (machines, functions, [f"{f} on {m}" for f, m in zip(functions, machines, strict=True)]):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"j{number}" for number in range(1, len(journeys) + 1))


def _write(path: str | os.PathLike[str], text: str) -> None:
    replace_file(path, text.encode("utf-8"))


def _as_json(option: object) -> str:
    return json.dumps(option, sort_keys=True)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
