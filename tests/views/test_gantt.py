"""The timeline's geometry: shares of pixels are exact, waits lie before the span that ends them."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.explaining.views.timelines.gantt import Gantt, Spans, fitting, gantt, occupancy, unused_text
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.explaining.views.timelines.letters import timeline_text
from workbench.ground.basics.colours import DARK, LIGHT, Style
from workbench.ground.basics.picture import round_numbers
from workbench.ground.basics.svg_painter import svg_of


def spans(*rows: tuple[int, int, int, int, int, int], waits: tuple[tuple[int, int], ...] = ()) -> Spans:
    """Rows of (lane, start, end, kind, cause, launch), and what each waits for on its way."""
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    within = np.array(waits or [(0, 0)] * len(rows), np.int64).reshape(-1, 2)
    cause = columns[4].copy()
    return Spans(*(column.copy() for column in columns), waits=within, idle=cause, tails=())


def view(made: Spans, makespan: int) -> Gantt:
    return gantt(
        made,
        units=[("dma 0", "DMA"), ("vector", "vector")],
        kinds=["LOAD", "VECTOR"],
        causes=["issue", "data"],
        waits=["interconnect", "memory_row"],
        launches=[("first", 0, 25), ("second", 28, 41)],
        makespan=makespan,
        clock_mhz=1000.0,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60), st.integers(0, 2)), max_size=12),
    st.integers(1, 23),
    st.integers(-10, 90),
    st.integers(1, 150),
)
def test_occupancy_is_the_covered_share_of_every_interval(
    pieces: list[tuple[int, int, int]], bins: int, first: int, width: int
):
    # Spans of one group never overlap on a lane: lay them one after another.
    ends = [0, 0, 0]
    rows: list[tuple[int, int, int]] = []
    for gap, length, group in pieces:
        start = ends[group] + gap
        ends[group] = start + length
        rows.append((start, ends[group], group))
    start, end, group = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    edges = np.linspace(first, first + width, bins + 1)
    got = occupancy(start, end, group, 3, edges)
    for which in range(3):
        for place in range(bins):
            left, right = edges[place], edges[place + 1]
            covered = sum(max(0.0, min(e, right) - max(s, left)) for s, e, g in rows if g == which)
            assert got[which, place] == pytest.approx(covered / (right - left), abs=1e-9)


def test_a_wait_reaches_from_the_last_span_of_the_lane_to_the_next():
    made = view(spans((0, 30, 40, 0, 1, 0), (0, 5, 10, 0, 0, 0), (1, 12, 20, 1, 1, 0)), makespan=40)
    lane = made.of_lane(0)
    assert made.start[lane].tolist() == [5, 30]
    idle = made.idle_time
    assert idle.start[idle.of_lane(0)].tolist() == [0, 10] and idle.end[idle.of_lane(0)].tolist() == [5, 30]
    assert idle.start[idle.of_lane(1)].tolist() == [0]


def test_what_a_span_waits_for_on_its_way_lies_before_its_work_and_is_idle_time():
    rows = ((0, 5, 20, 0, 0, 0), (0, 20, 25, 0, 1, 0), (1, 25, 40, 1, 1, 0))
    made = view(spans(*rows, waits=((4, 6), (0, 0), (0, 0))), makespan=40)
    idle = made.idle_time
    pieces = zip(*(column[idle.of_lane(0)].tolist() for column in (idle.start, idle.end, idle.cause)), strict=True)
    named = [(start, end, made.causes[cause]) for start, end, cause in pieces]
    assert named == [(0, 5, "issue"), (5, 9, "interconnect"), (9, 15, "memory_row")]
    assert made.work_start[made.of_lane(0)].tolist() == [15, 20] and made.lanes[0].busy == 10 / 40
    edges = np.linspace(0, 40, 9)
    assert made.held(0, edges)[0].tolist() == [0, 1, 1, 0, 0, 0, 0, 0]
    assert made.busy(0, edges)[0].tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    assert timeline_text(made, width=8).splitlines()[-4].endswith("  .~~LL...")
    assert "~ waits on its way" in timeline_text(made)
    picture = svg_of(gantt_picture(made))
    assert picture.count("opacity:0.35") == 2 and "15 cycles, 10 of them on its way" in picture
    assert picture.count("var(--c-interconnect)") == 2  # the strip and the legend


def test_where_nothing_waits_on_its_way_no_legend_has_it():
    made = view(spans((0, 5, 10, 0, 0, 0)), makespan=40)
    assert "on its way" not in timeline_text(made) + svg_of(gantt_picture(made))


def test_busy_and_idle_fill_the_lane_up_to_its_last_span():
    made = view(spans((0, 5, 10, 0, 0, 0), (0, 30, 40, 0, 1, 0)), makespan=40)
    edges = np.linspace(0, 40, 9)
    filled = made.busy(0, edges).sum(axis=0) + made.idle(0, edges).sum(axis=0)
    assert filled.tolist() == pytest.approx([1.0] * 8)
    assert made.lanes[0].busy == 15 / 40


def test_nothing_waits_before_its_launch_begins():
    made = view(spans((0, 0, 10, 0, 0, 0), (0, 30, 41, 0, 0, 1)), makespan=41)
    assert made.idle_time.start.tolist() == [28]


def test_bands_span_their_launches():
    made = view(spans((0, 0, 10, 0, 0, 0), (1, 10, 25, 1, 0, 0), (0, 30, 41, 0, 0, 1)), makespan=41)
    assert [(band.kernel, band.start, band.end) for band in made.bands] == [("first", 0, 25), ("second", 30, 41)]


def test_a_unit_that_does_nothing_has_no_lane():
    made = view(spans((1, 10, 25, 1, 0, 0)), makespan=25)
    assert [lane.name for lane in made.lanes] == ["vector"]
    assert made.unused == ("dma 0",)
    assert made.start[made.of_lane(0)].tolist() == [10]


def test_of_many_units_that_do_nothing_some_are_named_and_the_others_counted():
    names = [f"core{core}.dma{queue}" for core in range(4) for queue in range(3)]
    assert unused_text(names, 1000) == f"idle throughout: {', '.join(names)}"
    assert unused_text(names, 51) == "idle throughout: core0.dma0, core0.dma1 and 10 more"
    assert unused_text(names, 50) == "idle throughout: core0.dma0 and 11 more"
    assert unused_text(names, 5) == "idle throughout: core0.dma0 and 11 more"
    assert unused_text(["vpu"], 5) == "idle throughout: vpu"


def test_an_empty_timeline_has_nothing():
    made = view(spans(), makespan=0)
    assert made.lanes == () and made.unused == ("dma 0", "vector")
    assert made.bands == () and made.used_kinds() == ()


def test_what_a_launch_takes_lies_between_the_end_of_one_and_the_begin_of_the_next():
    made = view(spans((0, 0, 10, 0, 0, 0), (1, 10, 25, 1, 0, 0), (0, 30, 41, 0, 0, 1)), makespan=41)
    assert [(each.kernel, each.start, each.end) for each in made.launching] == [("second", 25, 28)]
    picture = svg_of(gantt_picture(made))
    assert "launch of second: 3 cycles, 25 to 28</title>" in picture
    entry = '<i style="background:var(--c-launch)"></i>launch</span>'
    assert entry in picture  # the strip over the lanes stands in the legend, where there is one
    assert entry not in svg_of(gantt_picture(replace(made, launching=())))


def test_a_long_name_of_a_lane_has_room():
    """The picture reaches as far to the left as the longest name, which ends where its lane begins."""
    made = view(spans((0, 0, 10, 0, 0, 0)), makespan=41)
    longer = replace(made, lanes=tuple(replace(lane, name=f"core11.cluster2.{lane.name}") for lane in made.lanes))
    short, long = (re.search(r'viewBox="-(\d+) -22 (\d+) ', svg_of(gantt_picture(each))) for each in (made, longer))
    assert short is not None and long is not None and int(long[1]) > int(short[1]) > 0
    assert int(long[2]) - int(short[2]) == pytest.approx(int(long[1]) - int(short[1]), abs=1)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_what_the_memory_makes_transfers_wait_for_is_told_apart_by_colour(style: Style):
    shown = {**style.waits, "ground": style.ground, "data": style.causes["data"]}
    near = {
        (a, b): distance
        for a, b in itertools.combinations(shown, 2)
        if (distance := float(np.linalg.norm(lab(shown[a]) - lab(shown[b])))) < 15
    }
    assert near == {}  # 2.3 is what an eye just notices of two fields side by side


def lab(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A colour in CIE L*a*b*, where distances are as large as they seem."""
    given = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ linear / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_a_kernels_name_is_cut_with_a_mark_then_to_its_number_then_left_out():
    name = "k12_conv2d_relu"
    assert [fitting(name, letters) for letters in (15, 11, 8, 7.5, 3, 2)] == [
        name,
        "k12_conv2d…",
        "k12_con…",
        "k12",
        "k12",
        "",
    ]


@pytest.mark.parametrize(("whole", "least"), [(49_944, 1), (53.13, 0), (7, 1), (1, 1), (0.003, 0), (10**9, 1)])
def test_an_axis_has_round_numbers_from_zero_on(whole: float, least: float):
    ticks = round_numbers(0, whole, whole=bool(least))
    step = ticks[1]
    assert ticks[0] == 0 and 2 <= len(ticks) <= 13 and ticks[-1] <= whole * (1 + 1e-9) < ticks[-1] + 1.001 * step
    assert float(f"{step:e}".partition("e")[0]) in (1, 2, 5) and step >= least
    assert all(float(f"{tick:.10g}") == pytest.approx(round(tick / step) * step) for tick in ticks)
