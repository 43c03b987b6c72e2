"""The lab's main widget: the stages of a journey side by side, and one selection through all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from workbench.explaining.views.kernel_lists.pass_lines import PassTrace, traces_of
from workbench.explaining.views.pages import journey_html
from workbench.explaining.views.selections.lab_lists import Listing
from workbench.explaining.views.selections.selection import Selection
from workbench.explaining.views.selections.selection_model import SelectionModel
from workbench.exploring.summary import overview
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html
from workbench.ground.errors import BadOption, WorkbenchError
from workbench.jupyter.widgets.answers import Answer
from workbench.jupyter.widgets.es_modules import joined_modules
from workbench.jupyter.widgets.explaining_widgets import EXPLAINING_SHEETS, ArrayLook, PassesLook, PipelineLook
from workbench.jupyter.widgets.findings_look import FindingsLook
from workbench.jupyter.widgets.knobs_widget import KNOB_SHEETS, KnobsLook
from workbench.jupyter.widgets.look import Look
from workbench.jupyter.widgets.memory_widget import MEMORY_SHEETS, MemoryLook
from workbench.jupyter.widgets.plain_values import (
    CHECKED,
    LISTS,
    PAGE,
    STAGES,
    about_list,
    about_selection,
    cells,
    packed,
    stage_cards,
)
from workbench.jupyter.widgets.recording import recorded
from workbench.jupyter.widgets.timeline_widget import SHEETS, AnswersTimelines, TimelineSource
from workbench.jupyter.widgets.widget_base import LabWidget, error_text
from workbench.stages.journey_request import Request
from workbench.stages.pipeline import Stages

if TYPE_CHECKING:
    from workbench.checking.check_report import Check
    from workbench.journey import Journey

_MOST_ROWS: Final = 1000
"""The most rows that are sent at once; a screen has fewer than a hundred."""


_SHEETS: Final = ("stepper.css", *SHEETS, *MEMORY_SHEETS, *EXPLAINING_SHEETS, *KNOB_SHEETS)


class Stepper(AnswersTimelines, LabWidget, module="stepper_widget.js", sheets=_SHEETS):
    """The result of `j.widget()`. `selection` is the journey's selection, which all its widgets share."""

    def __init__(
        self, journey: Journey, request: Request, stages: Stages, checks: Mapping[str, Check], *, stage: str
    ) -> None:
        self._journey, self._request, self._stages, self._checks = journey, request, stages, checks
        self._first = stage
        self._lists: dict[str, Listing] = {}
        super().__init__(*_looks(journey, stages))
        self.at_close(self._model.observe(self._tell_selection))
        self.at_close(self._lists.clear)
        self._timelines = list[TimelineSource]()
        self.at_close(self._timelines.clear)

    @property
    def _model(self) -> SelectionModel:
        return self._journey.selection

    # From Python

    @property
    def selection(self) -> Selection | None:
        """The selection, None if nothing is selected. It can be set to anything that `j.select` takes."""
        return self._model.selection

    @selection.setter
    def selection(self, what: object) -> None:
        self._model.select(what)

    def back(self) -> Selection | None:
        """Goes to the selection before this one."""
        return self._model.back()

    def forward(self) -> Selection | None:
        """Goes forward again to the selection from which `back` came."""
        return self._model.forward()

    # Answers to the browser

    def answer_open(self) -> Answer:
        """The parts that the widget shows at once; the browser asks for all others one by one."""
        self._lists.clear()
        return {"stages": self._cards(), "at": self._first, "checkable": list(CHECKED), "looks": list(self.looks)}

    def answer_list(self, name: str) -> Answer:
        """A list's length, titles and marks. Computes the stage that the list shows, if this has not happened yet."""
        if name not in LISTS:
            raise BadOption(f"there is no list {name!r}; the lists are {', '.join(LISTS)}")
        listing = self._lists[name] = LISTS[name](self._stages)
        about = {**about_list(listing), "first": cells(listing.page(0, PAGE))}
        chosen = self.selection
        marked = [] if chosen is None else [packed(listing.rows_of(chosen))]
        return {"list": about, "stages": self._cards(), "selection": self._about(chosen)}, marked

    def _source(self, run: int) -> TimelineSource:
        """The journey's timeline, made at its first use: run 0 is the only run."""
        if not self._timelines:
            made = TimelineSource(self._stages.simulated(), lambda: self._journey.findings.records)
            self._timelines.append(made)
        return self._timelines[0]

    def answer_rows(self, name: str, first: int, count: int) -> Answer:
        return {"rows": cells(self._list(name).page(first, min(count, _MOST_ROWS)))}

    def answer_pick(self, name: str, row: int) -> Answer:
        """Selects the thing in a row. All widgets of the journey are told, this one too."""
        listing = self._list(name)
        if not 0 <= row < len(listing):
            raise BadOption(f"{listing.title} has no row {row}; its rows are 0 to {len(listing) - 1}")
        found = listing.row(row)
        if found.thing is not None:
            self._model.select(found.thing)
        return {}

    def answer_choose(self, text: str) -> Answer:
        """Selects by a typed text; an empty text selects nothing."""
        self._model.select(text.strip() or None)
        return {}

    def answer_step(self, by: int) -> Answer:
        """Goes back or forward through the selections."""
        _ = self.back() if by < 0 else self.forward()
        return {}

    def answer_check(self, stage: str) -> Answer:
        """Compares a stage's numbers with PyTorch's."""
        if stage not in CHECKED:
            raise BadOption(f"{stage} has no numbers to compare; these have: {', '.join(CHECKED)}")
        check = self._journey.check(stage=CHECKED[stage])
        return {"stages": self._cards(), "said": check.text()}

    def answer_thread(self) -> Answer:
        """The selection as a table, from the line of Python to the timeline."""
        return {"html": self.selection.html() if self.selection else ""}

    # Messages without a question

    def _tell_selection(self) -> None:
        """Tells the browser the selection, and its rows in each list that is shown."""
        chosen = self.selection
        marked = {} if chosen is None else {name: each.rows_of(chosen) for name, each in self._lists.items()}
        told = {"selection": self._about(chosen), "lists": list(marked)}
        self.tell("selection", told, [packed(rows) for rows in marked.values()])

    def _about(self, chosen: Selection | None) -> dict[str, object]:
        model = self._model
        steps = {"back": model.steps_back, "forward": model.steps_forward}
        if chosen is None:
            return {"what": "", "counts": [], "cycles": 0, **steps}
        return {**about_selection(chosen), **steps}

    def _list(self, name: str) -> Listing:
        if name not in self._lists:
            raise BadOption(f"the list {name!r} is not open; these are: {', '.join(self._lists) or 'none'}")
        return self._lists[name]

    # The strip

    def _cards(self) -> list[dict[str, object]]:
        return stage_cards(self._request, self._stages, self._checks)

    # For readers without a kernel

    def static_html(self) -> Markup:
        """The overview without findings, which take long to find. Stages that have not run yet run now, in the cell,
        where a line shows their progress; an error of a stage is shown with the overview."""
        wrong = ""
        try:
            self._stages.simulated()
        except WorkbenchError as error:
            wrong = markup.fragment(html("<p>{}</p>", error_text(error)))
        seen = overview(self._request, self._stages, None, self._checks.values()).html()
        return seen + wrong + (self.selection.html() if self.selection else "")

    def __repr__(self) -> str:
        told = "closed" if not self.live else repr(self.selection) if self.selection else "nothing selected"
        return f"Stepper({overview(self._request, self._stages, None, ()).name!r}, {told})"


