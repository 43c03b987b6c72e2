"""The lab's data of a journey, in plain values: a widget sends them on request, a page contains them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from workbench.explaining.views.selections.lab_lists import (
    InstructionList,
    Listing,
    ListRow,
    Marked,
    SpanList,
    call_list,
    kernel_list,
    rendered_list,
    scheduled_list,
    source_list,
)
from workbench.explaining.views.selections.selection import Selection
from workbench.exploring.summary import overview
from workbench.ground.basics.html_builder import as_html
from workbench.stages.journey_request import Request
from workbench.stages.pipeline import Stages

if TYPE_CHECKING:
    from workbench.checking.check_report import Check

STAGES: Final = ("capture", "lower", "render", "schedule", "program", "timeline")
CHECKED: Final = {"capture": "captured", "render": "rendered", "schedule": "scheduled", "timeline": "simulated"}
"""The stages whose numbers are compared with PyTorch's, with their names in `j.check`."""

LISTS: Final[Mapping[str, Callable[[Stages], Listing]]] = {
    "python": lambda stages: source_list(stages.captured().record, stages.sources()),
    "calls": lambda stages: call_list(stages.captured().record),
    "kernels": lambda stages: kernel_list(stages.lowered().record),
    "rendered": lambda stages: rendered_list(stages.rendered().record),
    "scheduled": lambda stages: scheduled_list(stages.scheduled().record),
    "instructions": lambda stages: InstructionList(stages.scheduled().record),
    "spans": lambda stages: SpanList(stages.simulated().record, stages.scheduled().record.launches.launches),
}
PAGE: Final = 50
"""The number of rows that the browser asks for at once; the first ones are sent with the list."""


def stage_cards(request: Request, stages: Stages, checks: Mapping[str, Check]) -> list[dict[str, object]]:
    """Each stage's figures and its result of `j.check`."""
    told = {stage.name: stage for stage in overview(request, stages, None, ()).stages}
    scheduled = told["scheduled"].figures
    figures = {
        "capture": list(told["captured"].figures),
        "lower": list(told["lowered"].figures),
        "render": list(told["rendered"].figures),
        "schedule": list(scheduled[:1]),
        "program": [figure.removesuffix(" on tiles") for figure in scheduled[1:]],
        "timeline": list(told["simulated"].figures),
    }
    return [{"name": name, "figures": figures[name], "check": _checked(name, checks)} for name in STAGES]


def _checked(stage: str, checks: Mapping[str, Check]) -> dict[str, object] | None:
    check = checks.get(CHECKED.get(stage, ""))
    return None if check is None else {"ok": check.ok, "said": check.text().splitlines()[0]}


def about_list(listing: Listing) -> dict[str, object]:
    """The data sent with a list, besides its rows."""
    return {
        "title": listing.title,
        "columns": list(listing.columns),
        "count": len(listing),
        "entries": listing.entries(),
        "uncut": dict(listing.uncut()),
        "widest": listing.widest(),
        "outline": [[row, as_html(title)] for row, title in listing.outline()],
    }


def about_selection(chosen: Selection) -> dict[str, object]:
    """The text of a selection: its name, its parts at each stage, and why a call left no trace."""
    return {
        "what": chosen.what,
        "counts": counts_of(chosen),
        "cycles": chosen.cycles,
        "absorbed": reasons_of(chosen),
    }


def counts_of(chosen: Selection) -> tuple[str, ...]:
    """The size of a selection at each stage."""
    counts = [
        (len(chosen.source_lines), "line of Python", "lines of Python"),
        (len(chosen.nodes), "call", "calls"),
        (len(chosen.kernels), "kernel", "kernels"),
        (len(chosen.rendered_lines), "line on tensors", "lines on tensors"),
        (len(chosen.mlir_lines), "line on tiles", "lines on tiles"),
        (len(chosen.instructions), "instruction", "instructions"),
        (len(chosen.buffers), "buffer", "buffers"),
        (len(chosen.spans), "span", "spans"),
    ]
    return tuple(f"{count:,} {one if count == 1 else more}" for count, one, more in counts)


def reasons_of(chosen: Selection) -> tuple[str, ...]:
    """For each selected call that left no trace, the reason."""
    return tuple(f"{gone.node}: {gone.reason}" for gone in chosen.absorbed)


def cells(page: Sequence[ListRow]) -> list[tuple[tuple[Markup, ...], bool, int, bool]]:
    """Rows as they are sent: the cells as HTML, True for a title, the depth, and True if the row can be selected."""
    return [(tuple(map(as_html, row.cells)), row.head, row.depth, row.thing is not None) for row in page]


def packed(rows: Marked) -> bytes:
    return rows.astype("<u4", copy=False).tobytes()
