"""A table as plain data, which becomes a DataFrame, an aligned text or HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.errors import BadOption

Cell: TypeAlias = str | int | float | bool | tuple["Cell", ...] | None


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name and rows of cells; a cell is a scalar or a tuple of them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    why_empty: str = ""
    """The reason why there are no rows, and the setting that gives some; empty if a reader would not wonder."""

    def pick(self, *columns: str) -> Table:
        """The same rows with only these columns, in this order."""
        for column in columns:
            if column not in self.columns:
                known = ", ".join(self.columns)
                raise BadOption(f"pick({column!r}): there is no such column; the table has {known}")
        places = [self.columns.index(column) for column in columns]
        return Table(columns, tuple(tuple(row[place] for place in places) for row in self.rows))

    @checks_what_it_is_given
    def text(self, *, indent: str = "", widest: int = 44) -> str:
        """Columns aligned for a terminal: numbers to the right, all else to the left, long cells cut."""
        cells = [[_cut(shown(cell), widest) for cell in row] for row in self.rows]
        right = [_all_numbers(row[place] for row in self.rows) for place in range(len(self.columns))]
        lines = [list(self.columns), *cells]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]

        def written(line: list[str]) -> str:
            parts = [
                f"{cell:>{width}}" if is_right else f"{cell:<{width}}"
                for cell, width, is_right in zip(line, widths, right, strict=True)
            ]
            return indent + "  ".join(parts).rstrip()

        return "\n".join(written(line) for line in lines)

    def html(self) -> Markup:
        """A plain HTML table in the notebook's own style."""
        head = joined(html("<th>{column}</th>", column=column) for column in self.columns)
        body = joined(
            html("<tr>") + joined(html("<td>{}</td>", shown(cell)) for cell in row) + html("</tr>") for row in self.rows
        )
        return html("<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", head=head, body=body)


def shown(cell: Cell) -> str:
    """A cell as a person reads it."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.4g}"
    if isinstance(cell, tuple):
        return ", ".join(str(part) if isinstance(part, int) else shown(part) for part in cell)
    return cell


def _cut(text: str, widest: int) -> str:
    return text if len(text) <= widest else text[: widest - 1] + "…"


def _all_numbers(cells: Iterable[Cell]) -> bool:
    return all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
