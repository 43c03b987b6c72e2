"""The text of a selection, in lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from simulator.tileprogram.program import Opcode
from workbench.explaining.views.selections.origins import InstructionAt, MlirLine, OriginIndex, RenderedLine
from workbench.ground.basics.html_builder import html, joined


def headed(part: str, lines: Sequence[str], most: int = 8) -> list[tuple[str, str]]:
    shown = lines if len(lines) <= most else [*lines[: most - 1], f"... and {len(lines) - most + 1} more"]
    return [(part if place == 0 else "", line) for place, line in enumerate(shown)]


def rows_html(rows: Sequence[tuple[str, str]]) -> Markup:
    """Rows of the table of a selection, from titles and lines."""
    return joined(html("<tr>{}<td>{line}</td></tr>", head_cell(head), line=line) for head, line in rows)


def head_cell(head: str) -> Markup:
    """A title, or an empty cell, which is no title of anything."""
    return html('<th scope="row">{head}</th>', head=head) if head else html("<td></td>")


def line_text(line: MlirLine | RenderedLine, texts: Mapping[str, Sequence[str]]) -> str:
    return f"{line.kernel}:{line.line}  {texts[line.kernel][line.line - 1].strip()[:100]}"


def instruction_lines(index: OriginIndex, instructions: tuple[InstructionAt, ...]) -> list[str]:
    """A line a kernel and opcode: how many, and the first of them."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kernel, number in instructions:
        opcode = Opcode(index.programs[kernel].program.opcode[number]).name
        groups.setdefault((kernel, opcode), []).append(f"#{number}")
    lines: list[str] = []
    for (kernel, opcode), numbers in groups.items():
        shown = numbers if len(numbers) <= 4 else [*numbers[:4], "..."]
        lines.append(f"{len(numbers)} {opcode} of {kernel} ({', '.join(shown)})")
    return lines


def span_lines(index: OriginIndex, spans: tuple[int, ...], cycles: int) -> list[str]:
    if not spans:
        return []
    trace, rows = index.trace, list(spans)
    used: list[int] = trace.unit[rows].tolist()
    units = ", ".join(trace.unit_names[unit] for unit in sorted(set(used)))
    first, last = int(trace.start[rows].min()), int(trace.end[rows].max())
    return [f"{len(spans)} spans on {units}, {cycles:,} unit cycles between cycle {first:,} and {last:,}"]
