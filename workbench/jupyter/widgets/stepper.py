"""The lab's main widget: the stages of a journey side by side, and one selection through all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from workbench.errors import BadOption, WorkbenchError
from workbench.jupyter.widgets.base import Answer, LabWidget, Later, said
from workbench.jupyter.widgets.knobs import KnobsLook
from workbench.jupyter.widgets.look import Look
from workbench.jupyter.widgets.timeline import SHEETS, TimelineSource
from workbench.pipeline import Request, Stages
from workbench.summary import overview
from workbench.views import markup
from workbench.views.listings import (
    CallList,
    InstructionList,
    KernelList,
    Listing,
    ListRow,
    Marked,
    RenderedList,
    ScheduledList,
    SourceList,
    SpanList,
)
from workbench.views.overview import Stage
from workbench.views.selecting import SelectionModel
from workbench.views.selection import Selection

if TYPE_CHECKING:
    from workbench.check import Check
    from workbench.journey import Journey

STAGES: Final = ("capture", "lower", "render", "schedule", "program", "timeline")
CHECKED: Final = {"capture": "captured", "render": "rendered", "schedule": "scheduled"}
"""Stages whose numbers are compared with PyTorch's, and what `j.check` calls them."""

_LISTS: Final[Mapping[str, Callable[[Stages], Listing]]] = {
    "python": lambda stages: SourceList(stages.captured().record, stages.sources()),
    "calls": lambda stages: CallList(stages.captured().record),
    "kernels": lambda stages: KernelList(stages.lowered().record),
    "rendered": lambda stages: RenderedList(stages.rendered().record),
    "scheduled": lambda stages: ScheduledList(stages.scheduled().record),
    "instructions": lambda stages: InstructionList(stages.scheduled().record),
    "spans": lambda stages: SpanList(stages.simulated().record, stages.scheduled().record.launches.launches),
}
_PAGE: Final = 50
"""Rows that the browser asks for at once, and is given with the list."""
_MOST_ROWS: Final = 1000
"""Rows that are sent at once; a screen has fewer than a hundred."""


