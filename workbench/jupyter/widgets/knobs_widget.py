"""Knobs to turn: what each setting costs, the new timeline above the one at the start, and the map over two knobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from workbench.exploring.knobs.knob import kernel_knobs, kernel_names, scheduled_kernel, text_of, value_from
from workbench.exploring.summary import MOST_SPANS
from workbench.ground.basics.html_builder import html
from workbench.ground.environment.progress import counted, in_background
from workbench.ground.errors import BadOption, Stopped
from workbench.ir.kernel_names import with_full_kernel
from workbench.jupyter.widgets.answers import Answer, Later
from workbench.jupyter.widgets.comparison_widget import moved_findings
from workbench.jupyter.widgets.knob_words import knob_values, map_values, step_values
from workbench.jupyter.widgets.look import Look
from workbench.jupyter.widgets.timeline_widget import SHEETS, AnswersTimelines, TimelineSource, runs_html
from workbench.jupyter.widgets.widget_base import LabWidget

if TYPE_CHECKING:
    from workbench.explaining.artefacts import Simulated
    from workbench.explaining.views.selections.selection_model import SelectionModel
    from workbench.exploring.knobs import Experiment, Knob, Step, Sweep
    from workbench.journey import Journey

KNOB_SHEETS: Final = ("knobs.css",)
START: Final = 0
"""The number of the timeline at the start; any other number is the timeline of the current step."""


class KnobsLook(AnswersTimelines, Look):
    """Answers the knobs' module. `begin` makes the session when the view is first opened."""

    name = "knobs"

    def __init__(
        self,
        begin: Callable[[], Experiment[Journey]],
        *,
        kernel: str | None = None,
        selection: SelectionModel | None = None,
        ends_session: bool = True,
    ) -> None:
        super().__init__()
        self._begin, self._kernel, self._selection, self._ends_session = begin, kernel, selection, ends_session
        self._opened = False
        self._sources: dict[int, TimelineSource] = {}
        self._sweep: Sweep[Journey] | None = None
        self._trying = threading.Event()
        self._end: Callable[[], None] = lambda: None

    @cached_property
    def experiment(self) -> Experiment[Journey]:
        """The session whose knobs and steps this view shows; it begins at the first use."""
        made = self._begin()
        self._opened, self._end = True, made.on_step(self._tell_step)
        return made

    def close(self) -> None:
        super().close()
        self._end()
        self._sources.clear()
        self._trying.set()
        if self._sweep is not None:
            self._sweep.stop(wait=False)
        if self._opened and self._ends_session:
            self.experiment.close()

    # Knobs

    def answer_open(self) -> Answer:
        """The kernels, the knobs of one of them and of the journey, and all steps so far."""
        experiment = self.experiment
        kernels = kernel_names(experiment.start.scheduled.record)
        chosen = self._kernel_meant(kernels)
        own = self._own_knobs(chosen)
        shared = [knob_values(knob) for knob in experiment.knobs().knobs]
        steps = [step_values(step, experiment.history) for step in experiment.history]
        return {
            "kernels": kernels,
            "kernel": chosen,
            "knobs": own,
            "shared": shared,
            "steps": steps,
            "now": experiment.current.number,
        }

    def answer_kernel(self, kernel: str) -> Answer:
        """The knobs of the named kernel; without a name, of the selected one; empty if none is selected."""
        kernels = kernel_names(self.experiment.start.scheduled.record)
        chosen = kernel or self._kernel_selected(kernels)
        return {"kernel": chosen, "knobs": self._own_knobs(chosen)}

    def _own_knobs(self, kernel: str) -> list[dict[str, object]]:
        return [knob_values(knob) for knob in self.experiment.knobs(kernel).knobs if knob.kernel] if kernel else []

    def answer_present(self, kernel: str) -> Answer:
        """The kernel's knobs, with values that are possible beside all turned knobs; none if the kernel no longer
        exists because others are fused now."""
        return {"knobs": [knob_values(knob) for knob in self._present(kernel).values()]}

    def _present(self, kernel: str) -> dict[str, Knob]:
        """The kernel's knobs by their names, each with the values worth trying beside the current setting."""
        journey = self.experiment.journey
        scheduled = journey.scheduled.record
        if kernel not in kernel_names(scheduled):
            return {}
        knobs = kernel_knobs(kernel, scheduled_kernel(scheduled, kernel), journey.machine)
        return {knob.name: knob for knob in knobs}

    def _kernel_meant(self, kernels: list[str]) -> str:
        """The selected kernel, else the requested one, else the one that runs longest."""
        if selected := self._kernel_selected(kernels):
            return selected
        if self._kernel and (asked := with_full_kernel(self._kernel, kernels)) in kernels:
            return asked
        if not kernels:
            return ""
        cycles = self.experiment.start.simulated.kernel_cycles()
        return max(kernels, key=lambda name: cycles.get(name, 0))

    def _kernel_selected(self, kernels: list[str]) -> str:
        """The first selected kernel; "" if none is selected."""
        chosen = self._selection.selection if self._selection is not None else None
        return next((kernel for kernel in chosen.kernels if kernel in kernels), "") if chosen else ""

    def answer_turn(self, kernel: str, knob: str, text: str) -> Answer:
        """Turns a knob to a value, as it was typed or as a slider has it; the browser is told of the step once it is
        done."""
        try:
            found = self._present(kernel).get(knob) or self.experiment.knobs(kernel or None)[knob]
            value = value_from(found, text)
        except BadOption as error:  # shown at the knob
            return {"refused": str(error)}
        self.experiment.turn(knob, value, kernel=kernel or None)
        return {}

    def answer_allowed(self, kernel: str, knob: str) -> Later:
        """Each value worth trying, and the reason if it is refused: all values are scheduled, beside the other knobs as
        they are."""

        self._trying.set()  # a new question ends the work for the one before
        self._trying = stop = threading.Event()

        def tried() -> Answer:
            around = self.experiment.around(kernel or None)
            wanted = self._present(kernel).get(knob) or around[knob]
            try:
                with in_background("try the values", stop):
                    values = [(text_of(value), around.why_not(knob, value)) for value in counted(wanted.values)]
            except Stopped:
                return {"values": []}
            return {"values": values}

        return Later(tried)

    # Scripts

    def answer_script(self, kernel: str) -> Answer:
        """The transform script that the kernel has now."""
        scheduled = self.experiment.journey.scheduled.record
        if kernel not in kernel_names(scheduled):
            return {"text": "", "why": f"there is no kernel {kernel} any more: others are fused now"}
        runs = {launch.name: launch.kernel for launch in scheduled.launches.launches}
        text = scheduled.kernel(runs[kernel]).schedule
        return {"text": text, "why": "" if text else f"{kernel} is a template: its loops are its own"}

    def answer_write(self, kernel: str, text: str) -> Answer:
        self.experiment.script(kernel, text)
        return {}

    def answer_own(self, kernel: str) -> Answer:
        """Removes the script that was written for a kernel; the kernel's knobs count again."""
        self.experiment.script(kernel, None)
        return {}

    # Steps

    def answer_back(self, step: int) -> Answer:
        self.experiment.back(step)
        return {}

    def answer_progress(self) -> Answer:
        """The progress of the newest setting; raises its error, unless it was refused."""
        self.experiment.wait(0)
        return {"busy": self.experiment.busy, "line": self.experiment.progress}

    def answer_findings(self, step: int) -> Later:
        """The findings that came and went since the start; nothing if a newer step has come meanwhile."""

        def found() -> Answer:
            experiment = self.experiment
            runs = (experiment.start.simulated.record, experiment.journey.simulated.record)
            if max(map(len, runs)) > MOST_SPANS:
                return {"note": "j.findings has them; with this many spans they take a while", "moved": [], "stay": 0}
            told = experiment.against_start.record
            moved = moved_findings(told)
            stay = sum(each.each[-1].count for each in told.findings if each.change == "stays" and each.each[-1])
            return {"moved": moved, "stay": stay} if experiment.current.number == step else {}

        return Later(found)

    def _tell_step(self, step: Step[Journey]) -> None:
        self.tell("step", {**step_values(step, self.experiment.history), "now": self.experiment.current.number})

    # Timelines

    def _source(self, run: int) -> TimelineSource:
        journey = self.experiment.start if run == START else self.experiment.journey
        simulated = journey.simulated
        kept = self._sources.get(run)
        if kept is None or kept.simulated.record is not simulated.record:
            kept = self._sources[run] = TimelineSource(simulated)
        return kept

    # The map

    def answer_map(self, kernel: str, knobs: list[str]) -> Answer:
        """Begins to fill the map over two knobs, or one, around the current setting."""
        if self._sweep is not None:
            self._sweep.stop(wait=False)
        present = {knob.name: knob for knob in self.experiment.journey.knobs().knobs} | self._present(kernel)
        values = {name: present[name].values for name in knobs if name in present}
        self._sweep = self.experiment.around(kernel or None).sweep(*knobs, values=values, background=True)
        return self.answer_map_now()

    def answer_map_now(self) -> Answer:
        """The known part of the map; raises an error of its settings, unless they were refused."""
        sweep = self._swept()
        done = sweep.wait(0)
        return {"map": map_values(sweep, self.experiment.current, done=done)}

    def answer_stop(self) -> Later:
        """Stops filling the map; the known cells stay."""

        def stopped() -> Answer:
            self._swept().stop()
            return self.answer_map_now()

        return Later(stopped)

    def answer_take(self, row: int, column: int) -> Answer:
        """Turns the knobs to the values of a cell."""
        sweep = self._swept()
        places = (row, column) if len(sweep.axes) > 1 else (column,)
        for knob, axis, place in zip(sweep.knobs, sweep.axes, places, strict=True):
            if not 0 <= place < len(axis):
                raise BadOption(f"the map has no cell ({row}, {column})")
            value = axis[place]
            self.experiment.turn(knob.name, value, kernel=knob.kernel or None)
        return {}

    def _swept(self) -> Sweep[Journey]:
        if self._sweep is None:
            raise BadOption("there is no map yet: choose knobs and fill one")
        return self._sweep


