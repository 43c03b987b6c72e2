"""The timeline's picture: honest when crowded, quick when large, and with a colour for everything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from simulator import Cause
from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK
from simulator.records.spans import Wait
from simulator.tileprogram.program import Opcode
from simulator.units.unit_table import STALLS
from workbench.explaining.views.timelines.gantt import OTHER, Gantt, Spans, gantt
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.ground.basics.colours import DARK, LIGHT, Style
from workbench.jupyter.plot_pictures import figure


def timeline(spans_per_lane: int, *, busy: int = 3, waits: int = 0, period: int = 10) -> Gantt:
    """Two lanes, each busy for `busy` cycles in every `period`, after `waits` on the way."""
    start = np.arange(spans_per_lane, dtype=np.int64) * period
    both = np.concatenate([start, start])
    lane = np.repeat(np.arange(2, dtype=np.int64), spans_per_lane)
    kind = np.where(lane == 0, Opcode.LOAD, Opcode.VECTOR).astype(np.int64)
    cause, none = np.full(len(lane), Cause.DATA, np.int64), np.zeros_like(lane)
    return gantt(
        Spans(lane, both, both + waits + busy, kind, cause, none, np.full((len(lane), 1), waits), cause, ()),
        units=[("dma0", "DMA"), ("vpu", "vector")],
        kinds=[code.name for code in Opcode],
        causes=[each.label for each in Cause],
        waits=[Wait.INTERCONNECT.label],
        launches=[("kernel", 0, spans_per_lane * period)],
        makespan=spans_per_lane * period,
        clock_mhz=1000.0,
    )


def drawn(view: Gantt, width: float) -> Figure:
    return figure([partial(gantt_picture, view)], style="light", width=width)


def pixels(view: Gantt) -> np.ndarray:
    canvas = FigureCanvasAgg(drawn(view, 8))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].astype(int)


def amount_of(image: np.ndarray, colour: str) -> int:
    wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
    return int((abs(image - wanted).sum(axis=2) < 12).sum())


def faded(colour: str) -> str:
    """A colour of which 35% lies over the ground of a lane, which is 55% of `faint` over a launch's."""

    def over(share: float, above: str, below: str) -> str:
        parts = ((int(each[place : place + 2], 16) for each in (above, below)) for place in (1, 3, 5))
        return "#" + "".join(f"{round(share * own + (1 - share) * ground):02X}" for own, ground in parts)

    return over(0.35, colour, over(0.55, LIGHT.faint, LIGHT.band))


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_every_kind_and_every_cause_has_a_colour_of_its_own(style: Style):
    assert set(style.kinds) == {*(code.name for code in Opcode), OTHER}
    told = {cause.label for cause in Cause if cause != Cause.BANDWIDTH} | {MEMORY_PEAK, INEFFICIENT}
    assert set(style.causes) == told
    assert set(style.waits) == {wait.label for wait in Wait if wait != Wait.MEMORY_BUS} | set(STALLS)
    assert len(set(style.kinds.values())) == len(style.kinds)
    assert len(set(style.causes.values())) == len(style.causes)


def test_a_crowded_lane_shows_as_much_colour_as_it_is_busy():
    few, many = pixels(timeline(20)), pixels(timeline(20_000))
    sparse, crowded = amount_of(few, LIGHT.kinds["VECTOR"]), amount_of(many, LIGHT.kinds["VECTOR"])
    assert sparse > 1000
    assert crowded == pytest.approx(sparse, rel=0.15)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("spans_per_lane", [20, 20_000])
def test_a_bar_is_faded_where_its_span_waits(spans_per_lane: int):
    """As much full colour as the lane works, three cycles in ten, and as much faded as it waits, four in ten."""
    image, kind = pixels(timeline(spans_per_lane, waits=4)), LIGHT.kinds["VECTOR"]
    full, pale = amount_of(image, kind), amount_of(image, faded(kind))
    assert full == pytest.approx(amount_of(pixels(timeline(20)), kind), rel=0.2)
    assert pale == pytest.approx(full * 4 / 3, rel=0.2)
    assert amount_of(image, LIGHT.waits["interconnect"]) > 0


def test_a_hundred_thousand_spans_are_drawn_as_no_more_corners_than_a_few_thousand():
    """The number of corners takes the time; it follows from the pixels, not from the spans."""
    some, many = corners(timeline(5_000)), corners(timeline(50_000))
    assert many == some
    assert many < 50_000


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("cores", [2, 8])
def test_the_units_that_do_nothing_are_named_within_the_picture(cores: int, width: float):
    names = tuple(f"core{core}.dma{queue}" for core in range(cores) for queue in range(8))
    picture = drawn(replace(timeline(20), unused=names), width)
    picture.canvas.draw()
    (axes,) = picture.axes
    box, whole = axes.xaxis.label.get_window_extent(), picture.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1
    assert "idle throughout: core0.dma0" in axes.get_xlabel() and axes.get_xlabel().endswith(("…", names[-1]))


def corners(view: Gantt) -> int:
    (axes,) = drawn(view, 8).axes
    return sum(len(path.vertices) for each in axes.collections for path in each.get_paths())


def test_an_empty_timeline_is_drawn():
    empty = timeline(0)
    assert empty.lanes == ()
    assert amount_of(pixels(empty), LIGHT.kinds["LOAD"]) == 0
