"""MLIR and diffs as HTML: line numbers that are not copied along, a gutter of origins, colours by kind of word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

from workbench.views.markup import escape
from workbench.views.style import HUES

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
) -> str:
    """MLIR with line numbers. `origins` are the nodes behind each line, `nodes` all there are, in a fixed order."""
    hues = {name: number % len(HUES) for number, name in enumerate(nodes)}
    rows: list[str] = []
    for number, line in enumerate(text.strip("\n").splitlines(), start=1):
        gutter = "" if origins is None else _gutter(origins.get(number, ()), hues)
        state = " s" if number in selected else ""
        rows.append(
            f'<div class="l{state}"><span class="n" data-n="{number}"></span>{gutter}'
            f"<span>{mlir_line(line)}</span></div>"
        )
    return f'<div class="code" tabindex="0"><div class="in">{"".join(rows)}</div></div>'


def _gutter(names: tuple[str, ...], hues: Mapping[str, int]) -> str:
    """A chip a node, and the first one's name; the rest when the pointer rests on it."""
    chips = "".join(f'<i class="c" style="background:var(--h{hues[name]})"></i>' for name in names[:5] if name in hues)
    label = "" if not names else _cut(names[0]) if len(names) == 1 else f"{_cut(names[0])} +{len(names) - 1}"
    return f'<span class="g" data-g="{escape(label)}" title="{escape(", ".join(names))}">{chips}</span>'


def _cut(name: str, most: int = 18) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def diff(before: str, after: str, *, context: int = 2) -> str:
    """What a step changed, as a unified diff in colour; a sentence when it changed nothing."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=context))[2:]
    if not lines:
        return '<p class="soft">This step changes nothing here.</p>'
    return f'<div class="code" tabindex="0"><div class="in">{"".join(_diff_rows(lines))}</div></div>'


def changed_lines(before: str, after: str) -> tuple[int, int]:
    """How many lines a step added and removed."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _diff_rows(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        kind = {"+": "plus", "-": "minus", "@": "at"}.get(line[:1], "")
        sign = "" if kind == "at" else line[:1]
        body = escape(line) if kind == "at" else mlir_line(line[1:])
        yield f'<div class="l {kind}"><span class="n" data-n="{escape(sign)}"></span><span>{body}</span></div>'
