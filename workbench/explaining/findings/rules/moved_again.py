"""Elements that are loaded more than once. A kernel that computes its result in tiles loads an operand's tile again for
each tile of the result that needs it, and tiles of images overlap by their halos. Data in the scratchpad need not be
loaded again: larger tiles reuse more of it, and loops in another order reuse another operand. An axis that `expand` or
`repeat` gave a tensor has one place in memory, and a kernel that reads it loads the same bytes for each index.

The remedy is a wider tile, if one that loads fewer bytes also makes the run faster: it is scheduled and simulated
before it is advised. At stake are the cycles of loads on the critical path whose bytes the launch had loaded before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.analysis.binding import MEMORY
from simulator.tileprogram.program import Opcode, Space, TileProgram
from workbench.explaining.findings import LEAST_SHARE, ComputedFacts, Facts, Finding, finding, percent
from workbench.explaining.findings.mapping_remedies import wider_tile

_LOADS = ("load transfer",)
SHOWS = 0.05
"""The least share of a kernel's cycles that the rule reports."""


@finding("moved again")
def moved_again(facts: Facts) -> Iterator[Finding]:
    for kernel in facts.computed:
        loads = kernel.part(*_LOADS)
        if loads < SHOWS * kernel.cycles:
            continue
        again = [each for each in _loaded(kernel.scheduled.program) if each.bytes > each.whole]
        stake, spans = 0, list[int]()
        for each in again:
            mine, cycles = _on_path(facts, kernel, each)
            stake, spans = stake + round(cycles * (1 - each.whole / each.bytes)), [*spans, *mine]
        if stake < max(SHOWS * kernel.cycles, LEAST_SHARE * facts.cycles):
            continue
        most = max(again, key=lambda each: each.bytes - each.whole)
        tensor = facts.named(kernel.launches[0].arguments[most.argument])
        wider = wider_tile(facts, kernel, _loaded_bytes)
        yield Finding(
            kernel.name,
            stake,
            f"{tensor} is loaded {most.bytes / most.whole:.1f} times over, {most.bytes:,} bytes of "
            f"{most.whole:,}: {most.why}. That is {percent(stake, kernel.cycles)} of the kernel's cycles; {most.helps}",
            tuple(sorted(spans)),
            remedy=wider.remedy if wider else None,
            predicted=wider.saved if wider else None,
            about=MEMORY,
        )


@dataclass(frozen=True)
class _Loaded:
    """One argument of a kernel, and a launch's loads of it."""

    argument: int
    bytes: int
    whole: int
    """Bytes of the argument in memory, where an expanded axis has one place."""
    expanded: int
    """Bytes of the argument with every index of an expanded axis."""
    same: bool
    """True if the same boxes are loaded again."""

    @property
    def why(self) -> str:
        if self.expanded > self.whole:
            axis = f"an axis of {self.expanded // self.whole:,} that expand, repeat or broadcasting gave it"
            return f"{axis} is one place in memory"
        return "the same tiles again" if self.same else "tiles that overlap, such as windows with their halos"

    @property
    def helps(self) -> str:
        if self.expanded > self.whole:
            return "an elementwise operation that broadcasts by itself (x + y without expand) loads each byte once"
        return "larger tiles, or loops in another order, reuse more of each loaded tile"


def _loaded(program: TileProgram) -> Iterator[_Loaded]:
    owner = program.owners()
    loads = (program.space == Space.DRAM) & (program.opcode[owner] == Opcode.LOAD)
    for number, argument in enumerate(program.arguments):
        here = np.flatnonzero(loads & (program.target == number))
        size = program.shape[here].prod(1) * program.element_bytes[here]
        places = [extent if stride else 1 for extent, stride in zip(argument.shape, argument.strides, strict=True)]
        whole, expanded = (int(np.prod(each, dtype=np.int64)) for each in (places, argument.shape))
        boxes = np.column_stack([program.offset[here], program.shape[here], program.strides[here]])
        if len(here):
            same, width = len(np.unique(boxes, axis=0)) < len(boxes), argument.element_bytes
            yield _Loaded(number, int(size.sum()), whole * width, expanded * width, same)


def _loaded_bytes(program: TileProgram) -> int:
    return sum(each.bytes for each in _loaded(program))


def _on_path(facts: Facts, kernel: ComputedFacts, loaded: _Loaded) -> tuple[list[int], int]:
    """The loads of an argument on the critical path, and the cycles of the waits for them."""
    program = kernel.scheduled.program
    spans = [
        span
        for span in kernel.showing(*_LOADS)
        if int(program.target[program.operand_start[facts.trace.instr[span]]]) == loaded.argument
    ]
    return spans, sum(kernel.path_of(span, *_LOADS) for span in spans)
