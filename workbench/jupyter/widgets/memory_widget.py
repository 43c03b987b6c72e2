"""The scratchpad and the tiles cycle by cycle: below the lab's timeline, moving with its cursor, and as a widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import numpy as np
import traitlets
from markupsafe import Markup

from workbench.explaining.views.scratchpads.launch_replay import Replays
from workbench.explaining.views.scratchpads.moments import Moment, occupancy_of
from workbench.explaining.views.scratchpads.replay_columns import replay_columns
from workbench.explaining.views.scratchpads.scratchpad_picture import scratchpad_picture
from workbench.explaining.views.scratchpads.tile_grids import tile_pictures
from workbench.explaining.views.selections.origins import BufferAt, TileAt
from workbench.explaining.views.selections.selection_model import SelectionModel
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html
from workbench.ground.basics.svg_painter import side_by_side, svg_of
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.answers import Answer, Later, in_columns
from workbench.jupyter.widgets.look import Look, Question
from workbench.jupyter.widgets.widget_base import LabWidget

MEMORY_SHEETS: Final = ("memory.css",)


class MemoryLook(Look):
    """Answers about launches: a list of all, or one in columns; and selects a buffer or a tile."""

    name = "memory"

    def __init__(self, replays: Callable[[], Replays], selection: SelectionModel | None) -> None:
        super().__init__()
        self._replays, self._model = replays, selection

    def answer_open(self) -> Answer:
        """The launches of the run."""
        replays = self._replays()
        launches = [list(times) for times in replays.times]
        cycles, selects = replays.trace.makespan, self._model is not None
        return {"kernels": replays.kernels, "launches": launches, "cycles": cycles, "selects": selects}

    def answer_launch(self, launch: int) -> Answer | Later:
        """One launch with all its cycles: the browser goes through them without asking again."""
        last = len(self._replays().times) - 1
        if not 0 <= launch <= last:
            raise BadOption(f"there is no launch {launch}; the launches are 0 to {last}")
        return Later(lambda: in_columns(replay_columns(self._replays().of(launch))))

    def answer_buffer(self, launch: int, number: int) -> Answer:
        """Selects a buffer."""
        return self._select(BufferAt(self._replays().kernels[launch], number))

    def answer_tile(self, launch: int, touch: int) -> Answer:
        """Selects a tile: the box in a row of the kernel's tiles."""
        return self._select(TileAt(self._replays().kernels[launch], touch))

    def recorded(self) -> Sequence[Question]:
        """All questions that select nothing: a page without Python has their answers."""
        return [("open", {}), *(("launch", {"launch": launch}) for launch in range(len(self._replays().times)))]

    def _select(self, what: object) -> Answer:
        if self._model is None:
            raise BadOption("this run belongs to no journey, so it has no selection; select in j.widget()")
        self._model.select(what)
        return {}


class MemoryWidget(LabWidget, module="memory_widget.js", sheets=MEMORY_SHEETS):
    """The result of `j.simulated.scratchpad.widget()`. `cycle` is the shown cycle; setting it moves the widget
    there."""

    cycle = traitlets.Int(0).tag(sync=True)

    def __init__(self, replays: Replays, selection: SelectionModel | None, cycle: int) -> None:
        self._replays, self._model = replays, selection
        super().__init__(MemoryLook(lambda: replays, selection), cycle=cycle)
        if selection is not None:
            self.at_close(selection.observe(self._tell_selected))

    @traitlets.validate("cycle")
    def _cycle(self, proposal: traitlets.Bunch) -> int:
        return self._replays.check(cast("int", proposal["value"]))

    # The journey's selection

    def answer_selected(self) -> Answer:
        """The selected spans."""
        return {}, [self._selected()]

    def _tell_selected(self) -> None:
        self.tell("selected", {}, [self._selected()])

    def _selected(self) -> bytes:
        chosen = self._model.selection if self._model else None
        return np.array(chosen.spans if chosen else (), "<u4").tobytes()

    # For readers without a kernel

    def static_html(self) -> Markup:
        """The launch of the cycle: its scratchpad over time, and its tiles."""
        seen = self._seen()
        told = html("<p>{}</p>", seen.summary())
        return markup.fragment(
            told
            + svg_of(scratchpad_picture(occupancy_of(seen.replay)))
            + side_by_side(tile_pictures(seen.replay.tiling))
        )

    def _seen(self) -> Moment:
        return Moment(self.cycle, self._replays.of(self._replays.launch_at(self.cycle)))

    def __repr__(self) -> str:
        return f"MemoryWidget({'closed' if not self.live else self._seen().summary()})"


def memory(replays: Replays, selection: SelectionModel | None, *, begin: int, end: int) -> MemoryWidget:
    """The widget of a run. It opens where the first selected span between `begin` and `end` begins, else at `begin`."""
    selected = selection.selection.spans if selection is not None and selection.selection else ()
    starts = replays.trace.start[list(selected)].tolist()
    within = [int(start) for start in starts if begin <= start < end]
    return MemoryWidget(replays, selection, min(within, default=begin))
