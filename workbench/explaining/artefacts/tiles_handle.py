"""The tiles of one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.handle import count_of
from workbench.explaining.artefacts.pictures import drawing
from workbench.explaining.views.scratchpads import tiles
from workbench.explaining.views.scratchpads.tile_pictures import tile_pictures
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.svg_painter import side_by_side
from workbench.ground.environment.verb_options import knows_its_options

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.plot_types import Figure
    from workbench.explaining.views.scratchpads.tiles import Tiling


@dataclass(frozen=True, repr=False)
class Tiles(Shown):
    """Which box of which tensor each instruction of a kernel touches, and how often elements are moved."""

    record: Tiling

    @property
    def kernel(self) -> str:
        return self.record.kernel

    @property
    def table(self) -> pd.DataFrame:
        """One row a box that an instruction reads or writes, in program order: `start` and `extent` along the tensor's
        axes, `step` from one element to the next, and the buffer and slot in which the box lies.

        What stays in the scratchpad has no start; `padding` is put around a tile and is not of the tensor. Where
        `exact` is False the instruction touches some elements of the box: those that indices choose, or part of a tile
        that reaches over the tensor's border.
        """
        return data_frames.frame(tiles.tiles_table(self.record))

    @property
    def moved(self) -> pd.DataFrame:
        """One row a tensor that is moved from or to DRAM: its elements moved in all, the least it takes, how often each
        is moved on average and at most, and elements of padding. Where indices choose the elements, least, average and
        most are not known and left empty."""
        return data_frames.frame(tiles.moved_table(self.record))

    @knows_its_options
    def text(self) -> str:
        """How often each tensor is moved, and every box."""
        return tiles.tiles_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """Each tensor as a grid of tiles in the order in which they are moved."""
        return markup.fragment(side_by_side(tile_pictures(self.record)))

    @knows_its_options
    def plot(self, *, style: str = "theme", width: float = 11.0) -> Figure:
        """The same pictures with matplotlib: `style` is light, dark or the notebook's theme, `width` inches."""
        instead = "As text they are j.scheduled.tiles(kernel).text()."
        return drawing(instead).figure(tile_pictures(self.record), style=style, width=width, columns=3)

    def __repr__(self) -> str:
        boxes = count_of(len(self.record.touches), "box").replace("boxs", "boxes")
        return f"Tiles({self.kernel!r}, {boxes}, {count_of(len(self.record.tensors), 'tensor')})"
