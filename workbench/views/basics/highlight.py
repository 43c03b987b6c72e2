"""MLIR and diffs as HTML: line numbers that are not copied along, a gutter of origins, colours by kind of word."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

from workbench.views.basics.colours import HUES
from workbench.views.basics.markup import escape
from workbench.views.basics.mlir_diff import Diff, shown

_TOKEN = re.compile(
    r"""(?P<m>//.*)|(?P<q>"(?:[^"\\]|\\.)*")|(?P<v>%[\w$.-]+(?::\d+)?)|(?P<h>[@#^!][\w$.-]+)"""
    r"""|(?P<o>\b[a-z_]+(?:\.[a-z_0-9]+)+\b)"""
    r"""|(?P<y>\b(?:[0-9?]+x)*(?:tensor|memref|vector|index|strided|affine_map|f64|f32|f16|bf16|i64|i32|i16|i8|i1)\b)"""
    r"""|(?P<d>\b\d[\w.+-]*)"""
)
_CLASS = {"m": "m", "q": "q", "v": "v", "h": "q", "o": "o", "y": "y", "d": "d"}


def mlir_line(line: str) -> str:
    """One line of MLIR with its words in colour."""
    out, at = list[str](), 0
    for found in _TOKEN.finditer(line):
        out += [escape(line[at : found.start()])]
        out += [f'<span class="{_CLASS[found.lastgroup or "m"]}">{escape(found.group())}</span>']
        at = found.end()
    return "".join([*out, escape(line[at:])])


def code(
    text: str,
    *,
    origins: Mapping[int, tuple[str, ...]] | None = None,
    nodes: tuple[str, ...] = (),
    selected: Collection[int] = (),
    first: int = 1,
) -> str:
    """MLIR with line numbers, from `first` on. `origins` are the nodes behind each line, `nodes` all there are, in a
    fixed order."""
    hues = {name: number % len(HUES) for number, name in enumerate(nodes)}
    rows: list[str] = []
    for number, line in enumerate(text.strip("\n").splitlines(), start=first):
        gutter = "" if origins is None else _gutter(origins.get(number, ()), hues)
        state = " s" if number in selected else ""
        rows.append(
            f'<div class="l{state}"><span class="n" data-n="{number}"></span>{gutter}'
            f"<span>{mlir_line(line)}</span></div>"
        )
    return _box(rows)


def _gutter(names: tuple[str, ...], hues: Mapping[str, int]) -> str:
    """A chip a node, and the first one's name; the rest when the pointer rests on it."""
    chips = "".join(f'<i class="c" style="background:var(--h{hues[name]})"></i>' for name in names[:5] if name in hues)
    label = "" if not names else _cut(names[0]) if len(names) == 1 else f"{_cut(names[0])} +{len(names) - 1}"
    return f'<span class="g" data-g="{escape(label)}" title="{escape(", ".join(names))}">{chips}</span>'


def _cut(name: str, most: int = 18) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def unified(found: Diff, *, context: int) -> str:
    """The changes in one column: lines removed, lines added, and some of those around."""
    rows: list[str] = []
    for change in shown(found, context):
        if isinstance(change, int):
            rows.append(_left_out(change))
        elif change.same:
            rows += [_diff_row("", line, found.after) for line in change.after]
        else:
            rows += [_diff_row("minus", line, found.before) for line in change.before]
            rows += [_diff_row("plus", line, found.after) for line in change.after]
    return _box(rows)


def side_by_side(found: Diff, *, context: int) -> str:
    """The text before on the left, the text after on the right, each with its own names."""
    sides: tuple[list[str], list[str]] = [], []
    for change in shown(found, context):
        if isinstance(change, int):
            for side in sides:
                side.append(_left_out(change))
            continue
        for lines in zip_longest(change.before, change.after):
            for side, line, text, kind in zip(
                sides, lines, (found.before, found.after), ("minus", "plus"), strict=True
            ):
                side.append(_diff_row("" if change.same else kind, line, text))
    return f'<div class="scroll tall" tabindex="0"><div class="both">{"".join(map(_box, sides))}</div></div>'


_SIGNS = {"plus": "+", "minus": "-", "": ""}


def _diff_row(kind: str, line: int | None, text: Sequence[str]) -> str:
    """One line with its number; an empty one where the other side has more."""
    if line is None:
        return (
            '<div class="l"><span class="n" data-n=""></span><span class="n" data-n=""></span><span>&nbsp;</span></div>'
        )
    numbers = f'<span class="n" data-n="{line + 1}"></span><span class="n" data-n="{_SIGNS[kind]}"></span>'
    return f'<div class="l {kind}">{numbers}<span>{mlir_line(text[line])}</span></div>'


def _left_out(count: int) -> str:
    told = f"{count} line{'s' * (count > 1)} the same"
    dots = '<span class="n" data-n="…"></span><span class="n" data-n=""></span>'
    return f'<div class="l at">{dots}<span>{told}</span></div>'


def _box(rows: Iterable[str]) -> str:
    return f'<div class="code" tabindex="0"><div class="in">{"".join(rows)}</div></div>'
