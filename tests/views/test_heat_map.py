"""The map of mappings as geometry, as SVG and with matplotlib."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection

from workbench.explaining.views.comparisons.heat_map import HeatMap, Spot, heat_map_picture, short, summary
from workbench.ground.basics.svg_painter import svg_of
from workbench.jupyter import plot_pictures

MAP = HeatMap(
    ("tile.m", "order"),
    "k0_linear",
    ("8", "16"),
    ("m n", "n m"),
    ((Spot(4000, 64, ""), Spot(None, None, "an <order> that is refused")), (Spot(1000, 32, ""), None)),
    (0, 0),
    (1, 0),
)


def test_the_fastest_has_most_colour_and_equal_ratios_are_equally_far():
    spots = ((Spot(1000, 0, ""), Spot(2000, 0, ""), Spot(4000, 0, "")),)
    colours = [replace(MAP, spots=spots).colour(Spot(cycles, 0, "")) for cycles in (1000, 2000, 4000)]
    assert colours == sorted(colours, reverse=True)
    assert colours[0] - colours[1] == pytest.approx(colours[1] - colours[2])
    alone = replace(MAP, spots=((Spot(7, 0, ""),),))
    assert alone.colour(Spot(7, 0, "")) == colours[0]


def test_every_cell_has_its_words():
    assert MAP.cell_text(0, 0) == "tile.m 8, order m n: 4,000 cycles, 64 bytes, today's"
    assert MAP.cell_text(0, 1) == "tile.m 8, order n m: refused: an <order> that is refused"
    assert MAP.cell_text(1, 0) == "tile.m 16, order m n: 1,000 cycles, 32 bytes, best"
    assert MAP.cell_text(1, 1) == "tile.m 16, order n m: not known yet"
    assert summary(MAP) == (
        "best of the 3 of 4 settings that are known: tile.m 16, order m n: 1,000 cycles, 32 bytes: "
        "4.00 times as fast as today's, 4,000"
    )
    now = replace(MAP, today=(1, 0), called="the setting now")
    assert now.cell_text(1, 0).endswith("32 bytes, best, the setting now") and summary(now).endswith(
        ": the setting now"
    )
    near = replace(MAP, spots=((Spot(1040, 64, ""), None), (Spot(1000, 32, ""), None)))
    assert summary(near).endswith("3.85% less than today's, 1,040")
    same = replace(MAP, spots=((Spot(1000, 64, ""), None), (Spot(1000, 32, ""), None)))
    assert summary(same).endswith(": the same as today's")


def test_what_is_known_of_the_setting_now_is_on_the_map():
    now = replace(MAP, spots=((None, None), (Spot(1000, 32, ""), None)))
    better = now.with_spot((0, 0), Spot(900, 16, ""))
    assert better.best == (0, 0) and summary(better).endswith(": today's")
    assert now.with_spot((0, 0), Spot(4000, 16, "")).best == (1, 0)


def test_cycles_of_different_lengths_are_compared_by_time():
    slow, fast = Spot(1000, 0, "", 10.0), Spot(2000, 0, "", 2.0)
    clocks = HeatMap(("machine.clock_mhz",), "", ("",), ("100", "1,000"), ((slow, fast),), (0, 0), (0, 1))
    assert summary(clocks).endswith("2,000 cycles, 2.00 µs, 0 bytes: 5.00 times as fast as today's, 10.00 µs")
    assert clocks.colour(fast) > clocks.colour(slow) and clocks.written(fast) == "2 µs"


@pytest.mark.parametrize(
    ("cycles", "text"),
    [(0, "0"), (9999, "9,999"), (10108, "10.1k"), (264_138, "264.1k"), (1_346_960, "1.3M"), (84 * 10**6, "84.0M")],
)
def test_cycles_are_shortened_to_what_a_cell_has_room_for(cycles: int, text: str):
    assert short(cycles) == text


def test_the_svg_has_a_cell_each_with_its_words_and_marks_the_best_and_todays():
    svg = svg_of(heat_map_picture(MAP))
    assert svg.count("<title>") == 4 and "an &lt;order&gt; that is refused" in svg
    assert ">4,000<" in svg and ">1,000<" in svg and svg.count("url(#wb-soft-") == 1
    assert svg.count("stroke-width:2.5") == 1 and 'aria-label="cycles by tile.m and order of k0_linear' in svg


def test_matplotlib_draws_the_same_cells():
    ax = plot_pictures.axes(partial(heat_map_picture, MAP), style="dark")
    written = [text.get_text() for text in ax.texts]
    assert written == ["4,000", "1,000"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(MAP.columns)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(MAP.rows)
    cells = [each for each in ax.collections if isinstance(each, PolyCollection)]
    assert [len(each.get_paths()) for each in cells if each.get_hatch()] == [1]
    assert sum(len(each.get_paths()) for each in cells) == 4 + 2, "four cells, and frames of the best and of today's"
    pyplot.close(ax.figure)
