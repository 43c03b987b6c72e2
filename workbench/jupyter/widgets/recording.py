"""A journey recorded for a page without Python: the answers to all questions that the lab may ask.

The selection of each row of a list is kept by number, and so are the parts that selections share: the rows that they
mark, the parts of their table, their texts. Numbers are columns, texts are JSON, each once; `js/record.js` reads the
record.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from workbench.explaining.views.selections.lab_lists import Listing, SpanList
from workbench.explaining.views.selections.lookup import names_of, select
from workbench.explaining.views.selections.selection import Selection, rows_html
from workbench.explaining.views.timelines.columns import packed
from workbench.ground.basics.html_builder import as_html
from workbench.ground.errors import WorkbenchError
from workbench.jupyter.widgets.answers import Answer, Buffer, Later
from workbench.jupyter.widgets.look import Look
from workbench.jupyter.widgets.plain_values import (
    CHECKED,
    LISTS,
    PAGE,
    about_list,
    cells,
    counts_of,
    reasons_of,
    stage_cards,
)
from workbench.jupyter.widgets.timeline_widget import TimelineSource
from workbench.stages.journey_request import Request
from workbench.stages.pipeline import Stages

if TYPE_CHECKING:
    from workbench.checking.check_report import Check
    from workbench.explaining.views.selections.origins import OriginIndex

T = TypeVar("T", bound=Hashable)

VERSION: Final = 1
MOST_ROWS: Final = 20_000
"""The most rows whose selections are recorded, which takes about half a minute. Longer lists can only be read, up to
this many rows; the list of spans is not cut, because a page takes no more spans anyway."""
_ALIGNED: Final = 8
_BLOCKS: Final = ("timeline", "dependences", "critical")
_UNKNOWN: Final = (
    "this page has no Python, and finds calls, ops, kernels, modules and lines of Python by their names, k0:12 "
    "for a line of MLIR on tiles, k0#3 for an instruction and span 5. j.select(x) takes all names"
)
_MISSING: Final = "This page has no Python and no recorded answer to that; j.widget() has."


class _Numbered(Generic[T]):
    """Numbers things: equal things get the same number."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}

    def number(self, thing: T) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))

    @property
    def things(self) -> list[T]:
        return list(self._numbers)


class _Buffers:
    """Blocks of bytes one after another, by number."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []
        self._parts: list[bytes] = []
        self._size = 0

    def number(self, data: Buffer) -> int:
        part = bytes(data)
        self.places.append((self._size, len(part)))
        self._parts.append(_filled(part))
        self._size += len(self._parts[-1])
        return len(self.places) - 1

    def answered(self, answer: Answer | Later) -> tuple[dict[str, object], list[int]]:
        """An answer of a widget's, its buffers by number."""
        found = (answer.make() if isinstance(answer, Later) else answer) or {}
        plain, columns = found if isinstance(found, tuple) else (found, ())
        return dict(plain), [self.number(each) for each in columns]

    def whole(self) -> bytes:
        return b"".join(self._parts)


def recorded(
    request: Request, stages: Stages, checks: Mapping[str, Check], looks: Sequence[Look], chosen: Selection | None
) -> str:
    """The record as text for a page. `chosen` is the selection when the page opens."""
    buffers, index = _Buffers(), stages.origins()
    lists = {name: make(stages) for name, make in LISTS.items()}
    told = {stage: checks[name].text() for stage, name in CHECKED.items() if name in checks}
    kept = {look.name: questions for look in looks if (questions := look.recorded()) is not None}
    plain = {
        "version": VERSION,
        "page": PAGE,
        "open": {"stages": stage_cards(request, stages, checks), "at": "capture", "checkable": list(told),
                 "looks": list(kept)},
        "checks": told,
        **_selected(index, lists, chosen, buffers),
        **_of_timeline(TimelineSource(stages.simulated()), buffers),
        "looks": [
            (f"{look.name}.{ask}", given, *buffers.answered(look.answer(ask, given)))
            for look in looks for ask, given in kept.get(look.name, ())
        ],
        "missing": _MISSING,
    }  # fmt: skip
    text = json.dumps({**plain, "buffers": buffers.places}, allow_nan=False, separators=(",", ":")).encode()
    whole = _filled(len(text).to_bytes(4, "little") + text) + buffers.whole()
    return base64.b64encode(gzip.compress(whole, 9, mtime=0)).decode()


def _filled(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNED)


