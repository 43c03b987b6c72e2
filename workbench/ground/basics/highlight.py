"""MLIR and diffs as HTML: line numbers that are not copied along, a gutter of origins, colours by kind of word."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from markupsafe import Markup

from workbench.ground.basics.colours import HUES
from workbench.ground.basics.html_builder import NO_HTML, cut, escaped, html, joined
from workbench.ground.basics.mlir_diff import Diff, shown

_TOKEN = re.compile(
    r"""(?P<m>//.*)|(?P<q>"(?:[^"\\]|\\.)*(?:"|$))|(?P<v>%[\w$.-]+(?::\d+)?)|(?P<h>[@#^!][\w$.-]+)"""
    r"""|(?P<o>\b[a-z_]+(?:\.[a-z_0-9]+)+\b)"""
    r"""|(?P<y>\b(?:[0-9?]+x)*(?:tensor|memref|vector|index|strided|affine_map|f64|f32|f16|bf16|i64|i32|i16|i8|i1)\b)"""
    r"""|(?P<d>\b\d[\w.+-]*)"""
)
_CLASS = {"m": "m", "q": "q", "v": "v", "h": "q", "o": "o", "y": "y", "d": "d"}


MOST_LINES: Final = 4000
"""The most lines of one text that are shown."""
_MOST_LETTERS: Final = 4000
"""The most letters of a line that are shown."""


def mlir_line(line: str) -> Markup:
    """Colours the words of one line of MLIR."""
    line = cut(line, _MOST_LETTERS)
    out, at = list[Markup](), 0
    for found in _TOKEN.finditer(line):
        out += [escaped(line[at : found.start()])]
        out += [html('<span class="{}">{}</span>', _CLASS[found.lastgroup or "m"], found.group())]
        at = found.end()
    return joined([*out, escaped(line[at:])])


def code(
    text: str,
    *,
    origins: Mapping[int, tuple[str, ...]] | None = None,
    nodes: tuple[str, ...] = (),
    selected: Collection[int] = (),
    first: int = 1,
) -> Markup:
    """MLIR with line numbers, from `first` on. `origins` are the nodes of each line; `nodes` are all nodes, in a fixed
    order that gives them their colours."""
    hues = {name: number % len(HUES) for number, name in enumerate(nodes)}
    rows: list[Markup] = []
    lines = text.strip("\n").splitlines()
    for number, line in enumerate(lines[:MOST_LINES], start=first):
        gutter = "" if origins is None else _gutter(origins.get(number, ()), hues)
        state = " s" if number in selected else ""
        rows.append(
            html(
                '<div class="l{state}"><span class="n" data-n="{number}"></span>{gutter}<span>{}</span></div>',
                mlir_line(line),
                state=state,
                number=number,
                gutter=gutter,
            )
        )
    return box(rows + _rest_of(lines))


def _rest_of(lines: Sequence[object]) -> list[Markup]:
    """Tells the number of lines of a text that are not shown; empty if all are."""
    rest = len(lines) - MOST_LINES
    text = f"… and {rest:,} more lines, which .text() has"
    return [html('<div class="l at"><span class="n" data-n="…"></span><span>{}</span></div>', text)] if rest > 0 else []


def _gutter(names: tuple[str, ...], hues: Mapping[str, int]) -> Markup:
    """A coloured chip for each of the first five nodes of a line, and the first node's name; the tooltip names all."""
    chips = joined(
        html('<i class="c" style="background:var(--h{})"></i>', hues[name]) for name in names[:5] if name in hues
    )
    label = "" if not names else _cut(names[0]) if len(names) == 1 else f"{_cut(names[0])} +{len(names) - 1}"
    return html(
        '<span class="g" data-g="{label}" title="{}">{chips}</span>', ", ".join(names), label=label, chips=chips
    )


def _cut(name: str, most: int = 18) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def unified(found: Diff, *, context: int) -> Markup:
    """The changes in one column: lines removed, lines added, and some of those around."""
    rows: list[Markup] = []
    for change in shown(found, context):
        if isinstance(change, int):
            rows.append(left_out(change))
        elif change.same:
            rows += [_diff_row("", line, found.after) for line in change.after]
        else:
            rows += [_diff_row("minus", line, found.before) for line in change.before[:MOST_LINES]]
            rows += _rest_of(change.before)
            rows += [_diff_row("plus", line, found.after) for line in change.after[:MOST_LINES]]
            rows += _rest_of(change.after)
    return box(rows)


def side_by_side(found: Diff, *, context: int) -> Markup:
    """The text before on the left, the text after on the right, each with its own names."""
    sides: tuple[list[Markup], list[Markup]] = [], []
    for change in shown(found, context):
        if isinstance(change, int):
            for side in sides:
                side.append(left_out(change))
            continue
        for lines in zip_longest(change.before[:MOST_LINES], change.after[:MOST_LINES]):
            for side, line, text, kind in zip(
                sides, lines, (found.before, found.after), ("minus", "plus"), strict=True
            ):
                side.append(_diff_row("" if change.same else kind, line, text))
    return html('<div class="scroll tall" tabindex="0"><div class="both">{}</div></div>', joined(map(box, sides)))


_SIGNS = {"plus": "+", "minus": "-", "": ""}


def _diff_row(kind: str, line: int | None, text: Sequence[str]) -> Markup:
    return diff_row("", [""], None) if line is None else diff_row(kind, [line + 1], text[line])


def diff_row(kind: str, numbers: Sequence[int | str], line: str | None, attributes: Markup = NO_HTML) -> Markup:
    """Writes one line with its numbers; without `line`, an empty row beside a line that only the other side has."""
    words = html("&nbsp;") if line is None else mlir_line(line)
    sign = _SIGNS[kind.partition(" ")[0]]
    gutter = joined(html('<span class="n" data-n="{}"></span>', each) for each in (*numbers, sign))
    return html(
        '<div class="l {kind}"{attributes}>{gutter}<span>{words}</span></div>',
        kind=kind,
        attributes=attributes,
        gutter=gutter,
        words=words,
    )


def left_out(count: int, columns: int = 1) -> Markup:
    """Writes a row in place of `count` unchanged lines, below `columns` columns of line numbers."""
    text = f"{count:,} line{'s' * (count > 1)} the same"
    dots = joined(html('<span class="n" data-n="{}"></span>', each) for each in (*["…"] * columns, ""))
    return html('<div class="l at">{dots}<span>{text}</span></div>', dots=dots, text=text)


def box(rows: Iterable[Markup], attributes: Markup = NO_HTML) -> Markup:
    """Lines in a box that scrolls."""
    return html(
        '<div class="code" tabindex="0"{attributes}><div class="in">{}</div></div>', joined(rows), attributes=attributes
    )
