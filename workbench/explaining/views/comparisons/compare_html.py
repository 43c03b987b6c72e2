"""A comparison of journeys as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from workbench.explaining.views.comparisons.compare import Compared, Line
from workbench.explaining.views.comparisons.finding_groups import Kept
from workbench.explaining.views.timelines import letters
from workbench.explaining.views.timelines.aligned import aligned, aligned_picture
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.basics.table import Cell, Table

MOST = 8
"""Lines that are shown before the rest is only counted."""
MOST_FINDINGS = 3
MANY = 4
"""With more journeys than this the pictures are so high that no finding is shown open below them."""


def text(compared: Compared, *, width: int) -> str:
    """The changes in words, then by nodes, the findings, the timelines aligned, and the figures."""
    parts = [*compared.sentences(), "", _whole(compared).text()]
    differing = [line for line in compared.lines if line.change != "identical"]
    if differing:
        parts += ["", _told(compared, differing[:MOST]).text(), *_left_out(compared, differing)]
    findings = compared.findings_table()
    if findings.rows:
        parts += ["", findings.text()]
    parts += ["", letters.aligned_text(aligned(compared.matching), width=width), "", compared.figures().text()]
    return "\n".join(parts)


def _told(compared: Compared, lines: Sequence[Line]) -> Table:
    """Lines with their differences to the first journey, as a person reads them."""
    first, others = compared.names[0], compared.names[1:]
    columns: list[tuple[str, list[Cell]]] = [("what", [line.what for line in lines])]
    columns.append((f"cycles {first}", [line.cycles[0] for line in lines]))
    for at, name in enumerate(others, start=1):
        columns.append((f"cycles {name}", [line.cycles[at] for line in lines]))
        columns.append((f"more than {first}", _right([line.cycles[at] - line.cycles[0] for line in lines])))
        columns.append(("bytes more", _right([line.bytes[at] - line.bytes[0] for line in lines])))
    columns.append(("change", [line.change for line in lines]))
    rows = zip(*(cells for _, cells in columns), strict=True)
    return Table(tuple(name for name, _ in columns), tuple(rows))


def _right(amounts: Sequence[int]) -> list[Cell]:
    """Amounts with their signs, aligned to the right."""
    texts = [signed(amount) for amount in amounts]
    return [f"{each:>{max(map(len, texts))}}" for each in texts]


def _whole(compared: Compared) -> Table:
    """Cycles and time of each journey, as a person reads them."""
    ratios = compared.ratios()
    at = ratios.columns.index("time_us")
    times = [trace.machine.microseconds(trace.makespan) for trace in compared.traces]
    rows = (
        (*row[:at], round(time) if time >= 1000 else time, *row[at + 1 :])
        for row, time in zip(ratios.rows, times, strict=True)
    )
    return Table((*ratios.columns[:at], "µs", *ratios.columns[at + 1 :]), tuple(rows))


def _left_out(compared: Compared, differing: Sequence[Line]) -> list[str]:
    """Counts the lines that are not shown."""
    more, same = len(differing) - MOST, len(compared.lines) - len(differing)
    return [
        *([f"and {more} more that differ less: .nodes"] if more > 0 else []),
        *([f"identical: {same} more"] if same else []),
    ]


def signed(amount: int) -> str:
    """`+1,024`, `-7`, and `0` for nothing."""
    return f"{amount:+,}" if amount else "0"


def body(compared: Compared) -> Markup:
    """The comparison as HTML: the largest differences opened, all else closed."""
    sentences = joined(html("<p>{}</p>", each) for each in compared.sentences(totals=len(compared.names) == 2))
    differing = [line for line in compared.lines if line.change != "identical"]
    same = [line for line in compared.lines if line.change == "identical"]
    parts = [sentences, markup.table(_whole(compared))]
    if differing:
        parts += [markup.heading("What changed"), _lines(compared, differing[:MOST])]
    modules = compared.modules if len(compared.modules) > 1 else ()
    for title, lines in (("what differs less", differing[MOST:]), ("identical", same), ("by module", modules)):
        if lines:
            parts.append(markup.details(title, _lines(compared, lines), note=str(len(lines))))
    drawn, figures = svg_of(aligned_picture(aligned(compared.matching))), compared.figures()
    parts += [markup.heading("Timelines, the same nodes below each other"), drawn, _findings(compared)]
    table = markup.table(figures, named=compared.names)
    return joined([*parts, markup.details("all figures", table, note=str(len(figures.rows)))])


def _lines(compared: Compared, lines: Sequence[Line]) -> Markup:
    """A table of lines; beside each cycle count of the others a bar to the right for more, to the left for fewer."""
    first, others = compared.names[0], compared.names[1:]
    most = max((line.most[0] for line in lines), default=0) or 1
    head = html('<th>what</th><th class="r">{first}<br>cycles</th>', first=first)
    for name in others:
        head += html('<th class="r">{name}<br>cycles</th>', name=name)
        head += html('<th colspan="2">more than<br>{first}</th><th class="r">DRAM bytes<br>more</th>', first=first)
    rows = joined(_row(line, most) for line in lines)
    tall = " tall" if len(lines) > MOST else ""
    return html(
        '<div class="scroll{}" tabindex="0"><table class="t"><thead><tr>{}<th>change</th></tr></thead>'
        "<tbody>{}</tbody></table></div>",
        *(tall, head, rows),
    )


def _row(line: Line, most: int) -> Markup:
    kernels = " | ".join(line.kernels)
    cells = html('<td title="{kernels}">{}</td>', line.what or "the whole, but for launches", kernels=kernels)
    cells += html('<td class="r">{:,}</td>', line.cycles[0])
    for cycles, moved in zip(line.cycles[1:], line.bytes[1:], strict=True):
        more = cycles - line.cycles[0]
        tone = "bad" if more > 0 else "good" if more < 0 else "soft"
        cells += html('<td class="r">{:,}</td>', cycles)
        cells += html('<td class="r" style="color:var(--{})">{}</td>', tone, signed(more))
        cells += html('<td>{}</td><td class="r">{}</td>', _bar(more, most, tone), signed(moved - line.bytes[0]))
    return html("<tr>{cells}<td>{}</td></tr>", line.change, cells=cells)


_BAR = 60
"""Pixels of a bar to either side."""


def _bar(more: int, most: int, tone: str) -> Markup:
    length = abs(more) / most * _BAR
    left = _BAR if more > 0 else _BAR - length
    return html(
        '<svg width="{}" height="18" viewBox="0 -4 {} 18" aria-hidden="true">'
        '<path d="M{} 0v11" style="stroke:var(--line)"/>'
        '<rect x="{:.1f}" y="1" width="{:.1f}" height="9" style="fill:var(--{})"/></svg>',
        *(2 * _BAR, 2 * _BAR, _BAR, left, length, tone),
    )


def _findings(compared: Compared) -> Markup:
    """Findings that came and went, those with most at stake opened; those that stay, closed."""
    moved = [each for each in compared.findings if each.change != "stays"]
    stay = [each for each in compared.findings if each.change == "stays"]
    most = 0 if len(compared.names) > MANY else MOST_FINDINGS
    parts: list[Markup] = []
    if most:
        shown = joined(_finding(compared, each) for each in moved[:most]) or html('<p class="soft">None.</p>')
        parts.append(markup.heading("Findings that came and went") + shown)
    rest = "more findings that came and went" if most else "findings that came and went"
    for title, found in ((rest, moved[most:]), ("findings that stay", stay)):
        if found:
            shown = joined(_finding(compared, each) for each in found)
            parts.append(markup.details(title, shown, note=str(len(found))))
    return joined(parts)


def _finding(compared: Compared, each: Kept) -> Markup:
    """One finding: its change, its place, the cycles at stake in each journey, and the reason."""
    stakes = ", ".join(
        f"{name}: {'not found' if found is None else f'{found.cycles:,} cycles'}"
        for name, found in zip(compared.names, each.each, strict=True)
    )
    head = html("<b>{}</b> · {} · {}", each.change, each.rule, compared.title(each.groups))
    return html('<p>{} <span class="soft">({})</span><br><span class="soft">{}</span></p>', head, stakes, each.reason)
