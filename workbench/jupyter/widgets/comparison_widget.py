"""Two to four journeys side by side: what changed, by how much and where, and all timelines locked in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import traitlets
from markupsafe import Markup

from workbench.explaining.artefacts import Simulated
from workbench.exploring.summary import MOST_SPANS
from workbench.ground.basics.table import Table
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.answers import Answer, Later
from workbench.jupyter.widgets.timeline_widget import SHEETS, AnswersTimelines, TimelineSource
from workbench.jupyter.widgets.widget_base import LabWidget

if TYPE_CHECKING:
    from workbench.explaining.views.comparisons.compare import Compared
    from workbench.exploring.comparison import Comparison

NONE: Final = -1
"""No row is marked."""
_MOST: Final = 4
"""The most timelines below each other that a reader can take in at once."""


class ComparisonWidget(AnswersTimelines, LabWidget, module="comparing.js", sheets=(*SHEETS, "comparing.css")):
    """The result of `wb.compare(...).widget()`. `row` is the marked row of `.nodes`, -1 for none; setting it marks a
    row."""

    row = traitlets.Int(NONE).tag(sync=True)

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self._sources = [
            TimelineSource(Simulated(run.trace, run.scheduled, run.lowered)) for run in comparison.record.runs
        ]
        super().__init__()
        self.at_close(self._sources.clear)

    @traitlets.validate("row")
    def _row(self, proposal: traitlets.Bunch) -> int:
        row, count = cast("int", proposal["value"]), len(self.comparison.record.lines)
        if not NONE <= row < count:
            raise BadOption(f"row = {row}: expected a row of .nodes, 0 to {count - 1}, or -1 for none")
        return row

    # Answers to the browser

    def answer_open(self) -> Answer:
        """All tables; the browser asks for the timelines one by one."""
        record = self.comparison.record
        ratios = record.ratios()
        heads = ["µs" if name == "time_us" else name.replace("_", " ") for name in ratios.columns]
        return {
            "names": list(record.names),
            "sentences": record.sentences(totals=len(record.names) == 2),
            "journeys": {**_plain(ratios), "columns": heads},
            "changes": _plain(record.changes()),
            "stages": _plain(record.stages()),
            "lines": [
                {
                    "what": line.what,
                    "change": line.change,
                    "cycles": list(line.cycles),
                    "bytes": list(line.bytes),
                    "kernels": list(line.kernels),
                    "marks": bool(line.launches),
                }
                for line in record.lines
            ],
        }

    def answer_spans(self, row: int) -> Answer:
        """The spans of each timeline that belong to a row of the table."""
        record = self.comparison.record
        if not 0 <= row < len(record.lines):
            raise BadOption(f"there is no row {row}; rows are 0 to {len(record.lines) - 1}")
        return {}, [each.astype("<u4").tobytes() for each in record.spans(record.lines[row])]

    def answer_line(self, run: int, span: int) -> Answer:
        """The row of the table to which a span belongs."""
        return {"row": self.comparison.record.line_of(run, span)}

    def _source(self, run: int) -> TimelineSource:
        return self._sources[run]

    def answer_findings(self) -> Later:
        """The findings that came and went, seen from the first journey."""

        def found() -> Answer:
            record = self.comparison.record
            if max(map(len, record.traces)) > MOST_SPANS:
                return {"note": "with this many spans they take a while: .findings has them", "moved": [], "stay": 0}
            moved = moved_findings(record)
            return {"moved": moved, "stay": len(record.findings) - len(moved)}

        return Later(found)

    # For readers without a kernel

    def static_html(self) -> Markup:
        return self.comparison.html()

    def __repr__(self) -> str:
        return f"ComparisonWidget({'' if self.live else 'closed, '}{self.comparison!r})"


def moved_findings(compared: Compared) -> list[dict[str, object]]:
    """The findings that came and went, in plain values."""
    return [
        {
            "change": each.change,
            "rule": each.rule,
            "what": compared.title(each.groups),
            "reason": each.reason,
            "cycles": [None if of is None else of.cycles for of in each.each],
        }
        for each in compared.findings
        if each.change != "stays"
    ]


def _plain(table: Table) -> dict[str, object]:
    """A table in plain values."""
    return {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}


def comparing(comparison: Comparison) -> ComparisonWidget:
    """The widget of a comparison."""
    count = len(comparison.record.runs)
    if count > _MOST:
        raise BadOption(
            f"widget(): the widget shows 2 to {_MOST} journeys, and these are {count}. "
            f"Compare fewer of them, or show all with .html()"
        )
    return ComparisonWidget(comparison)
