"""Tables of tried remedies, with whole calls that can be run."""

from __future__ import annotations

import textwrap
from typing import Any

import pandas as pd
from markupsafe import Markup

from workbench.ground.basics import markup
from workbench.ground.basics.cards import Card, binding_html, cards_html, cards_text
from workbench.ground.basics.html_builder import html, trusted
from workbench.ground.basics.table import Table

MOST_OPEN = 6
"""Cards that are shown open."""
_WIDTH = 80
"""Width of a text in letters if pandas has none."""


class _ReadTable(pd.DataFrame):
    """A DataFrame with its own way to show its rows; `.table`, and any part of the rows, is a plain DataFrame."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """The rows as pandas shows them, as the `.table` of every other answer."""
        return pd.DataFrame(self)


class CardTable(_ReadTable):
    """Rows that are shown as cards."""

    _metadata = ["_cards", "_line"]  # noqa: RUF012 - as pandas wants it

    @property
    def binding(self) -> str:
        """The line that says what binds the run."""
        return vars(self).get("_line", "")

    @property
    def cards(self) -> tuple[Card, ...]:
        """The rows as cards; none if rows were removed in place."""
        return self._kept_of_rows("_cards")

    def _kept_of_rows(self, name: str) -> tuple[Any, ...]:
        """The values kept for the rows under a name; none if rows were removed in place."""
        kept: tuple[Any, ...] = vars(self).get(name, ())
        return kept if len(kept) == len(self) else ()

    @property
    def _whole(self) -> bool:
        return bool(self.cards) or self.empty

    def _repr_html_(self) -> Markup:
        if not self._whole:
            return trusted(pd.DataFrame(self)._repr_html_() or "")
        return markup.fragment(binding_html(self.binding) + cards_html(self.cards, MOST_OPEN))

    def __repr__(self) -> str:
        """The cards with whole reasons and remedies, as wide and with as many rows as pandas is set to show."""
        if not self._whole:
            return repr(pd.DataFrame(self))
        width, most = pd.get_option("display.width"), pd.get_option("display.max_rows")
        told = cards_text(self.cards, width or _WIDTH, most or len(self))
        return "\n\n".join(filter(None, [textwrap.fill(self.binding, width or _WIDTH), told]))


class StepTable(_ReadTable):
    """The followed remedies, step by step, and the number of remedies left."""

    _metadata = ["_more"]  # noqa: RUF012 - as pandas wants it

    def _rows(self) -> list[Any]:
        return list(self.itertuples())

    def _repr_html_(self) -> Markup:
        if not self._whole:
            return trusted(pd.DataFrame(self)._repr_html_() or "")
        table = Table(("step", "remedy", "cycles", "saves"), tuple(map(_cells, self._rows())))
        left = html("<p>{}</p>", self._left) if self._left else ""
        return markup.fragment(markup.table(table, wide=("remedy",)) + left)

    @property
    def _left(self) -> str:
        return vars(self).get("_more", "")

    @property
    def _whole(self) -> bool:
        """True if a step's columns are complete: some may have been dropped in place."""
        return {"step", "rule", "remedy", "cycles", "gain", "kept", "untried"} <= {*self.columns}

    def __repr__(self) -> str:
        if not self._whole:
            return repr(pd.DataFrame(self))
        lines = list[str]()
        for row in self._rows():
            step, remedy, cycles, saves = _cells(row)
            what = f"{step} {row.rule}".rstrip() if step else "as it is"
            told = f"{cycles:,} cycles" if isinstance(cycles, int) else ""
            more = "" if saves is None else f"saves {saves:,}" if isinstance(saves, int) else f"saves {saves}"
            more = row.untried or more
            lines.append(f"{what}: {', '.join(filter(None, [told, more]))}")
            lines += [f"    {remedy}"] if step else []
        if len(lines) == 1:
            lines.append("no finding has a remedy to follow")
        lines += [self._left] if self._left else []
        return "\n".join(lines)


def _cells(row: Any) -> tuple[int, str, int | None, int | str | None]:
    cycles = None if row.cycles is pd.NA else int(row.cycles)
    saves: int | str | None = None if row.gain is pd.NA else int(row.gain)
    if row.step and not row.kept:
        saves = row.untried or "nothing: not kept"
    return int(row.step), row.remedy or "as it is", cycles, saves
