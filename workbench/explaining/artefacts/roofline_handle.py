"""The roofline of a run, as `j.simulated.roofline`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.pictures import drawing
from workbench.explaining.views.timelines.roofline_picture import roofline_picture
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.environment.verb_options import knows_its_options

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.plot_types import Axes
    from workbench.explaining.views.timelines.roofline import Roofline


@dataclass(frozen=True, repr=False)
class RooflineView(Shown):
    """The operations of each kernel for its bytes, under the machine's roofs."""

    record: Roofline

    @property
    def table(self) -> pd.DataFrame:
        """One row a kernel, then one for the `whole` run; steps on the host are in neither.

        Operations are multiply-adds of the arrays (`macs`) and operations on elements, each of which is one. Bytes are
        the needed ones, those that the memory moved in whole requests, and the least possible: each input and result of
        the kernel once; for the whole each input, weight and result of the function once. `run` and `stretch` are the
        mean bytes that lie together in DRAM and that a queue moves side by side. `intensity` is operations for each
        byte, moved or least. `ceiling` is the roof that applies: the part of the machine that needs most cycles for
        this work; `share` is these cycles over the kernel's cycles.
        """
        return data_frames.frame(self.record.table())

    @knows_its_options
    def text(self) -> str:
        """The table in short, and the kernels outside the picture."""
        shown = ("kernel", "cycles", "intensity", "intensity_least", "ops_per_cycle", "ceiling", "share")
        table = self.record.table()
        return "\n".join([table.pick(*shown).text() if table.rows else table.why_empty, *self.record.notes()])

    @knows_its_options
    def html(self) -> Markup:
        """The picture, and the table below it, closed."""
        table = self.record.table()
        rows = markup.details("table", markup.table(table), note=f"{len(table.rows)} rows")
        return markup.fragment(svg_of(roofline_picture(self.record)) + (rows if table.rows else ""))

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "theme", width: float = 9.0) -> Axes:
        """The picture with matplotlib: `style` is light, dark or the notebook's theme, `width` its inches."""
        return drawing().axes(functools.partial(roofline_picture, self.record), ax, style=style, width=width)

    def __repr__(self) -> str:
        if self.record.whole is None:
            return f"RooflineView(nothing runs on {self.record.machine})"
        whole = self.record.whole
        return f"RooflineView({len(self.record.points)} kernels, {whole.share:.0%} of {whole.ceiling or 'no roof'})"
