"""Results that are stored to DRAM although nothing reads them. An operation like a sort makes two tensors, values and
their places. If a program uses only one of them, generated kernels do not store the other; a template writes its own
loops, and stores all that it makes. At stake are the cycles of these stores on the critical path. The arithmetic behind
them is left out, since the other result may need it too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.analysis.binding import MEMORY
from simulator.tileprogram.program import Opcode, Space
from workbench.explaining.findings import ComputedFacts, Facts, Finding, finding, percent
from workbench.explaining.findings.run_facts import moved_bytes

_STORES = ("store", "scatter")


@finding("stored and never read")
def stored_and_never_read(facts: Facts) -> Iterator[Finding]:
    needed = {facts.base_of(value) for value in _needed(facts)}
    for kernel in facts.computed:
        cycles, moved, spans, names = 0, 0, list[int](), dict[str, None]()
        for launch, number, value in _stored(facts, kernel):
            if facts.base_of(value) not in needed:
                here = _on_path(facts, kernel, launch, number)
                cycles, spans = cycles + sum(here.values()), [*spans, *here]
                moved, names = moved + moved_bytes(kernel.scheduled.program, number), {**names, value: None}
        if cycles:
            yield Finding(
                kernel.name,
                cycles,
                f"{', '.join(names)}: {moved:,} bytes are stored to DRAM and nothing reads them, "
                f"{percent(cycles, kernel.cycles)} of the kernel's cycles. The kernel writes all results of its "
                "operation; an operation without this result, where there is one, or a kernel of your own spares them",
                tuple(sorted(spans)),
                about=MEMORY,
            )


def _needed(facts: Facts) -> Iterator[str]:
    """The tensors that a kernel reads, that the program returns, or that its caller has."""
    captured = facts.lowered.captured
    yield from captured.outputs
    yield from (each.value for each in captured.mutations)
    yield from (each.value for each in captured.inputs)
    yield from (value for kernel in facts.lowered.kernels for value in kernel.inputs)


def _stored(facts: Facts, kernel: ComputedFacts) -> Iterator[tuple[int, int, str]]:
    """Yields each value that a launch of the kernel writes, with the number of the launch and of the argument."""
    for place, launch in enumerate(facts.scheduled.launches.launches):
        if launch.kernel == kernel.name:
            for number, argument in enumerate(kernel.scheduled.program.arguments):
                if argument.written:
                    yield place, number, launch.arguments[number]


def _on_path(facts: Facts, kernel: ComputedFacts, launch: int, argument: int) -> dict[int, int]:
    """The stores of an argument on the critical path of a launch, and the cycles of each."""
    program = kernel.scheduled.program
    owner = program.owners()
    stores = np.isin(program.opcode[owner], [Opcode.STORE, Opcode.SCATTER]) & (program.space == Space.DRAM)
    first = facts.trace.rows_of(launch).start
    mine = {first + row for row in owner[stores & (program.target == argument)].tolist()}
    found = dict[int, int]()
    for what, spans in kernel.on_path.items():
        if what.startswith(_STORES):
            for span in mine & spans.keys():
                found[span] = found.get(span, 0) + spans[span]
    return found
