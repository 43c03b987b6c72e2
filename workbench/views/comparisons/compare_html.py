"""A comparison of journeys as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.views.basics import markup
from workbench.views.basics.table import Cell, Table
from workbench.views.comparisons.compare import Compared, Line
from workbench.views.comparisons.finding_groups import Kept
from workbench.views.timelines import letters
from workbench.views.timelines.aligned import aligned
from workbench.views.timelines.svg_aligned import aligned_svg

MOST = 8
"""Lines that are shown before the rest is only counted."""
MOST_FINDINGS = 3
MANY = 4
"""Journeys from which on pictures are so high that there is no room for findings beside them."""


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
    """Amounts with their signs, below each other by their last digits."""
    told = [signed(amount) for amount in amounts]
    return [f"{each:>{max(map(len, told))}}" for each in told]


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
    """How many lines are not shown."""
    more, same = len(differing) - MOST, len(compared.lines) - len(differing)
    return [
        *([f"and {more} more that differ less: .nodes"] if more > 0 else []),
        *([f"identical: {same} more"] if same else []),
    ]


def signed(amount: int) -> str:
    """`+1,024`, `-7`, and `0` for nothing."""
    return f"{amount:+,}" if amount else "0"


def body(compared: Compared) -> str:
    """The same as HTML: the largest differences opened, all else closed."""
    sentences = "".join(f"<p>{markup.escape(told)}</p>" for told in compared.sentences(totals=len(compared.names) == 2))
    differing = [line for line in compared.lines if line.change != "identical"]
    same = [line for line in compared.lines if line.change == "identical"]
    parts = [sentences, markup.table(_whole(compared))]
    if differing:
        parts += [markup.heading("What changed"), _lines(compared, differing[:MOST])]
    if differing[MOST:]:
        parts.append(
            markup.details("what differs less", _lines(compared, differing[MOST:]), note=str(len(differing) - MOST))
        )
    if same:
        parts.append(markup.details("identical", _lines(compared, same), note=str(len(same))))
    if len(compared.modules) > 1:
        parts.append(markup.details("by module", _lines(compared, compared.modules), note=str(len(compared.modules))))
    parts += [markup.heading("Timelines, the same nodes below each other"), aligned_svg(aligned(compared.matching))]
    parts.append(_findings(compared))
    figures = compared.figures()
    parts.append(
        markup.details("all figures", markup.table(figures, named=compared.names), note=str(len(figures.rows)))
    )
    return "".join(parts)


def _lines(compared: Compared, lines: Sequence[Line]) -> str:
    """A table of lines; beside each cycle count of the others a bar to the right for more, to the left for fewer."""
    first, others = compared.names[0], compared.names[1:]
    most = max((line.most[0] for line in lines), default=0) or 1
    head = f'<th>what</th><th class="r">{markup.escape(first)}<br>cycles</th>'
    for name in others:
        head += f'<th class="r">{markup.escape(name)}<br>cycles</th>'
        head += f'<th colspan="2">more than<br>{markup.escape(first)}</th><th class="r">DRAM bytes<br>more</th>'
    rows = "".join(_row(line, most) for line in lines)
    tall = " tall" if len(lines) > MOST else ""
    return (
        f'<div class="scroll{tall}" tabindex="0"><table class="t"><thead><tr>{head}<th>change</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(line: Line, most: int) -> str:
    kernels = " | ".join(line.kernels)
    cells = f'<td title="{markup.escape(kernels)}">{markup.escape(line.what or "the whole, but for launches")}</td>'
    cells += f'<td class="r">{line.cycles[0]:,}</td>'
    for cycles, moved in zip(line.cycles[1:], line.bytes[1:], strict=True):
        more = cycles - line.cycles[0]
        tone = "bad" if more > 0 else "good" if more < 0 else "soft"
        cells += f'<td class="r">{cycles:,}</td><td class="r" style="color:var(--{tone})">{signed(more)}</td>'
        cells += f"<td>{_bar(more, most, tone)}</td>"
        cells += f'<td class="r">{signed(moved - line.bytes[0])}</td>'
    return f"<tr>{cells}<td>{markup.escape(line.change)}</td></tr>"


_BAR = 60
"""Pixels of a bar to either side."""


def _bar(more: int, most: int, tone: str) -> str:
    length = abs(more) / most * _BAR
    left = _BAR if more > 0 else _BAR - length
    return (
        f'<svg width="{2 * _BAR}" height="18" viewBox="0 -4 {2 * _BAR} 18" aria-hidden="true">'
        f'<path d="M{_BAR} 0v11" style="stroke:var(--line)"/>'
        f'<rect x="{left:.1f}" y="1" width="{length:.1f}" height="9" style="fill:var(--{tone})"/></svg>'
    )


def _findings(compared: Compared) -> str:
    """Findings that came and went, those with most at stake opened; those that stay, closed."""
    moved = [each for each in compared.findings if each.change != "stays"]
    stay = [each for each in compared.findings if each.change == "stays"]
    most = 0 if len(compared.names) > MANY else MOST_FINDINGS
    parts: list[str] = []
    if most:
        shown = "".join(_finding(compared, each) for each in moved[:most]) or '<p class="soft">None.</p>'
        parts.append(markup.heading("Findings that came and went") + shown)
    rest = "more findings that came and went" if most else "findings that came and went"
    for told, found in ((rest, moved[most:]), ("findings that stay", stay)):
        if found:
            parts.append(
                markup.details(told, "".join(_finding(compared, each) for each in found), note=str(len(found)))
            )
    return "".join(parts)


def _finding(compared: Compared, each: Kept) -> str:
    """One finding: its change, its place, the cycles at stake in each journey, and the reason."""
    stakes = ", ".join(
        f"{name}: {'not found' if found is None else f'{found.cycles:,} cycles'}"
        for name, found in zip(compared.names, each.each, strict=True)
    )
    head = f"<b>{each.change}</b> · {markup.escape(each.rule)} · {markup.escape(compared.title(each.groups))}"
    return (
        f'<p>{head} <span class="soft">({markup.escape(stakes)})</span><br>'
        f'<span class="soft">{markup.escape(each.reason)}</span></p>'
    )
