"""The journey: one function on its way through the stages, with every artefact on the way.

A journey is immutable and lazy. Each stage runs at its first use and is kept; `with_` makes a new journey that shares
the stages which the change does not touch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn, cast, final

from simulator import Machine
from simulator.files.versioned_files import replace_file
from workbench.checking.check_report import Check
from workbench.explaining.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated
from workbench.explaining.artefacts.pictures import widgets
from workbench.explaining.views.pages import journey_html
from workbench.explaining.views.selections import lookup, selection_model
from workbench.explaining.views.timelines import perfetto
from workbench.exploring.summary import MOST_SPANS, name_of, overview
from workbench.exploring.tuning.tuning_budget import BUDGET
from workbench.ground.basics.shown import Shown
from workbench.ground.environment.registered import PASSES
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, NotCopied
from workbench.ground.version import VERSION
from workbench.ir import archive
from workbench.lowering.product_room import counts
from workbench.stages.journey_request import Request
from workbench.stages.option_checks import warn_without_common_memory
from workbench.stages.options import checked_options, options_among
from workbench.stages.pipeline import Stages
from workbench.stages.run_and_check import Computing

if TYPE_CHECKING:
    from markupsafe import Markup

    from workbench.explaining.findings.findings_answer import Findings
    from workbench.explaining.views.pages.overview import Overview
    from workbench.explaining.views.selections.selection import Selection
    from workbench.explaining.views.selections.selection_model import SelectionModel
    from workbench.exploring.advice import Advice
    from workbench.exploring.knobs import Experiment, Knobs
    from workbench.exploring.tuning.map_space import MapSpace
    from workbench.exploring.tuning.measured import Executor
    from workbench.exploring.tuning.tuning_answer import Tuning
    from workbench.lowering.fusion_options import UserFusion
    from workbench.lowering.layout_options import UserLayout
    from workbench.running.run_program import NativeProgram
    from workbench.scheduling.passes.wanted_passes import UserPasses
    from workbench.scheduling.user_mapping import UserMapping


@final
class _Keep:
    """The value of an option that `with_` does not change."""

    def __repr__(self) -> str:
        return "unchanged"


KEEP: Final = _Keep()


@dataclass(frozen=True, eq=False)
class Journey(Shown):
    """A function on its way from PyTorch to the timeline. `wb.trace` makes it."""

    _request: Request
    _stages: Stages
    _checks: dict[str, Check] = field(default_factory=dict[str, Check])
    """The last answer of `check` by stage."""

    @property
    def captured(self) -> Captured:
        """The function's calls of ATen."""
        return replace(self._stages.captured(), _run=self._simulated_by_now)

    @property
    def lowered(self) -> Lowered:
        """Every node routed and grouped into kernels."""
        return replace(self._stages.lowered(), _run=self._simulated_by_now)

    def _simulated_by_now(self) -> Simulated | None:
        return self._stages.simulated() if self._stages.simulated.made else None

    @property
    def rendered(self) -> Rendered:
        """Every kernel as MLIR on whole tensors."""
        return self._stages.rendered()

    @property
    def scheduled(self) -> Scheduled:
        """Every kernel as loops over scratchpad tiles."""
        return self._scheduled

    @cached_property
    def _scheduled(self) -> Scheduled:
        return replace(self._stages.scheduled(), _mapspace=self._mapspace)

    def _mapspace(self, kernel: str, simulate: int, executor: Executor | None) -> MapSpace:
        from workbench.exploring.tuning.tuner import map_space  # only here: it loads MLIR

        return map_space(self, self._request, kernel, simulate, executor)

    @property
    def simulated(self) -> Simulated:
        """The timeline on the machine."""
        return self._simulated

    @cached_property
    def _simulated(self) -> Simulated:
        return replace(self._stages.simulated(), _selection=lambda: self.selection)

    @property
    def machine(self) -> Machine:
        return self._request.machine

    @property
    def options(self) -> dict[str, object]:
        """The options of `wb.trace` and `.with_` that differ from their defaults, without the machine."""
        return self._request.options

    @property
    def findings(self) -> Findings:
        """The reasons for the run's time: a line that names the run's bottleneck, then one row for each finding, with
        the reason, the line of Python, the spans that show it, the remedy to try, and the saving in cycles if it can
        be predicted. Findings about the bottleneck come first. `.findings.tried()` measures each saving."""
        from workbench.explaining.findings.findings_answer import Findings  # only here: it loads pandas

        return Findings.of(self._advice.found(), self._advice.trials())

    @cached_property
    def _advice(self) -> Advice:
        from workbench.exploring.advice import Advice  # only here: it loads all rules

        return Advice(self, self._request)

    @knows_its_options
    def knobs(self, kernel: str | None = None) -> Knobs[Journey]:
        """The knobs of a kernel, `j.knobs("k0")`: its tile, order, buffers and cores; or of the journey, `j.knobs()`:
        fusion rules and the machine's figures. Each knob has its current value, the values worth trying, the reason if
        a value is refused, and the `with_` call that sets it; `.sweep` maps the cycles over two knobs."""
        from workbench.exploring.knobs import knobs_of  # only here, as in `experiment`: most journeys turn no knob

        return knobs_of(self, self._request, kernel)

    @knows_its_options
    def tuned(
        self,
        *,
        budget: int = BUDGET,
        kernels: Sequence[str] | None = None,
        seed: int = 0,
        executor: Executor | None = None,
    ) -> Tuning[Journey]:
        """Looks for faster mappings of the kernels, with the simulator in the loop; equal kernels are tuned once.

        At most `budget` candidates of each kernel's space are scheduled and simulated; candidates that a bound proves
        to be no faster are skipped. The same budget and seed find the same mappings. After an interrupt, the mappings
        found so far stay. `executor` is a `concurrent.futures.Executor`, or an object with its `submit`, whose workers
        measure in parallel. Of the result, `.journey` has the faster mappings, `.table` one row for each kernel, and
        `.save(path)` writes the mappings for `tuned=path`.
        """
        try:
            from workbench.exploring.tuning.tuner import tuned  # only here: it loads MLIR

            return tuned(self, self._request, kernels, budget, seed, executor)
        except KeyboardInterrupt:  # while it loads, or while the stages before the search are made
            from workbench.exploring.tuning.tuner import nothing_tuned

            return nothing_tuned(self, self._request, budget, seed)

    @knows_its_options
    def experiment(self) -> Experiment[Journey]:
        """A session of turning knobs in the background: a newer setting replaces an unfinished one, and each step keeps
        its costs."""
        from workbench.exploring.knobs import Experiment

        return Experiment(self, self._request)

    @property
    def overview(self) -> Overview:
        """The journey on one screen: the finished stages with their figures, the results of `check`, the findings and
        the time of each part. It computes no stage and checks nothing."""
        run = self._simulated_by_now()
        why = self._advice.why() if run and len(run.record) <= MOST_SPANS else None
        return overview(self._request, self._stages, why, self._checks.values())

    @knows_its_options
    def html(self) -> Markup:
        """The overview as HTML that needs no other file."""
        return self.overview.html()

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds of every stage that has run. A stage shared with another journey has that journey's seconds."""
        return self._stages.seconds

    @property
    def _computing(self) -> Computing:
        return Computing(self._request, self._stages)

    @knows_its_options
    def run(self, *inputs: object, kwargs: Mapping[str, object] | None = None) -> object:
        """Runs the scheduled MLIR natively and returns what the function returns under `torch.no_grad()`.

        Results have no gradients, even if the inputs require them. Weights and closed-over tensors have their current
        values; the function's in-place changes happen. A function whose graph would differ now, because a number or
        a hook changed, is refused. Kernels run in parallel, on `torch.get_num_threads()` threads.
        """
        return self._computing.run(inputs, kwargs)

    @knows_its_options
    def check(
        self,
        *inputs: object,
        kwargs: Mapping[str, object] | None = None,
        stage: str = "scheduled",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Check:
        """Compares a stage's numbers with PyTorch's, on these inputs or, without any, on the traced inputs.

        `captured` runs the record with PyTorch, `rendered` the MLIR before scheduling, `scheduled` the tiled loops,
        `simulated` the instructions in the order of the timeline, in numpy.
        PyTorch's numbers are those of the function itself, in 64 bits where it can run so; the bound on our errors
        follows from rounding, see docs/checking.md. `rtol` and `atol` replace that bound by
        `atol + rtol * |reference|`. The function's changes in place are undone.
        """
        self._checks[stage] = self._computing.check(inputs, kwargs, stage, rtol, atol)
        return self._checks[stage]

    def compiled(self) -> NativeProgram:
        """The native program of `run`, for callers that flatten inputs and rebuild results themselves."""
        return self._computing.compiled()

    @knows_its_options
    def with_(
        self,
        *,
        machine: str | Machine | _Keep = KEEP,
        mapping: Mapping[str, UserMapping] | str | os.PathLike[str] | _Keep | None = KEEP,
        tuned: str | os.PathLike[str] | _Keep | None = KEEP,
        fusion: UserFusion | _Keep = KEEP,
        schedule: Mapping[str, str] | _Keep | None = KEEP,
        passes: UserPasses | _Keep | None = KEEP,
        simulate_seconds: float | _Keep | None = KEEP,
        resident: str | Sequence[str] | _Keep | None = KEEP,
        placement: Mapping[str, int | str] | _Keep | None = KEEP,
        layout: UserLayout | _Keep = KEEP,
    ) -> Journey:
        """Returns the journey with these options changed; it shares every stage that the change does not touch.

        `mapping` replaces the whole former mapping: a kernel's own name comes first, then the first pattern that
        matches, then `"*"`; a key that applies to no kernel is an error. `mapping=None` goes back to the heuristic's
        choice; the path of a TOML or JSON file gives mappings by ops and shapes. `tuned` is the path of a table that
        `j.tuned().save(path)` wrote.
        `fusion` turns fusion rules, patterns and graph passes off by name (`{"off": ["product epilogue"]}`, or
        all rules and patterns: `"none"`) or keeps nodes in different kernels (`[("linear", "gelu")]`). `schedule` has
        transform scripts by kernel, each an edited `j.scheduled.kernels[i].schedule`; it replaces the mapping's own
        script, whose number of buffers stays.
        `passes` are pipelines that run after steps of `j.scheduled.kernels[i].passes`, by the steps' names:
        `{"fuse elementwise": "canonicalize"}`; `wb.mlir_pass` makes passes from Python functions. `simulate_seconds` is
        the time limit of the simulation. `resident` are the tensors in the machine's common memory: names, `"auto"`,
        or None. `placement` gives tensors, by name, a chiplet's number or a policy. `layout` is the order in
        which axes of tensors lie in DRAM, as in `wb.trace`.
        """
        options, asked = options_among(locals()), self._request
        given = checked_options(**{name: value for name, value in options.items() if not isinstance(value, _Keep)})
        request = replace(asked, **given).given(**given)
        if "passes" in given:
            request = replace(request, own_passes=PASSES.now())
        changed = {name for name in given if getattr(request, name) != getattr(asked, name)}
        if request.passes and request.own_passes != asked.own_passes:
            changed.add("passes")
        stale = changed - {"layout"}
        if request.layout_here != asked.layout_here:  # another machine may have other blocks
            stale.add("layout")
        if request.rewrites_off != asked.rewrites_off:
            stale.add("rewrites")
        if request.room_here != asked.room_here and (
            not self._stages.lowered.made or counts(self.lowered.record, asked.room_here, request.room_here)
        ):  # another machine may hold other rows
            stale.add("room")
        if "fusion" in given:
            request.check_rules_named()
        if "fusion" not in changed and self._stages.lowered.made:
            request.check_kernels_named(self.lowered.record)
        if not changed.isdisjoint(("resident", "machine")):
            warn_without_common_memory(request.resident, request.machine)
        return Journey(request, self._stages.changed(request, stale)) if changed else self

    @knows_its_options
    def changed(self, change: str) -> Journey:
        """Changes a copy of the traced function, traces the copy and returns its journey; all options stay.

        `change` is the name in a finding's remedy: `"bfloat16"`, `"channels last"`, `"evaluation mode"`,
        `"folded batch norms"`, `"int8 weights"`, or `"folded window:<path of a Conv2d>"`. A change without effect is
        refused. The traced function stays unchanged.
        """
        return cast("Journey", self._advice.retraced(change))

    def select(self, x: object) -> Selection:
        """Selects one thing at every stage: its nodes, kernels, lines of MLIR, instructions, spans and lines of Python.

        `x` is one of these, or anything that a selection holds:

        - a node or an op: `"linear_1"`, `"aten.linear.default"`, `"linear"`
        - a kernel, `"k0_linear"`, or an `nn.Module` by its path, `"encoder.fc1"`
        - a line of Python: `"model.py:12"`, or the text of the line
        - a line of scheduled MLIR: `(kernel, line)` or `"kernel:12"`; a pair always means a line
        - an instruction: `wb.InstructionAt(kernel, 3)` or `"kernel#3"`
        - a span: a row of `j.simulated.events`, its number, or `"span 5"`
        - a line of MLIR on whole tensors, a buffer of the scratchpad, a tile: `wb.RenderedLine(kernel, line)`,
          `wb.BufferAt(kernel, number)`, `wb.TileAt(kernel, row)`
        """
        return lookup.select(self._stages.origins(), x)

    @cached_property
    def selection(self) -> SelectionModel:
        """The selection of all widgets of this journey: `.select(x)`, `.back()`, `.forward()`, `.observe(call)`."""
        return selection_model.SelectionModel(self.select)

    @knows_its_options
    def widget(self, *, stage: str = "capture") -> object:
        """The lab: every stage side by side with one selection, in a notebook. It opens at `stage`: capture, lower,
        render, schedule, program or timeline. See docs/the-lab.md."""
        return widgets("stepper_widget").stepper(self, self._request, self._stages, self._checks, stage=stage)

    @knows_its_options
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the whole journey, without weights and inputs, to one file that `wb.load` opens without PyTorch.

        Stages that have not run yet run now. If writing fails, no part of the file is written.
        """
        said = self._request.mappings(self.lowered.record).mapping  # by names: files may not be there when it is loaded
        whole = archive.Archive(
            replace(self._request, mapping=said).kept,
            self.lowered.record,
            self.rendered.record,
            self.scheduled.record,
            self.simulated.record,
            self._stages.sources(),
            self.seconds,
        )
        archive.save(path, whole, made_by=f"aten-workbench {VERSION}")

    @knows_its_options
    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline for ui.perfetto.dev: a track for each unit, in real time, with the cycles in each event's
        arguments, an arrow for each dependence, and counters of bytes in flight, scratchpad bytes and busy arrays. If
        the name ends in `.gz`, the file is compressed."""
        simulated = self.simulated
        made = perfetto.perfetto_file(simulated.record, simulated.scheduled.launches, os.fspath(path))
        replace_file(path, made)

    @knows_its_options
    def to_html(self, path: str | os.PathLike[str], *, interactive: bool = False) -> None:
        """Writes the whole journey as one page that opens from disk, without network, script or Python.

        `interactive=True` puts the lab above the page, where a reader can press everything as in a notebook: the page
        then contains the selection of each row, and a script that looks it up. See docs/sharing.md.
        """
        lab = widgets("stepper_widget") if interactive else None
        stages = (self.captured, self.lowered, self.rendered, self.scheduled, self.simulated)
        if interactive and len(self.simulated.record) > MOST_SPANS:
            raise BadOption(
                f"interactive=True: this run has {len(self.simulated.record):,} spans, and a page can hold "
                f"{MOST_SPANS:,}. Without it the page shows them as shares; j.widget() and wb.lab(path) have them all"
            )
        bodies = [stage.body_html() for stage in stages]
        title = f"{self.captured.record.name} on {self.machine.label}"
        whole = overview(self._request, self._stages, self._advice.why(predicted=True), self._checks.values())
        static = journey_html.journey_body(whole, self._stages.sources(), bodies)
        of, plain = (self, self._request, self._stages, self._checks), journey_html.journey_page
        text = lab.lab_page(*of, title=title, static=static) if lab else plain(title, static)
        replace_file(path, text.encode("utf-8"))

    def __reduce__(self) -> NoReturn:
        raise NotCopied

    def __repr__(self) -> str:
        done = ", ".join(self.seconds) or "nothing yet"
        return f"Journey({name_of(self._request, self._stages)!r} on {self.machine.label}; done: {done})"
