"""The memory's peak rate. A kernel that moves bytes at DRAM's peak rate is near a roof: beyond its first load and its
last store a schedule is faster only if it moves fewer bytes. A kernel that waits for transfers although the memory is
not always at its peak gains from a faster memory in proportion to its transfers' time on the critical path. In a kernel
whose arrays are at their peak this is only the first load and the last store, and the rule ignores it."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import MEMORY
from simulator.machine.machine import Machine
from workbench.explaining.findings import ComputedFacts, Facts, Finding, Remedy, finding, percent
from workbench.explaining.findings.narrower_numbers import heaviest, weights_share
from workbench.explaining.findings.rules.arrays_at_their_peak import at_peak

AT_PEAK = 0.8
"""The share of the memory's peak rate over a kernel's time: the rest are the first load and the last store."""
WAITS = 0.2
"""The least share of a kernel's cycles with waits for transfers that the rule reports."""


@finding("memory at its peak")
def memory_at_its_peak(facts: Facts) -> Iterator[Finding]:
    rate = float(facts.machine.bus_bytes_per_cycle)
    for kernel in facts.computed:
        moved = _needed_bytes(facts, kernel)
        if at_memorys_peak(facts, kernel):
            yield Finding(
                kernel.name,
                kernel.part(*kernel.transfers),
                f"the memory is near its roof: {moved:,} bytes in {kernel.cycles:,} cycles are "
                f"{percent(moved, rate * kernel.cycles)} of {_most(facts.machine)}. {_most_of(facts, kernel, moved)}",
                kernel.showing(*kernel.transfers),
                about=MEMORY,
            )


@finding("bound by memory")
def bound_by_memory(facts: Facts) -> Iterator[Finding]:
    rate, use = float(facts.machine.bus_bytes_per_cycle), facts.memory_use
    bound = list[int]()
    waits, whole = 0, 0
    for kernel in facts.computed:
        moved, transfers = int(use.requested[kernel.spans].sum()), kernel.part(*kernel.transfers)
        idle = moved < AT_PEAK * rate * kernel.cycles and not at_peak(facts, kernel)
        if transfers >= WAITS * kernel.cycles and idle:
            waits += min(transfers, round(moved / rate))
            whole += kernel.cycles
            bound += kernel.showing(*kernel.transfers)
    if waits:
        yield Finding(
            "",
            waits,
            f"kernels of {whole:,} cycles wait {waits:,} of them for the memory's rate, though it is not near its "
            "roof all the time",
            tuple(sorted(bound)),
            remedy=Remedy.of_machine(**_twice(facts.machine)),
            about=MEMORY,
        )


def at_memorys_peak(facts: Facts, kernel: ComputedFacts) -> bool:
    """True if a kernel moves bytes nearly as fast as the memory can."""
    able = AT_PEAK * float(facts.machine.bus_bytes_per_cycle) * kernel.cycles
    return 0 < able <= _needed_bytes(facts, kernel)


def _needed_bytes(facts: Facts, kernel: ComputedFacts) -> int:
    """The bytes that a kernel asks for; unused bytes of requests are not among them, since they could be saved."""
    return int(facts.memory_use.asked[kernel.spans].sum())


def _most(machine: Machine) -> str:
    share = machine.dram.stream_share
    return "its peak rate" if share == 1 else f"what long streams reach ({share:.0%} of its peak rate)"


def _most_of(facts: Facts, kernel: ComputedFacts, moved: int) -> str:
    """The tensor with most bytes, by the user's name of it, and what helps."""
    value, part = heaviest(kernel, moved)
    helps = f"fewer bytes, or a faster memory, make it faster{weights_share(facts, value)}"
    if not part:  # it only gathers or scatters single places, whose bytes are not counted by tensor
        return helps[0].upper() + helps[1:]
    named = facts.named(value)
    of = named if any(each.path == named for each in facts.lowered.captured.inputs) else f"the result of {named}"
    return f"{percent(part, 1)} of the bytes are those of {of}; {helps}"


def _twice(machine: Machine) -> dict[str, int]:
    """The figures that together double the bandwidth to the scratchpad: the memory's, and those of ports and queues
    that would be slower."""
    figures = {"dram_bytes_per_second": 2 * machine.dram.bytes_per_second}
    through_ports = machine.network.ports * machine.dram.request_bytes
    if machine.network.kind == "simple" and through_ports < 2 * float(machine.dram_bytes_per_cycle):
        figures["interconnect_ports"] = 2 * machine.network.ports
    if machine.dma.bytes_per_cycle < 2 * float(machine.dram_bytes_per_cycle):
        figures["dma_bytes_per_cycle"] = 2 * machine.dma.bytes_per_cycle
    return figures