def _looks(journey: Journey, stages: Stages) -> list[Look]:
    """The views below the timeline."""
    return [
        FindingsLook(lambda: journey.simulated, lambda: journey.findings),
        MemoryLook(lambda: journey.simulated.replays, journey.selection),
        ArrayLook(lambda: journey.simulated),
        PipelineLook(lambda: journey.simulated),
        PassesLook(lambda: _passes(stages), lambda: _runs(stages)),
        KnobsLook(journey.experiment, selection=journey.selection),
    ]


def _passes(stages: Stages) -> list[PassTrace]:
    return traces_of(stages.scheduled().record.kernels, stages.rendered().record)


def _runs(stages: Stages) -> dict[str, list[range]]:
    """The rows of the events in which each scheduled kernel runs."""
    launches, found = stages.scheduled().record.launches.launches, dict[str, list[range]]()
    for launch, rows in zip(launches, stages.simulated().record.rows_by_launch, strict=True):
        found.setdefault(launch.kernel, []).append(range(rows.start, rows.stop))
    return found


def stepper(journey: Journey, request: Request, stages: Stages, checks: Mapping[str, Check], *, stage: str) -> Stepper:
    """The widget of a journey, opened at a stage."""
    if stage not in STAGES:
        raise BadOption(f"stage={stage!r}; expected one of {', '.join(STAGES)}")
    return Stepper(journey, request, stages, checks, stage=stage)


def lab_page(
    journey: Journey, request: Request, stages: Stages, checks: Mapping[str, Check], *, title: str, static: Markup
) -> Markup:
    """The lab as a page of its own, recorded; `static` is its content for browsers without a script."""
    looks = _looks(journey, stages)
    record = recorded(request, stages, checks, looks, journey.selection.selection)
    for look in looks:
        look.close()
    return journey_html.lab_page(title, static, sheet=Stepper.sheet(), script=joined_modules("page.js"), record=record)
