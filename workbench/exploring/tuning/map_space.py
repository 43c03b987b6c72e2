"""The answer of `j.scheduled.mapspace(kernel)`: every candidate, with predicted and, if measured, simulated cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.exploring.tuning.explored import Explored
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Cell, Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.scheduling.user_mapping import UserMapping

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 24
"""The number of rows, the fastest candidates, in text and HTML."""


@dataclass(frozen=True, repr=False)
class MapSpace(Shown):
    """The legal mappings of a kernel, fastest prediction first. Simulated ones have their cycles, or the reason of
    their refusal."""

    _explored: Explored

    def __len__(self) -> int:
        return len(self._explored.space.candidates)

    @property
    def kernel(self) -> str:
        return self._explored.kernel

    @property
    def table(self) -> pd.DataFrame:
        """One row for each candidate: its tile, order, slots and cores; predicted cycles; a lower bound of its cycles;
        simulated cycles and bytes of DRAM, or the reason of its refusal; in `today`, True for the current mapping."""
        return data_frames.frame(self._table(range(len(self))), whole=("cycles", "bytes"))

    frame = table

    @knows_its_options
    def mapping(self, row: int) -> UserMapping:
        """The mapping of a row of the table: `j.with_(mapping={kernel: space.mapping(0)})`."""
        if not 0 <= row < len(self):
            raise BadOption(f"mapping({row}): the space has rows 0 to {len(self) - 1:,}")
        return self._explored.mapping(row)

    def _table(self, places: range | list[int]) -> Table:
        found = self._explored
        first = found.space.candidates[0].mapping
        spread = dict.fromkeys(dim for each in found.space.candidates for dim in each.mapping.cores)
        columns = (
            *(f"tile.{dim}" for dim in first.tile),
            "order",
            "buffers",
            *(f"cores.{dim}" for dim in spread),
            *("predicted", "least", "cycles", "bytes", "refused", "today"),
        )
        rows = list[tuple[Cell, ...]]()
        for place in places:
            each, cost = found.space.candidates[place], found.costs.get(place)
            made = each.mapping
            rows.append(
                (
                    *(made.tile[dim] for dim in first.tile),
                    " ".join(made.order),
                    made.buffers,
                    *(made.cores.get(dim, 1) for dim in spread),
                    each.predicted,
                    each.least,
                    cost.cycles if cost else None,
                    cost.bytes if cost else None,
                    cost.refused if cost else "",
                    place == found.today,
                )
            )
        return Table(columns, tuple(rows))

    def _told(self) -> Table:
        """The table of the fastest simulated candidates, then of the lowest predictions."""
        fastest = self._explored.fastest[:_SHOWN]
        others = [place for place in range(len(self)) if place not in fastest]
        return self._table([*fastest, *others][:_SHOWN])

    @knows_its_options
    def text(self) -> str:
        """The fastest candidates."""
        return f"{self!r}\n\n{self._told().text(widest=60)}"

    @knows_its_options
    def html(self) -> Markup:
        head = html("<p>{}</p>", repr(self))
        return markup.fragment(head + markup.table(self._told(), wide=("refused",)))

    def __repr__(self) -> str:
        found = self._explored
        return (
            f"MapSpace({self.kernel!r}: {len(self):,} candidates of {found.space.ladder}, {len(found.costs):,} "
            f"simulated, {len(found.refused):,} refused)"
        )
