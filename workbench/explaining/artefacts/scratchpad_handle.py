"""The scratchpad over time: of a run, and of a mapping that does not fit."""

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
from workbench.explaining.views.scratchpads import scratchpad
from workbench.explaining.views.scratchpads.scratchpad_picture import scratchpad_picture
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.plot_types import Axes
    from workbench.explaining.views.scratchpads.scratchpad import Occupancy


@dataclass(frozen=True, repr=False)
class Scratchpad(Shown):
    """The address and live range of each tile, with its tensor, buffer and slot."""

    record: Occupancy
    _open: Callable[[int, int], object] | None = field(default=None, compare=False)
    """Opens the widget within these cycles; None for a program that has not run."""

    @property
    def table(self) -> pd.DataFrame:
        """One row a live range of a slot: kernel, launch, core, buffer, tensor, slot; from `start`, when the first byte
        may come, to `end`, after its last use; `read` is its first read. `role` says whether it is loaded from DRAM,
        stored there, or stays inside.

        Times are cycles. For a mapping that does not fit, which did not run, they are numbers of instructions, mostly
        of the first two rounds of each loop alone, and `bytes_beyond` are the bytes of each beyond the capacity.
        """
        return data_frames.frame(scratchpad.scratchpad_table(self.record))

    @knows_its_options
    def of(self, kernel: str | int) -> Scratchpad:
        """One launch alone: that of a kernel by its name, or by its number (`launch` in the table)."""
        return replace(self, record=self.record.of(kernel))

    @knows_its_options
    def text(self) -> str:
        """The largest use, and the table."""
        return scratchpad.scratchpad_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """The picture: addresses upwards, time to the right, a bar for each live range of a slot."""
        told = scratchpad.summary(self.record)
        return markup.fragment(html("<p>{told}</p>{}", svg_of(scratchpad_picture(self.record)), told=told))

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "theme", width: float = 11.0) -> Axes:
        """The same picture with matplotlib: `style` is light, dark or the notebook's theme, `width` its inches."""
        made = functools.partial(scratchpad_picture, self.record)
        return drawing("As text it is j.simulated.scratchpad.text().").axes(made, ax, style=style, width=width)

    @knows_its_options
    def widget(self) -> object:
        """The scratchpad and the tiles cycle by cycle, in a notebook: scrub, play, step. It opens at the first
        selected span. `.cycle` of the widget is the cycle that it shows, and `j.simulated.at(cycle)` the same as
        tables. See docs/scratchpad-and-tiles.md."""
        if self._open is None:
            raise BadOption("widget(): this mapping did not run, so it has no cycles to step through; .plot() shows it")
        return self._open(self.record.begin, self.record.end)

    def __repr__(self) -> str:
        launches = count_of(len(self.record.bands), "launch")
        return f"Scratchpad({launches}, {scratchpad.summary(self.record)})"


@contextlib.contextmanager
def naming_tensors(lowered: KernelGraph) -> Generator[None]:
    """Adds the tensors of its buffers, and a picture, to the error of a program that does not fit."""
    try:
        yield
    except DoesNotFit as error:
        names = {kernel.name for kernel in lowered.kernels}
        if isinstance(error.program, TileProgram) and error.program.kernel in names:
            kernel = lowered.kernel(error.program.kernel)
            held = scratchpad.of_program(error.program, error.capacity, kernel, lowered)
            error.show(scratchpad.tensors_of_buffers(held), Scratchpad(held))
        raise