class Stepper(LabWidget, module="stepper.js", sheets=("stepper.css", *SHEETS, "knobs.css")):
    """What `j.widget()` returns. `selection` is what is selected, in it and in all widgets of the journey."""

    def __init__(
        self, journey: Journey, request: Request, stages: Stages, checks: Mapping[str, Check], *, stage: str
    ) -> None:
        self._journey, self._request, self._stages, self._checks = journey, request, stages, checks
        self._first = stage
        self._lists: dict[str, Listing] = {}
        super().__init__(*_looks(journey, stages))
        self.at_close(self._model.observe(self._tell_selection))
        self.at_close(self._lists.clear)

    @property
    def _model(self) -> SelectionModel:
        return self._journey.selection

    # From Python

    @property
    def selection(self) -> Selection | None:
        """What is selected, None where nothing is. It is set to anything that `j.select` takes."""
        return self._model.selection

    @selection.setter
    def selection(self, what: object) -> None:
        self._model.select(what)

    def back(self) -> Selection | None:
        """Goes to the selection before this one."""
        return self._model.back()

    def forward(self) -> Selection | None:
        """Goes to the selection that was gone back from."""
        return self._model.forward()

    # What the browser asks

    def answer_open(self) -> Answer:
        """What is there at once; all else is asked for part by part."""
        self._lists.clear()
        return {"stages": self._cards(), "at": self._first, "checkable": list(CHECKED), "looks": list(self.looks)}

    def answer_list(self, name: str) -> Answer:
        """A list's length, titles and marks. It makes the stage that the list shows, if it is not there yet."""
        if name not in _LISTS:
            raise BadOption(f"there is no list {name!r}; the lists are {', '.join(_LISTS)}")
        listing = self._lists[name] = _LISTS[name](self._stages)
        about = {
            "title": listing.title,
            "columns": list(listing.columns),
            "count": len(listing),
            "widest": listing.widest(),
            "outline": [list(part) for part in listing.outline()],
            "first": _cells(listing.page(0, _PAGE)),
        }
        chosen = self.selection
        marked = [] if chosen is None else [_packed(listing.rows_of(chosen))]
        return {"list": about, "stages": self._cards(), "selection": self._about(chosen)}, marked

    def answer_columns(self, run: int, what: str) -> Later:
        """A block of the timeline's picture: `run` is 0, the only one. Dependences take long to find; nobody who
        presses something waits for them."""
        return Later(lambda: self._timeline.columns(what))

    def answer_gap(self, run: int, unit: str, cycle: int) -> Later:
        return Later(lambda: self._timeline.findings(unit, cycle))

    @cached_property
    def _timeline(self) -> TimelineSource:
        return TimelineSource(self._stages.simulated())

    def answer_rows(self, name: str, first: int, count: int) -> Answer:
        return {"rows": _cells(self._list(name).page(first, min(count, _MOST_ROWS)))}

    def answer_pick(self, name: str, row: int) -> Answer:
        """Selects what is in a row. All widgets of the journey are told, this one too."""
        listing = self._list(name)
        if not 0 <= row < len(listing):
            raise BadOption(f"{listing.title} has no row {row}; its rows are 0 to {len(listing) - 1}")
        found = listing.row(row)
        if found.thing is not None:
            self._model.select(found.thing)
        return {}

    def answer_choose(self, text: str) -> Answer:
        """Selects what somebody typed."""
        self._model.select(text.strip() or None)
        return {}

    def answer_step(self, by: int) -> Answer:
        """Back or forward through the selections."""
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

    # What is told by itself

    def _tell_selection(self) -> None:
        """Which rows of each list that is shown are selected now."""
        chosen = self.selection
        marked = {} if chosen is None else {name: each.rows_of(chosen) for name, each in self._lists.items()}
        told = {"selection": self._about(chosen), "lists": list(marked)}
        self.tell("selection", told, [_packed(rows) for rows in marked.values()])

    def _about(self, chosen: Selection | None) -> dict[str, object]:
        model = self._model
        steps = {"back": model.steps_back, "forward": model.steps_forward}
        if chosen is None:
            return {"what": "", "counts": [], "cycles": 0, **steps}
        counts = [
            (len(chosen.source_lines), "line of Python", "lines of Python"),
            (len(chosen.nodes), "call", "calls"),
            (len(chosen.kernels), "kernel", "kernels"),
            (len(chosen.rendered_lines), "line on tensors", "lines on tensors"),
            (len(chosen.mlir_lines), "line on tiles", "lines on tiles"),
            (len(chosen.instructions), "instruction", "instructions"),
            (len(chosen.buffers), "buffer", "buffers"),
            (len(chosen.spans), "span", "spans"),
        ]
        said = [f"{count:,} {one if count == 1 else more}" for count, one, more in counts]
        reasons = [f"{gone.node}: {gone.reason}" for gone in chosen.absorbed]
        return {"what": chosen.what, "counts": said, "cycles": chosen.cycles, "absorbed": reasons, **steps}

    def _list(self, name: str) -> Listing:
        if name not in self._lists:
            raise BadOption(f"the list {name!r} is not open; these are: {', '.join(self._lists) or 'none'}")
        return self._lists[name]

    # The strip

    def _cards(self) -> list[dict[str, object]]:
        """Each stage's figure and what `j.check` said of it."""
        told = {stage.name: stage for stage in overview(self._request, self._stages, None, ()).stages}
        scheduled = told["scheduled"].figures
        figures = {
            "capture": _figures(told["captured"]),
            "lower": _figures(told["lowered"]),
            "render": _figures(told["rendered"]),
            "schedule": list(scheduled[:1]),
            "program": [figure.removesuffix(" on tiles") for figure in scheduled[1:]],
            "timeline": _figures(told["simulated"]),
        }
        return [{"name": name, "figures": figures[name], "check": self._checked(name)} for name in STAGES]

    def _checked(self, stage: str) -> dict[str, object] | None:
        check = self._checks.get(CHECKED.get(stage, ""))
        return None if check is None else {"ok": check.ok, "said": check.text().splitlines()[0]}

    # For readers without a kernel

    def static_html(self) -> str:
        """The overview without findings, which take long to find. Stages that have not run yet run now, in the cell,
        where a line shows how far they are; what goes wrong with one is part of what is shown."""
        wrong = ""
        try:
            self._stages.simulated()
        except WorkbenchError as error:
            wrong = markup.fragment(f"<p>{markup.escape(said(error))}</p>")
        seen = overview(self._request, self._stages, None, self._checks.values()).html()
        return seen + wrong + (self.selection.html() if self.selection else "")

    def __repr__(self) -> str:
        told = "closed" if not self.live else repr(self.selection) if self.selection else "nothing selected"
        return f"Stepper({overview(self._request, self._stages, None, ()).name!r}, {told})"


def _cells(page: Sequence[ListRow]) -> list[tuple[tuple[str, ...], bool, int, bool]]:
    """Rows as they are sent: cells, whether it is a title, how deep it stands, whether it can be selected."""
    return [(row.cells, row.head, row.depth, row.thing is not None) for row in page]


def _figures(stage: Stage) -> list[str]:
    return list(stage.figures)


def _packed(rows: Marked) -> bytes:
    return rows.astype("<u4", copy=False).tobytes()


def _looks(journey: Journey, stages: Stages) -> list[Look]:
    """The views below the timeline. One that a journey cannot have (it was opened from a file, say) is left out."""
    return [KnobsLook(journey.experiment, selection=journey.selection)]


def stepper(journey: Journey, request: Request, stages: Stages, checks: Mapping[str, Check], *, stage: str) -> Stepper:
    """The widget of a journey, opened at a stage."""
    if stage not in STAGES:
        raise BadOption(f"stage={stage!r}; expected one of {', '.join(STAGES)}")
    return Stepper(journey, request, stages, checks, stage=stage)
