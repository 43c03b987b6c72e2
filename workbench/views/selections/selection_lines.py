"""The text of a selection, in lines."""

from __future__ import annotations

from simulator.tileprogram.program import Opcode
from workbench.views.basics import markup
from workbench.views.selections.origins import InstructionAt, MlirLine, OriginIndex, RenderedLine


def headed(part: str, lines: list[str], most: int = 8) -> list[tuple[str, str]]:
    shown = lines if len(lines) <= most else [*lines[: most - 1], f"... and {len(lines) - most + 1} more"]
    return [(part if place == 0 else "", line) for place, line in enumerate(shown)]


def head_cell(head: str) -> str:
    """A title, or an empty cell, which is no title of anything."""
    return f'<th scope="row">{markup.escape(head)}</th>' if head else "<td></td>"


def line_text(line: MlirLine | RenderedLine, text: str) -> str:
    return f"{line.kernel}:{line.line}  {text.splitlines()[line.line - 1].strip()[:100]}"


def rendered_text(index: OriginIndex, kernel: str) -> str:
    return next(module.mlir for module in index.rendered if module.kernel == kernel)


def scheduled_text(index: OriginIndex, kernel: str) -> str:
    return index.programs[kernel].mlir


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
