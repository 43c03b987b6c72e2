"""A selection of a journey: one thing at every stage, and its text in lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from simulator.tileprogram.program import Opcode
from workbench.explaining.views.selections.origins import (
    BufferAt,
    InstructionAt,
    MlirLine,
    OriginIndex,
    RenderedLine,
    without_folder,
)
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.shown import Shown
from workbench.ground.errors import BadOption
from workbench.ir import Absorbed, Node


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """One thing seen at every stage at once. Each entry can be selected in turn."""

    what: str
    """The selected thing, in words."""
    nodes: tuple[str, ...]
    """Captured nodes, in order."""
    kernels: tuple[str, ...]
    """Kernels of the lowered graph, in launch order."""
    mlir_lines: tuple[MlirLine, ...]
    """Lines of the scheduled MLIR whose ops became the selected instructions: (kernel, line)."""
    instructions: tuple[InstructionAt, ...]
    """(kernel, index) in the kernel's tile program."""
    spans: tuple[int, ...]
    """Rows of `j.simulated.events`."""
    source_lines: tuple[str, ...]
    """`file:line` in the user's code."""
    rendered_lines: tuple[RenderedLine, ...] = ()
    """Lines of the rendered MLIR: (kernel, line)."""
    lowered: tuple[str, ...] = ()
    """Nodes after decomposition, in order."""
    absorbed: tuple[Absorbed, ...] = ()
    """Selected nodes that no instruction works for, with the reason."""
    buffers: tuple[BufferAt, ...] = ()
    """Scratchpad buffers that the selected instructions read or write: (kernel, number)."""
    index: OriginIndex | None = field(default=None, compare=False)

    @property
    def cycles(self) -> int:
        """Unit cycles that the selected spans take."""
        if self.index is None:
            return 0
        rows, trace = list(self.spans), self.index.trace
        return int((trace.end[rows] - trace.start[rows]).sum())

    @checks_what_it_is_given
    def lines_of(self, kernel: str, stage: str = "scheduled") -> tuple[int, ...]:
        """The selected lines of one kernel's text; `stage` is scheduled or rendered."""
        if stage not in ("scheduled", "rendered"):
            raise BadOption(f"stage={stage!r} has no lines that are selected; expected 'scheduled' or 'rendered'")
        lines = self.mlir_lines if stage == "scheduled" else self.rendered_lines
        return tuple(line for name, line in lines if name == kernel)

    def __repr__(self) -> str:
        return (
            f"Selection({self.what}: {_count(self.nodes, 'node')}, {_count(self.kernels, 'kernel')}, "
            f"{_count(self.mlir_lines, 'line')}, {_count(self.instructions, 'instruction')}, "
            f"{_count(self.spans, 'span')}, {_count(self.source_lines, 'source line')})"
        )

    def text(self) -> str:
        """The thread from Python to the timeline, a part a stage."""
        return "\n".join(f"{head:<12} {line}" for part, lines in self.parts() for head, line in headed(part, lines))

    def parts(self) -> list[tuple[str, list[str]]]:
        """(stage, lines), from the user's code to the timeline: what `text` and the page show."""
        index = self.index
        if index is None:
            return []
        sources = [
            f"{without_folder(place)}  {index.sources.get(place, '').strip()}".rstrip() for place in self.source_lines
        ]
        nodes = [f"{name} = {index.captured[name].op}{_module(index.captured[name])}" for name in self.nodes]
        folded = [f"{gone.node}: {gone.reason}" for gone in self.absorbed]
        rendered = [line_text(line, index.rendered_texts) for line in self.rendered_lines]
        scheduled = [line_text(line, index.scheduled_texts) for line in self.mlir_lines]
        stages = [
            ("python", sources),
            ("captured", nodes),
            ("absorbed", folded),
            ("lowered", [f"{kernel}: {', '.join(self._of_kernel(kernel))}" for kernel in self.kernels]),
            ("rendered", rendered),
            ("scheduled", scheduled),
            ("instructions", instruction_lines(index, self.instructions)),
            ("simulated", span_lines(index, self.spans, self.cycles)),
        ]
        return [(stage, lines) for stage, lines in stages if lines]

    def _of_kernel(self, kernel: str) -> tuple[str, ...]:
        nodes = self.index.kernel_nodes[kernel] if self.index else ()
        return tuple(name for name in nodes if name in self.lowered)

    def html(self) -> Markup:
        """The thread as an HTML table that needs no other file."""
        rows = joined(map(rows_html, self.table_rows()))
        return markup.fragment(html('<p><b>{}</b></p><table class="thread">{}</table>', self.what, rows))

    def table_rows(self) -> list[tuple[tuple[str, str], ...]]:
        """The rows of the table in `html`, stage by stage: titles and lines."""
        return [tuple(headed(part, lines)) for part, lines in self.parts()]


def headed(part: str, lines: Sequence[str], most: int = 8) -> list[tuple[str, str]]:
    shown = lines if len(lines) <= most else [*lines[: most - 1], f"... and {len(lines) - most + 1} more"]
    return [(part if place == 0 else "", line) for place, line in enumerate(shown)]


def rows_html(rows: Sequence[tuple[str, str]]) -> Markup:
    """Rows of the table of a selection, from titles and lines."""
    empty = html("<td></td>")  # an empty <th> would be the title of nothing
    heads = (html('<th scope="row">{head}</th>', head=head) if head else empty for head, _ in rows)
    return joined(html("<tr>{}<td>{}</td></tr>", head, line) for head, (_, line) in zip(heads, rows, strict=True))


def line_text(line: MlirLine | RenderedLine, texts: Mapping[str, Sequence[str]]) -> str:
    return f"{line.kernel}:{line.line}  {texts[line.kernel][line.line - 1].strip()[:100]}"


def instruction_lines(index: OriginIndex, instructions: tuple[InstructionAt, ...]) -> list[str]:
    """A line for each kernel and opcode: the number of instructions, and the first of them."""
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


def _module(node: Node) -> str:
    return f"   in {node.origin.module}" if node.origin.module else ""


def _count(items: tuple[object, ...], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"
