"""One cycle of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.shown import Shown
from workbench.ground.environment.verb_options import knows_its_options

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.views.scratchpads import moments


@dataclass(frozen=True, repr=False)
class Moment(Shown):
    """The contents of the scratchpad in one cycle, the boxes of tensors that instructions touch, and the moves so
    far."""

    record: moments.Moment

    @property
    def cycle(self) -> int:
        return self.record.cycle

    @property
    def kernel(self) -> str:
        """The kernel that runs; between two of them the one before."""
        return self.record.replay.kernel

    @property
    def spans(self) -> tuple[int, ...]:
        """Rows of `j.simulated.events` that hold a unit now."""
        return tuple(self.record.replay.first_span + number for number in self.record.at_work)

    @property
    def slots(self) -> pd.DataFrame:
        """One row a slot of the kernel's buffers: `state` is empty, not read yet, or in use;
        `written_by` and `read_by` are the instructions that do so now, a write until its results are complete. `start`,
        `read` and `end` are as in `j.simulated.scratchpad.table`, empty where the slot is."""
        return data_frames.frame(self.record.slots())

    @property
    def boxes(self) -> pd.DataFrame:
        """One row a box of a tensor that an instruction reads or writes now: rows of
        `j.scheduled.tiles(kernel).table`."""
        return data_frames.frame(self.record.boxes())

    @property
    def tiles(self) -> pd.DataFrame:
        """One row a tile of a tensor that the kernel moves, as its grid shows it: where it lies along `axes`, the
        number of its `first` move in program order, how often it was `moved` by now and will be in all (`moves`), and
        what happens to it `now`."""
        return data_frames.frame(self.record.tiles())

    @knows_its_options
    def text(self) -> str:
        """The instructions at work, then slots and boxes."""
        tables = [table.text() for table in (self.record.slots(), self.record.boxes()) if table.rows]
        return "\n".join([self.record.summary(), *tables])

    @knows_its_options
    def html(self) -> Markup:
        """The same as tables."""
        tables = [markup.table(table) for table in (self.record.slots(), self.record.boxes()) if table.rows]
        return markup.fragment(html("<p>{told}</p>{}", joined(tables), told=self.record.summary()))

    def __repr__(self) -> str:
        return f"Moment({self.record.summary()})"
