"""Pictures as data: both painters draw every kind of mark, each where its numbers lie."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from workbench.ground.basics.colours import DARK
from workbench.ground.basics.picture import (
    Axis,
    Box,
    Dot,
    Entry,
    Line,
    Picture,
    Steps,
    Tick,
    Told,
    Words,
    stacked,
)
from workbench.ground.basics.svg_painter import svg_of
from workbench.jupyter import plot_pictures

EDGES = np.array([0.0, 2.0, 4.0, 6.0])
ALL = Picture(
    "one of <each>",
    200,
    100,
    Axis(0, 10, "cycles", None, "line", whole=True),
    Axis(1, 100, "bytes", (Tick(10, "ten", "B"),), log=True),
    (
        Told("a <box>", (Box(1, 3, 100, 10, "k-LOAD", 0.5, apart=True),), "named"),
        Box(4, 6, 10, 1, edge="bad", hatch="bad"),
        Steps(EDGES, np.array([1.0, 1.0, 1.0]), np.array([10.0, 10.0, 1.0]), "k-STORE"),
        Line(((0, 1), (5, 10), (10, 100)), "ink", 2, (6, 4), smooth=True),
        Words(5, 10, "words", "middle", dx=3, dy=-4, soft="paler", angle=30),
        Dot(2, 10, 4, "ground", "ink"),
        Dot(8, 10, 4, "k-MATMUL", "ink", diamond=True),
    ),
    (Entry("faded", "k-LOAD", 0.5), Entry("too much", edge="bad", hatch="bad")),
    "title",
    notes=("a note",),
    above=Axis(0, 20, "µs", None),
    beside=Axis(1, 100, ticks=(Tick(100, "full"),), log=True),
)


def test_the_svg_has_each_mark_at_its_pixels():
    html = svg_of(ALL)
    (found,) = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    picture = ElementTree.fromstring(found)
    (group,) = [each for each in picture.iter("g") if each.get("data-name") == "named"]
    (box,) = group.iter("rect")
    assert group.findtext("title") == "a <box>"
    assert [float(box.get(side) or "") for side in ("x", "y", "width", "height")] == [20, 0, 40, 50]
    assert "fill-opacity:0.5" in (box.get("style") or "")
    hatch = re.search(r"url\(#(wb-bad-\w+)\)", found)
    assert hatch and f'<pattern id="{hatch[1]}"' in found
    paths = [each.get("d") for each in picture.iter("path")]
    assert "M0.0 100.0V50.0H80.0V100.0H0.0" in paths, "two equal steps are one, and one of no height is none"
    assert any((path or "").startswith("M0.0 100.0C0.0 75.0 100.0 75.0 100.0 50.0") for path in paths)
    texts = ["".join(each.itertext()).strip() for each in picture.iter("text")]
    assert {"words paler", "ten B", "full", "bytes", "cycles", "µs", "10", "20"} <= set(texts)
    assert 'transform="translate(100.0 50.0) rotate(-30.00)"' in found
    assert "title</b>" in html and "a note" in html and "too much" in html and "one of &lt;each&gt;" in html


def test_matplotlib_draws_each_mark_at_its_numbers():
    ax = plot_pictures.axes(lambda _: ALL, style="dark", width=6)
    plain, hatched = (
        each for each in ax.collections if isinstance(each, PolyCollection) and each.get_zorder() < 2.00002
    )
    assert plain.get_paths()[0].get_extents().bounds == (1, 10, 2, 90) and plain.get_facecolor()[0][3] == 0.5
    assert hatched.get_hatch() and hatched.get_facecolor()[0][3] == 0
    assert len(ax.collections) == 3 and [line.get_marker() for line in ax.lines] == ["None", "o", "D"]
    assert [text.get_text() for text in ax.texts] == ["words paler"] and ax.texts[0].get_rotation() == 30
    assert (ax.get_xlim(), ax.get_ylim(), ax.get_yscale()) == ((0, 10), (1, 100), "log")
    assert ax.get_xlabel() == "cycles\na note" and ax.get_title(loc="left") == "title"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["ten  B"]
    (legend,) = ax.figure.legends  # type: ignore[union-attr]
    assert [text.get_text() for text in legend.get_texts()] == ["faded", "too much"]
    assert to_hex(legend.get_texts()[0].get_color()).upper() == DARK.ink
    pyplot.close("all")


@pytest.mark.parametrize("axis", [Axis(2, 12), Axis(12, 2), Axis(0.01, 1000, log=True)], ids=str)
def test_a_place_on_an_axis_is_found_back(axis: Axis):
    assert [axis.part(axis.low), axis.part(axis.high)] == [0, 1]
    assert axis.value(axis.part(7.0)) == pytest.approx(7.0)


def test_shares_stand_on_each_other_and_those_of_nothing_are_left_out():
    shares = np.array([[0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.25, 0.75, 1.0]])
    low, high = stacked(EDGES, shares, [("k-LOAD", 1.0), ("k-COPY", 1.0), ("k-STORE", 0.5)], 100, -10)
    assert (low.fill, high.fill, high.opacity) == ("k-LOAD", "k-STORE", 0.5)
    assert low.lower.tolist() == [100, 100, 100] and low.upper.tolist() == high.lower.tolist() == [95, 97.5, 100]
    assert high.upper.tolist() == [92.5, 90, 90]
