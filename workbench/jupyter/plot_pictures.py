# pyright: reportUnknownMemberType=false
"""Pictures drawn with matplotlib, from the same data as `ground/basics/svg_painter.py`.

A picture is made for its final width, which decides where names are cut and crowded lanes are drawn as shares. Its axes
have the numbers of its data, so that a user may zoom in and draw beside it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias, cast

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from workbench.ground.basics.picture import (
    Box,
    Dot,
    Entry,
    Line,
    Mark,
    Picture,
    Shape,
    Steps,
    Words,
    shapes,
)
from workbench.jupyter.plot_themes import THEME, colours_of, inches, new_axes, new_figure, words_as_they_are

Making: TypeAlias = Callable[[float], Picture]
"""Makes a picture for a plot of a width in pixels."""

_AN_INCH, _POINT = 96, 0.75
"""Pixels of an inch, and points of a pixel."""
_AROUND = 110
"""Pixels beside a plot, for the names of its rows."""
_WRITTEN, _LETTER = 8.5, 6.9
"""The size of the letters around a picture in points, and their usual largest width in pixels."""
_ROW = 0.2
"""The height of a row of the legend, in inches."""


@words_as_they_are
def axes(make: Making, ax: Axes | None = None, *, style: str = THEME, width: float = 11.0) -> Axes:
    """Draws a picture into `ax`, or into a new figure `width` inches wide."""
    colours = colours_of(style)
    if ax is None:
        room = _room(inches(width))
        made = make(room)
        ax = new_axes(style, width, _height([made], room) + _ROW * (1 + _legend([made], width)[1]))
    else:
        room = max(ax.get_window_extent().width / cast("Figure", ax.get_figure(root=True)).dpi * _AN_INCH, 100)
        made = make(room)
    _draw(made, ax, colours, room)
    _draw_legend([made], ax, colours)
    return ax


@words_as_they_are
def figure(made: Sequence[Picture | Making], *, style: str = THEME, width: float = 11.0, columns: int = 1) -> Figure:
    """A figure of pictures in `columns` columns. pyplot does not know the figure: it is for files, and a value in a
    notebook."""
    colours, columns = colours_of(style), min(columns, max(len(made), 1))
    room = _room(inches(width) / columns)
    pictures = [one if isinstance(one, Picture) else one(room) for one in made]
    rows = [pictures[at : at + columns] for at in range(0, len(pictures), columns)]
    heights = [_height(row, room) for row in rows]
    drawn = new_figure(style, width, sum(heights) + _ROW * (1 + _legend(pictures, width)[1]))
    drawn.set_facecolor(colours["ground"])
    places = cast("Sequence[Axes]", drawn.subplots(len(rows), columns, squeeze=False, height_ratios=heights).ravel())
    for place, ax in enumerate(places):
        _draw(pictures[place], ax, colours, room) if place < len(pictures) else ax.set_axis_off()
    _draw_legend(pictures, places[0], colours)
    return drawn


def _room(width: float) -> float:
    """The width of the plot in pixels, for a figure of this width in inches."""
    return max(width * _AN_INCH - _AROUND, 100)


def _height(row: Sequence[Picture], room: float) -> float:
    """The height of a row in inches: that of its highest picture, with axes and notes."""
    around = [0.3 + 0.45 * bool(each.above) + 0.25 * bool(each.title) + 0.17 * len(_below(each, room)) for each in row]
    return max(each.height / _AN_INCH + more for each, more in zip(row, around, strict=True))


def _draw(picture: Picture, ax: Axes, colours: Mapping[str, str], room: float) -> None:
    drawn = cast("Figure", ax.get_figure(root=True))
    drawn.set_facecolor(colours["ground"])
    ax.set_facecolor(colours["ground"])
    if picture.nothing:
        ax.set_axis_off()
        ax.annotate(
            picture.nothing, (0.5, 0.5), xycoords="axes fraction", ha="center", fontsize=9, color=colours["ink"]
        )
        return
    _draw_axes(picture, ax, colours, room)
    _draw_marks(picture, picture.behind, ax, colours, 0.1)
    _draw_marks(picture, picture.marks, ax, colours, 2)


def _draw_marks(picture: Picture, marks: Sequence[Mark], ax: Axes, colours: Mapping[str, str], layer: float) -> None:
    """Draws marks in their order, from a layer of matplotlib upwards."""
    for order, (_, mine) in enumerate(groupby(shapes(marks), key=_collected)):
        several, above = list(mine), layer + order * 1e-5
        if isinstance(several[0], Box):
            _draw_boxes(picture, cast("list[Box]", several), ax, colours, above)
        for mark in several:
            _draw_mark(mark, ax, colours, above)


def _collected(mark: Shape) -> tuple[type, str]:
    """The key of a mark; boxes that follow each other and have the same key become one collection of matplotlib."""
    return type(mark), mark.hatch if isinstance(mark, Box) else ""


def _draw_boxes(picture: Picture, boxes: Sequence[Box], ax: Axes, colours: Mapping[str, str], above: float) -> None:
    corners = [
        [(each.left, each.top), (each.right, each.top), (each.right, each.bottom), (each.left, each.bottom)]
        for each in boxes
    ]
    faces, edges, widths = list[object](), list[object](), list[float]()
    for box in boxes:
        small = min(picture.across(box.left, box.right), picture.down(box.top, box.bottom)) <= 3
        faces.append(to_rgba(colours[box.fill], box.opacity) if box.fill and not box.hatch else "none")
        edge = box.hatch or box.edge or ("ground" if box.apart and not small else box.fill * (box.opacity == 1))
        edges.append(to_rgba(colours[edge], 0.55 if box.hatch else 1) if edge else "none")
        widths.append(box.stroke * _POINT if box.edge else 0.4)
    drawn = PolyCollection(corners, facecolors=faces, edgecolors=edges, linewidths=widths, zorder=above)  # pyright: ignore[reportArgumentType]
    drawn.set_linestyle([(0, (4, 3)) if box.dash else "-" for box in boxes])
    if boxes[0].hatch:
        drawn.set_hatch("////")
    ax.add_collection(drawn, autolim=False)


def _draw_mark(mark: Shape, ax: Axes, colours: Mapping[str, str], above: float) -> None:
    match mark:
        case Box():
            pass
        case Steps():
            lower, upper = ([*side.tolist(), side[-1]] for side in (mark.lower, mark.upper))
            face = to_rgba(colours[mark.fill], mark.opacity)
            ax.fill_between(mark.edges, lower, upper, step="post", color=face, linewidth=0, zorder=above)
        case Line():
            x, y = zip(*mark.points, strict=True)
            if mark.fill:
                ax.fill(x, y, color=colours[mark.fill], linewidth=0, zorder=above)
            if mark.colour:
                dashes = (0, tuple(each / mark.stroke for each in mark.dash)) if mark.dash else "-"
                drawn = Line2D(x, y, color=colours[mark.colour], linewidth=mark.stroke * _POINT, linestyle=dashes)
                ax.add_line(drawn).set_zorder(above)
        case Words():
            ax.annotate(
                f"{mark.text} {mark.soft}".strip(), (mark.x, mark.y), (mark.dx * _POINT, -mark.dy * _POINT),
                textcoords="offset points", ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
                va="baseline", rotation=mark.angle, rotation_mode="anchor", fontsize=mark.size * _POINT, zorder=above,
                color=colours[mark.colour], fontweight="bold" if mark.bold else "normal",
            )  # fmt: skip
        case Dot():
            shape, size = ("D", 2**0.5) if mark.diamond else ("o", 2.0)
            dot = Line2D([mark.x], [mark.y], marker=shape, markersize=size * mark.radius * _POINT, zorder=above)
            dot.set(markerfacecolor=colours[mark.fill], markeredgecolor=colours[mark.edge])
            ax.add_line(dot)


def _draw_axes(picture: Picture, ax: Axes, colours: Mapping[str, str], room: float) -> None:
    ax.set_xscale("log" if picture.x.log else "linear")
    ax.set_yscale("log" if picture.y.log else "linear")
    ax.set_xlim(picture.x.low, picture.x.high)
    ax.set_ylim(picture.y.low, picture.y.high)
    sides = [(ax.xaxis, picture.x), (ax.yaxis, picture.y)]
    if above := picture.above:
        scale = (above.high - above.low) / (picture.x.high - picture.x.low)
        start = above.low - picture.x.low * scale
        second = ax.secondary_xaxis("top", functions=(lambda x: start + x * scale, lambda x: (x - start) / scale))  # pyright: ignore
        sides.append((second.xaxis, above))
    if picture.beside:
        sides.append((ax.secondary_yaxis("right").yaxis, picture.beside))
    for axis, told in sides:
        if told.ticks is None:
            axis.set_major_locator(MaxNLocator(nbins="auto", integer=told.whole, min_n_ticks=3))
            axis.set_major_formatter(FuncFormatter(_with_commas))
        else:
            axis.set_ticks(
                [tick.at for tick in told.ticks], labels=[f"{each.text}  {each.soft}".strip() for each in told.ticks]
            )
            axis.set_minor_locator(NullLocator())
        length = 3 if told.ticks is None else 0
        axis.set_tick_params(colors=colours["ink"], labelsize=_WRITTEN, length=length, color=colours["ink"])
        axis.set_label_text(told.label, color=colours["ink"], fontsize=_WRITTEN)
        if told.grid:
            axis.grid(color=colours[told.grid], linewidth=0.8)
        for spine in axis.axes.spines.values():
            spine.set_visible(bool(picture.frame) and axis.axes is ax)
            spine.set_color(colours[picture.frame or "ink"])
    ax.set_axisbelow(True)
    if not picture.grows:
        ax.set_box_aspect(picture.height / picture.width)
    ax.set_xlabel("\n".join(_below(picture, room)), color=colours["ink"], fontsize=_WRITTEN)
    title = f"{picture.title}  {picture.subtitle}".strip()
    ax.set_title(
        "\n".join(textwrap.wrap(title, max(int(room / _LETTER), 12))), fontsize=9, color=colours["ink"], loc="left"
    )


def _with_commas(value: float, _: int) -> str:
    return f"{value:,g}" if value % 1 else f"{value:,.0f}"


def _below(picture: Picture, room: float) -> list[str]:
    """The name of the axis and the notes, in lines that fit into `room` pixels."""
    letters = max(int(room / _LETTER), 12)
    told = [line for note in picture.notes for line in textwrap.wrap(note, letters, max_lines=4, placeholder=" …")]
    return [*filter(None, [picture.x.label]), *told]


def _legend(pictures: Iterable[Picture], width: float) -> tuple[list[Entry], int]:
    """The legend entries of all pictures, and the number of rows that they need in a figure of this width."""
    entries = list(dict.fromkeys(entry for picture in pictures for entry in picture.legend))
    room = sum(len(entry.text) * _LETTER + 35 for entry in entries)
    return entries, min(len(entries), int(room / (width * _AN_INCH)) + 1)


def _draw_legend(pictures: Iterable[Picture], ax: Axes, colours: Mapping[str, str]) -> None:
    entries, rows = _legend(pictures, cast("Figure", ax.get_figure(root=True)).get_figwidth())
    if entries:
        cast("Figure", ax.get_figure(root=False)).legend(
            handles=[_patch(entry, colours) for entry in entries], loc="outside lower center",
            ncols=-(-len(entries) // rows), frameon=False, fontsize=_WRITTEN, handlelength=1.0, handleheight=0.8,
            columnspacing=1.3, labelcolor=colours["ink"],
        )  # fmt: skip


def _patch(entry: Entry, colours: Mapping[str, str]) -> Patch:
    face = to_rgba(colours[entry.fill], entry.opacity) if entry.fill else "none"
    edge = colours[entry.hatch or entry.edge] if entry.hatch or entry.edge else "none"
    dashes = "--" if entry.dash else "-"
    return Patch(
        facecolor=face, edgecolor=edge, hatch="////" if entry.hatch else "", linestyle=dashes, label=entry.text
    )
