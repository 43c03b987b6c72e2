"""Pictures of matplotlib in a notebook: once, without the words of their axes, and in the colours of the theme."""

from __future__ import annotations

import io
import re

import pytest
import torch
from matplotlib import pyplot

import workbench as wb
from workbench.ground.basics.colours import DARK


@pytest.fixture(scope="module")
def simulated() -> wb.Simulated:
    return wb.trace(torch.softmax, torch.randn(128, 128), 1).simulated


def test_a_picture_has_only_colours_of_the_style_sheet(simulated: wb.Simulated):
    html = simulated.plot().figure._repr_html_()
    _, _, drawn = html.partition("<svg ")
    assert "var(--k-LOAD)" in drawn and "var(--ground)" in drawn and "var(--ink)" in drawn
    assert re.findall(r"#[0-9a-fA-F]{6}", drawn) == []
    assert f"light-dark(#0072B2,{DARK.kinds['LOAD']})" in html
    pyplot.close("all")


def test_axes_of_ours_say_nothing_and_those_of_a_user_stay_what_they_are(simulated: wb.Simulated):
    assert simulated.plot()._ipython_display_() is None
    figure = pyplot.figure()
    axes = simulated.plot(figure.add_subplot())
    assert axes.figure is figure and not hasattr(axes, "_ipython_display_")
    assert type(simulated.plot(style="dark").figure) is pyplot.Figure
    pyplot.close("all")


def test_what_a_user_adds_is_in_the_picture(simulated: wb.Simulated):
    axes = simulated.plot()
    axes.set_title("mine", color="#ab12cd")
    drawn = axes.figure._repr_html_()
    assert ">mine<" in drawn and "#ab12cd" in drawn
    pyplot.close("all")


@pytest.mark.test_all
def test_a_name_with_dollars_is_drawn_as_it_is():
    def bad(**given: torch.Tensor) -> torch.Tensor:
        return torch.relu(next(iter(given.values())))

    j = wb.trace(bad, kwargs={"a$\\bad{$": torch.randn(64, 64)})
    both = wb.compare(j, j, names=("a$\\frac$", "$\\bad{$"))
    kernel = j.scheduled.kernels[0].name
    for style in ("light", "theme"):
        made = (
            both.plot(style=style),
            j.simulated.scratchpad.plot(style=style).figure,
            j.scheduled.tiles(kernel).plot(style=style),
            j.simulated.roofline.plot(style=style).figure,
            j.simulated.plot(style=style).figure,
        )
        for figure in made:
            figure.savefig(io.BytesIO(), format="png")
    pyplot.close("all")
