"""The roofline's picture with matplotlib: roofs, marks and names in their colours, light and dark."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from simulator import load_machine
from simulator.analysis.machine_roofs import peaks
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.roofline import WHOLE, Point, Roofline
from workbench.explaining.views.timelines.roofline_picture import roofline_picture
from workbench.ground.basics.colours import DARK, LIGHT, Style
from workbench.ground.errors import BadOption
from workbench.jupyter import plot_pictures

PRODUCT = Point("k0_mm", 1, 1000, 2_000_000, 0, 64_000, 64_000, 32_000, 10.0, 10.0, (61.0, 0.0, 125.0, 1.0))
SLOW = replace(PRODUCT, kernel="k1_slow", macs=0, element_ops=8000, stretches=16_000.0, least=(0.0, 8.0, 125.0, 500.0))
COPY = replace(PRODUCT, kernel="k2_copy", macs=0)
FOUND = Roofline(
    "tpu-v3", peaks(load_machine("tpu-v3")), (PRODUCT, SLOW, COPY), replace(PRODUCT, kernel=WHOLE, cycles=3000), 1, 77
)


def roofline(found: Roofline, ax: Axes | None = None, *, style: str = "light", width: float = 9.0) -> Axes:
    return plot_pictures.axes(partial(roofline_picture, found), ax, style=style, width=width)


@pytest.mark.parametrize(("name", "style"), [("light", LIGHT), ("dark", DARK)])
def test_roofs_and_marks_have_the_colours_of_what_they_stand_for(name: str, style: Style):
    axes = roofline(FOUND, style=name)
    lines = {
        to_hex(line.get_color()).upper(): line
        for line in axes.lines
        if line.get_marker() == "None" and line.get_linewidth() == 1.5
    }
    memory, short = style.causes["memory_peak"], style.causes["inefficient_transfers"]
    assert set(lines) == {style.kinds["MATMUL"], style.kinds["VECTOR"], memory, short}
    assert lines[style.kinds["MATMUL"]].get_ydata()[0] == 32_768  # type: ignore[index]
    filled = [line for line in axes.lines if line.get_markersize() > 7]
    drawn = [(line.get_marker(), to_hex(line.get_markerfacecolor()).upper()) for line in filled]  # type: ignore[arg-type]
    assert sorted(drawn) == sorted([("D", memory), ("o", memory), ("o", short)])
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_names_axes_and_what_is_left_out_are_said():
    axes = roofline(FOUND)
    texts = {text.get_text() for text in axes.texts}
    assert {"k0_mm", "k1_slow", WHOLE, "arrays: 32,768", "memory: 430 bytes a cycle"} <= texts
    label = axes.get_xlabel()
    assert label.startswith("operations for each byte of DRAM") and axes.get_ylabel() == "operations a cycle"
    assert "k2_copy (12% of memory)" in label and "1 step on the host, 77 cycles" in label
    assert roofline(FOUND, axes, style="dark") is axes


def test_an_empty_roofline_says_so():
    axes = roofline(Roofline("tpu-v3", FOUND.peaks, (), None, 0, 0))
    assert [text.get_text() for text in axes.texts] == [NOTHING]


def test_sizes_and_styles_that_make_no_sense_are_refused():
    with pytest.raises(BadOption, match="width=0"):
        roofline(FOUND, width=0)
    with pytest.raises(BadOption, match="style='blue' is unknown"):
        roofline(FOUND, style="blue")
