"""Draws what accuracy.py found: simulated against measured, each family in a colour and shape of its own.

    python benchmarks/accuracy.py --json > found.json
    python benchmarks/accuracy_plot.py found.json docs/images/accuracy-tpu-v3

writes docs/images/accuracy-tpu-v3.png, and accuracy-tpu-v3-dark.png for readers of dark pages.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from workloads import family_of

from workbench.ground.basics.colours import HUES, Style, style_named

MARKS = "osD^v<>Phd"
NEAR = 0.1
"""The band around the diagonal in which a time counts as near."""
MANY = 50
"""So many rows are drawn small."""
Rows = Sequence[dict[str, Any]]


def figure(rows: Rows, style_name: str, unit: str) -> Figure:
    """The picture of rows as accuracy.py tells them: their programs filled, ours hollow where they differ."""
    style, suffix = style_named(style_name), "_us" if unit == "microseconds" else ""
    drawn = Figure(figsize=(6.4, 6), layout="constrained", facecolor=style.ground)
    axes = drawn.add_subplot(facecolor=style.ground)
    looks = _looks(rows, style_name)
    size, hollow = 6 if len(rows) < MANY else 3.5, False
    for row in rows:
        colour, mark = looks[family_of(row["workload"])]
        measured, ours, theirs = (row[f"{name}{suffix}"] for name in ("measured", "simulated", "simulated_theirs"))
        if ours != theirs:
            hollow = True
            axes.plot([measured] * 2, [ours, theirs], color=colour, linewidth=0.7, alpha=0.6)
            axes.plot(measured, ours, mark, color=colour, markerfacecolor="none", markersize=size)
        axes.plot(measured, theirs, mark, color=colour, markersize=size, markeredgewidth=0)
    _frame(axes, style, unit)
    _legend(axes, looks, style, hollow=hollow)
    return drawn


def _looks(rows: Rows, style_name: str) -> dict[str, tuple[str, str]]:
    """Colour and shape of each family."""
    families = dict.fromkeys(family_of(row["workload"]) for row in rows)
    hues = [pair[style_name == "dark"] for pair in HUES]
    return {family: (hues[at % len(hues)], MARKS[at % len(MARKS)]) for at, family in enumerate(families)}


def _frame(axes: Axes, style: Style, unit: str) -> None:
    """Scales that are alike, the diagonal, and the band of what is near it."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    ends = np.array([low, high])
    axes.fill_between(ends, ends * (1 - NEAR), ends * (1 + NEAR), color=style.faint, linewidth=0)
    axes.plot([low, high], [low, high], color=style.ink, linewidth=0.8)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set_xlabel(f"measured, {unit}", color=style.ink)
    axes.set_ylabel(f"simulated, {unit}", color=style.ink)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1000 else f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", colors=style.ink)
    axes.grid(color=style.faint, linewidth=0.5)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_color(style.faint)


def _legend(axes: Axes, looks: dict[str, tuple[str, str]], style: Style, *, hollow: bool) -> None:
    marks = [(name, mark, colour, colour) for name, (colour, mark) in looks.items()]
    if hollow:
        marks.append(("their program", "o", style.ink, style.ink))
        marks.append(("our program, where it differs", "o", style.ink, "none"))
    shown = [
        Line2D([], [], linestyle="", marker=mark, color=colour, markerfacecolor=inside, label=name)
        for name, mark, colour, inside in marks
    ]
    shown.append(Line2D([], [], linewidth=8, color=style.faint, label=f"within {NEAR:.0%}"))
    legend = axes.legend(handles=shown, loc="upper left", fontsize=8, labelcolor=style.ink)
    legend.get_frame().set(facecolor=style.ground, edgecolor=style.faint)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws simulated against measured times.", allow_abbrev=False)
    parser.add_argument("found", type=Path, help="what accuracy.py --json printed")
    parser.add_argument("picture", type=Path, help="the path of the pictures, without .png")
    given = parser.parse_args()
    rows = json.loads(given.found.read_text(encoding="utf-8"))["rows"]
    unit = "microseconds" if any("measured_us" in row for row in rows) else "cycles"
    measured = [row for row in rows if row["measured_us" if unit == "microseconds" else "measured"] is not None]
    if not measured:
        print(f"{given.found}: no row was measured, so there is nothing to draw", file=sys.stderr)
        return 2
    for style, ending in (("light", ""), ("dark", "-dark")):
        drawn = figure(measured, style, unit)
        drawn.savefig(f"{given.picture}{ending}.png", dpi=110, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
