"""The timeline as a widget: one run, or two above each other that show the same stretch of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import traitlets
from markupsafe import Markup

from workbench.explaining.findings.rule_search import about, found
from workbench.explaining.findings.run_facts import Facts
from workbench.explaining.views.timelines.columns import Columns, critical_columns, dependence_columns, timeline_columns
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.explaining.views.timelines.timeline_questions import gap_in
from workbench.exploring.summary import MOST_SPANS
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.answers import Answer, Later, in_columns
from workbench.jupyter.widgets.widget_base import LabWidget

if TYPE_CHECKING:
    from workbench.explaining.artefacts.simulated import Simulated
    from workbench.explaining.findings.finding_record import Finding
    from workbench.explaining.views.timelines.gantt import Gantt

SHEETS: Final = ("timeline.css",)


class TimelineSource:
    """Answers about the timeline of one run: its columns, and the findings about idle time and spans. `findings`
    returns the run's findings if somebody else has them; without it the rules run at the first use."""

    def __init__(self, simulated: Simulated, findings: Callable[[], Sequence[Finding]] | None = None) -> None:
        self.simulated, self._ask_rules = simulated, findings

    @cached_property
    def _findings(self) -> Sequence[Finding]:
        run = self.simulated
        return self._ask_rules() if self._ask_rules else found(Facts(run.lowered, run.scheduled, run.record))

    @cached_property
    def view(self) -> Gantt:
        return gantt_of(self.simulated.record)

    def columns(self, what: str) -> Answer:
        """The columns of `timeline`, `dependences` or `critical`."""
        trace, launches = self.simulated.record, self.simulated.scheduled.launches
        blocks: dict[str, Callable[[], Columns]] = {
            "timeline": lambda: timeline_columns(trace, launches),
            "dependences": lambda: dependence_columns(trace),
            "critical": lambda: critical_columns(trace),
        }
        if what not in blocks:
            raise BadOption(f"a timeline has no columns {what!r}; it has {', '.join(blocks)}")
        return in_columns(blocks[what]())

    def findings(self, unit: str, cycle: int) -> Answer:
        """The findings that the spans around idle time show, else those of their kernel. For a run of more than
        `MOST_SPANS` spans the rules take long, so the answer is a note that names `j.findings`."""
        trace = self.simulated.record
        if len(trace) > MOST_SPANS:
            return {"note": "j.findings has more; for a run of this many spans it takes a while"}
        place = gap_in(self.view, trace, unit, cycle)
        spans = [row for row in (place.next_span, place.waited_for) if row >= 0]
        kernel = trace.kernels[int(trace.launch[spans[0]])] if spans else self._kernel_at(place.begin)
        return self._findings_about(spans, kernel)

    def findings_in(self, cycle: int) -> Answer:
        """The findings of the kernel that runs in a cycle."""
        return self._findings_about([], self._kernel_at(cycle))

    def findings_of(self, span: int) -> Answer:
        """The findings that a span shows, else those of its kernel."""
        trace = self.simulated.record
        if not 0 <= span < len(trace):
            raise BadOption(f"there is no span {span}; rows of j.simulated.events are 0 to {len(trace) - 1}")
        return {} if len(trace) > MOST_SPANS else self._findings_about([span], trace.kernels[int(trace.launch[span])])

    def _findings_about(self, spans: Sequence[int], kernel: str) -> Answer:
        told = about(self._findings, spans, kernel)
        rows = [{"rule": e.rule, "kernel": e.kernel, "cycles": e.cycles, "reason": e.reason} for e in told]
        return {"findings": rows}

    def _kernel_at(self, cycle: int) -> str:
        """The kernel that runs in a cycle; empty between two launches."""
        replays = self.simulated.replays
        launch = replays.launch_at(cycle)
        begin, end = replays.times[launch]
        return self.simulated.record.kernels[launch] if begin <= cycle < end else ""


def runs_html(runs: Sequence[tuple[Markup, Simulated]]) -> Markup:
    """Timelines below each other in one scale, each under its heading, for readers without a kernel."""
    whole = max(run.cycles for _, run in runs)
    return markup.fragment(joined(head + svg_of(gantt_picture(run.gantt(), scale=whole)) for head, run in runs))


class AnswersTimelines:
    """The answers of widgets and views that show timelines, by the number of a run."""

    def _source(self, run: int) -> TimelineSource:
        raise NotImplementedError

    def answer_columns(self, run: int, what: str) -> Later:
        """A block of columns, computed in a thread: dependences take long to find, and other questions do not wait for
        them."""
        return Later(lambda: self._source(run).columns(what))

    def answer_gap(self, run: int, unit: str, cycle: int) -> Later:
        return Later(lambda: self._source(run).findings(unit, cycle))

    def answer_about(self, run: int, span: int) -> Later:
        return Later(lambda: self._source(run).findings_of(span))


class TimelineWidget(AnswersTimelines, LabWidget, module="timeline_widget.js", sheets=SHEETS):
    """The result of `j.simulated.widget()`. `spans` are the selected rows of the events, set in the widget and from
    Python; `spans_beside` are those of the second run, if there is one."""

    spans = traitlets.List(traitlets.Int()).tag(sync=True)
    spans_beside = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, runs: Sequence[Simulated]) -> None:
        self._sources = [TimelineSource(each) for each in runs]
        super().__init__()
        self.at_close(self._sources.clear)

    # From Python

    @knows_its_options
    def show(self, begin: int, end: int) -> None:
        """Shows a stretch of the run, in cycles."""
        if not self.live:
            raise BadOption("the timeline is closed: j.simulated.widget() makes another")
        last = self._sources[0].simulated.cycles
        if not 0 <= begin < end <= last:
            raise BadOption(f"show({begin:,}, {end:,}): expected two cycles in order, from 0 to the end, {last:,}")
        self.tell("show", {"begin": begin, "end": end})

    @traitlets.validate("spans", "spans_beside")
    def _rows(self, proposal: traitlets.Bunch) -> list[int]:
        name, rows = cast("Any", proposal["trait"]).name, cast("list[int]", proposal["value"])
        place = 0 if name == "spans" else 1
        count = len(self._sources[place].simulated.record) if place < len(self._sources) else 0
        wrong = [row for row in rows if not 0 <= row < count]
        if wrong:
            rest = f"rows of j.simulated.events are 0 to {count - 1}" if count else "there is no second timeline"
            raise BadOption(f"{name} holds {wrong[0]}, and {rest}")
        return rows

    # Answers to the browser

    def answer_open(self) -> Answer:
        return {"titles": [repr(each.simulated) for each in self._sources] if len(self._sources) > 1 else [""]}

    def _source(self, run: int) -> TimelineSource:
        return self._sources[run]

    # For readers without a kernel

    def static_html(self) -> Markup:
        runs = [source.simulated for source in self._sources]
        return runs_html([(html("<p>{}</p>", repr(run)), run) for run in runs])

    def __repr__(self) -> str:
        told = " beside ".join(repr(source.simulated) for source in self._sources) or "closed"
        return f"TimelineWidget({told})"


timeline = TimelineWidget
"""The name by which runs ask for their widget."""