def _selected(
    index: OriginIndex, lists: Mapping[str, Listing], chosen: Selection | None, buffers: _Buffers
) -> dict[str, object]:
    """The lists, the selection of each of their rows and of each name, and all these selections."""
    selections, columns, told = _Numbered[Selection](), dict[str, Any](), dict[str, dict[str, object]]()
    rows = 0
    for name, listing in sorted(lists.items(), key=lambda each: len(each[1])):
        rows += len(listing)
        reason = "" if rows <= MOST_ROWS else _left_out(listing)
        most = _most_rows(listing)
        page = listing.page(0, most)
        things = [None if reason else row.thing for row in page]
        found = (0 if thing is None else selections.number(select(index, thing)) + 1 for thing in things)
        columns[f"row_{name}"] = np.fromiter(found, np.int64)
        shown = cells(page)
        told[name] = {**about_list(listing), "rows": shown, "left_out": reason}
        if reason:
            told[name] |= {
                "title": f"{listing.title}, {'to read' if len(listing) == most else f'the first {most:,} to read'}",
                "count": most,
                "outline": [[row, as_html(title)] for row, title in listing.outline() if row < most],
                "rows": [(*row[:3], False) for row in shown],
            }
    names = _names(index, selections)
    first = None if chosen is None else selections.number(chosen)
    texts, numbers = _columns(selections.things, lists)
    block = packed({}, columns | numbers)
    return {
        "lists": {name: told[name] for name in lists},
        "selections": {**texts, "header": dict(block.header), "buffer": buffers.number(block.data)},
        "names": names,
        "unknown": _UNKNOWN,
        "selected": first,
    }


def _most_rows(listing: Listing) -> int:
    """The number of rows of a list that the page has."""
    return len(listing) if isinstance(listing, SpanList) else min(len(listing), MOST_ROWS)


def _left_out(listing: Listing) -> str:
    return (
        f"{listing.title} cannot be selected in this page: the selections of {len(listing):,} more rows would make it "
        "too large. wb.load(...) and j.widget() have them all"
    )


def _names(index: OriginIndex, selections: _Numbered[Selection]) -> dict[str, int | str]:
    """Text that can be typed -> the number of its selection, or the reason why it selects nothing."""
    found = dict[str, int | str]()
    numbered = (name.partition("_")[0] for name in index.kernel_nodes)
    here = {node.origin.place for node in index.captured.values()}
    sources = {place: text for place, text in index.sources.items() if place in here}
    for name in (*names_of(index), *numbered, *sources, *(text.strip() for text in sources.values())):
        try:
            found[name] = selections.number(select(index, name))
        except WorkbenchError as error:
            found[name] = str(error)
    return found


def _columns(
    chosen: Sequence[Selection], lists: Mapping[str, Listing]
) -> tuple[dict[str, object], dict[str, npt.NDArray[Any]]]:
    """Selections as texts, and as columns of numbers."""
    counts, reasons, parts, marks = (
        _Numbered[tuple[str, ...]](),
        _Numbered[tuple[str, ...]](),
        _Numbered[tuple[tuple[str, str], ...]](),
        _Numbered[bytes](),
    )
    threads = [[parts.number(rows) for rows in each.table_rows()] for each in chosen]
    columns = {
        "cycles": [each.cycles for each in chosen],
        "counts": [counts.number(counts_of(each)) for each in chosen],
        "absorbed": [reasons.number(reasons_of(each)) for each in chosen],
        "thread_first": np.cumsum([0, *map(len, threads)]),
        "thread_parts": [part for parts_of in threads for part in parts_of],
    }
    for name, listing in lists.items():
        most = _most_rows(listing)
        rows = (listing.rows_of(each) for each in chosen)
        columns[f"marks_{name}"] = [marks.number(each[each < most].tobytes()) for each in rows]
    sets = [np.frombuffer(each, np.uint32) for each in marks.things]
    columns["set_first"] = np.cumsum([0, *map(len, sets)])
    columns["set_steps"] = np.concatenate([np.zeros(0, np.uint32), *(np.diff(each, prepend=0) for each in sets)])
    texts = {"what": [each.what for each in chosen], "counts": counts.things, "absorbed": reasons.things}
    return {**texts, "parts": [*map(rows_html, parts.things)]}, {
        name: np.asarray(each, np.int64) for name, each in columns.items()
    }


def _of_timeline(source: TimelineSource, buffers: _Buffers) -> dict[str, object]:
    """The timeline's blocks of columns, and the findings about each piece of idle time."""
    blocks = dict[str, object]()
    for what in _BLOCKS:
        answer, (number,) = buffers.answered(source.columns(what))
        blocks[what] = {**answer, "buffer": number}
    idle, answers = source.view.idle_time, _Numbered[str]()
    answers.number(json.dumps({"findings": []}))  # for idle time outside kernels
    launches = [
        (begin, end, answers.number(json.dumps(buffers.answered(source.findings_in(begin))[0])))
        for begin, end in source.simulated.replays.times
    ]  # for a unit that has nothing left to do in a kernel
    places = dict[str, list[tuple[int, int, int]]]()
    lanes: list[int] = idle.lane.tolist()
    for lane, begin, end in zip(lanes, idle.start.tolist(), idle.end.tolist(), strict=True):
        unit = source.view.lanes[lane].name
        answer, _ = buffers.answered(source.findings(unit, begin))
        places.setdefault(unit, []).append((begin, end, answers.number(json.dumps(answer))))
    return {
        "blocks": blocks,
        "gaps": {"places": places, "launches": launches, "answers": list(map(json.loads, answers.things))},
    }