class KnobsWidget(LabWidget, module="look_widget.js", sheets=(*SHEETS, *KNOB_SHEETS)):
    """The result of `j.knobs("k0").widget()`: knobs are turned in the widget and with `w.experiment.turn(...)`;
    `w.journey` is the resulting journey."""

    def __init__(self, experiment: Experiment[Journey], kernel: str | None, *, ends_session: bool) -> None:
        self.experiment = experiment
        super().__init__(KnobsLook(lambda: experiment, kernel=kernel, ends_session=ends_session))

    @property
    def step(self) -> Step[Journey]:
        """The last step that was not refused: its cycles, bytes and call."""
        return self.experiment.current

    @property
    def journey(self) -> Journey:
        """The journey at the current step."""
        return self.experiment.journey

    def static_html(self) -> Markup:
        """The timeline now and at the start, and all steps as a table."""
        runs: list[tuple[str, Simulated]] = [("start", self.experiment.start.simulated)]
        if self.step.number:
            runs.insert(0, ("now", self.journey.simulated))
        heads = [(html("<p><b>{name}</b>: {:,} cycles</p>", run.cycles, name=name), run) for name, run in runs]
        return runs_html(heads) + self.experiment.html()

    def __repr__(self) -> str:
        return f"KnobsWidget({'' if self.live else 'closed, '}{self.experiment!r})"


def knob_editor(experiment: Experiment[Journey], kernel: str | None, *, ends_session: bool) -> KnobsWidget:
    """The widget of a session, opened at a kernel."""
    if kernel is not None:
        experiment.knobs(kernel)  # raises an error for a wrong name
    return KnobsWidget(experiment, kernel, ends_session=ends_session)
