"""The scratchpad and the tiles: over time, in one cycle, and kernel by kernel."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from markupsafe import Markup

from simulator.errors import DoesNotFit
from simulator.tileprogram.program import TileProgram
from workbench.explaining.artefacts.handle import count_of
from workbench.explaining.artefacts.pictures import drawing
from workbench.explaining.views.scratchpads import scratchpad, tiles
from workbench.explaining.views.scratchpads.scratchpad_picture import scratchpad_picture
from workbench.explaining.views.scratchpads.tile_grids import tile_pictures
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.svg_painter import side_by_side, svg_of
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.plot_types import Axes, Figure
    from workbench.explaining.views.scratchpads import moments


@dataclass(frozen=True, repr=False)
class Scratchpad(Shown):
    """The address and live range of each tile, with its tensor, buffer and slot."""

    record: scratchpad.Occupancy
    _open: Callable[[int, int], object] | None = field(default=None, compare=False)
    """Opens the widget within these cycles; None for a program that has not run."""

    @property
    def table(self) -> pd.DataFrame:
        """One row a live range of a slot: kernel, launch, core, buffer, tensor, slot; from `start`, when the first byte
        may come, to `end`, after its last use; `read` is its first read. `role` says whether it is loaded from DRAM,
        stored there, or stays inside.

        Times are cycles. For a mapping that does not fit, which did not run, they are numbers of instructions, mostly
        of the first two rounds of each loop alone, and `bytes_beyond` is the number of bytes of the slot beyond the
        capacity.
        """
        return data_frames.frame(scratchpad.scratchpad_table(self.record))

    @knows_its_options
    def of(self, kernel: str | int) -> Scratchpad:
        """The scratchpad of one launch: `kernel` is the number of the launch (`launch` in the table), or the name of a
        kernel, for its first launch."""
        return replace(self, record=self.record.of(kernel))

    @knows_its_options
    def text(self) -> str:
        """The largest use, and the table."""
        return scratchpad.scratchpad_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """The picture: addresses upwards, time to the right, a bar for each live range of a slot."""
        summary = scratchpad.summary(self.record)
        return markup.fragment(html("<p>{summary}</p>{}", svg_of(scratchpad_picture(self.record)), summary=summary))

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "theme", width: float = 11.0) -> Axes:
        """The picture with matplotlib: `style` is light, dark or the notebook's theme, `width` the inches."""
        picture = functools.partial(scratchpad_picture, self.record)
        return drawing("As text it is j.simulated.scratchpad.text().").axes(picture, ax, style=style, width=width)

    @knows_its_options
    def widget(self) -> object:
        """The scratchpad and the tiles cycle by cycle, in a notebook: scrub, play, step. It opens at the first selected
        span. `.cycle` of the widget is the cycle that it shows, and `j.simulated.at(cycle)` has that cycle as tables.
        See docs/scratchpad-and-tiles.md."""
        if self._open is None:
            raise BadOption("widget(): this mapping did not run, so it has no cycles to step through; .plot() shows it")
        return self._open(self.record.begin, self.record.end)

    def __repr__(self) -> str:
        launches = count_of(len(self.record.bands), "launch")
        return f"Scratchpad({launches}, {scratchpad.summary(self.record)})"


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
        """The kernel that runs in this cycle; in a gap between launches, the previous one."""
        return self.record.replay.kernel

    @property
    def spans(self) -> tuple[int, ...]:
        """Rows of `j.simulated.events` whose instructions hold a unit in this cycle."""
        return tuple(self.record.replay.first_span + number for number in self.record.at_work)

    @property
    def slots(self) -> pd.DataFrame:
        """One row a slot of the kernel's buffers: `state` is empty, not read yet, or in use; `written_by` and `read_by`
        are the instructions that write and read the slot in this cycle; a write lasts until its results are complete.
        `start`, `read` and `end` are as in `j.simulated.scratchpad.table`, and left empty for an empty slot."""
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
        """The instructions at work, then slots and boxes as tables."""
        tables = [markup.table(table) for table in (self.record.slots(), self.record.boxes()) if table.rows]
        return markup.fragment(html("<p>{summary}</p>{}", joined(tables), summary=self.record.summary()))

    def __repr__(self) -> str:
        return f"Moment({self.record.summary()})"


@dataclass(frozen=True, repr=False)
class Tiles(Shown):
    """The boxes of tensors that each instruction of a kernel touches, and the moves of their elements."""

    record: tiles.Tiling

    @property
    def kernel(self) -> str:
        return self.record.kernel

    @property
    def table(self) -> pd.DataFrame:
        """One row a box that an instruction reads or writes, in program order: `start` and `extent` along the tensor's
        axes, `step` from one element to the next, and the buffer and slot in which the box lies.

        A tensor that stays in the scratchpad has no start; `padding` is put around a tile and is not part of the
        tensor. Where `exact` is False the instruction touches some elements of the box: those that indices choose, or
        part of a tile that reaches over the tensor's border.
        """
        return data_frames.frame(tiles.tiles_table(self.record))

    @property
    def moved(self) -> pd.DataFrame:
        """One row a tensor that is moved from or to DRAM: its elements moved in all, the least possible number, how
        often each element is moved on average and at most, and elements of padding. Where indices choose the elements,
        least, average and most are not known and left empty."""
        return data_frames.frame(tiles.moved_table(self.record))

    @knows_its_options
    def text(self) -> str:
        """The moves of each tensor, and every box."""
        return tiles.tiles_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """Each tensor as a grid of tiles in the order in which they are moved."""
        return markup.fragment(side_by_side(tile_pictures(self.record)))

    @knows_its_options
    def plot(self, *, style: str = "theme", width: float = 11.0) -> Figure:
        """The grids of tiles with matplotlib: `style` is light, dark or the notebook's theme, `width` the inches."""
        instead = "As text they are j.scheduled.tiles(kernel).text()."
        return drawing(instead).figure(tile_pictures(self.record), style=style, width=width, columns=3)

    def __repr__(self) -> str:
        boxes, tensors = count_of(len(self.record.touches), "box"), count_of(len(self.record.tensors), "tensor")
        return f"Tiles({self.kernel!r}, {boxes}, {tensors})"


@contextlib.contextmanager
def naming_tensors(lowered: KernelGraph) -> Generator[None]:
    """If a program does not fit, adds the tensors of its buffers and a picture to the error."""
    try:
        yield
    except DoesNotFit as error:
        names = {kernel.name for kernel in lowered.kernels}
        if isinstance(error.program, TileProgram) and error.program.kernel in names:
            kernel = lowered.kernel(error.program.kernel)
            held = scratchpad.of_program(error.program, error.capacity, kernel, lowered)
            error.show(scratchpad.tensors_of_buffers(held), Scratchpad(held))
        raise
