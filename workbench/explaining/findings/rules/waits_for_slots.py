"""Waits for slots. A buffer whose tiles move inside a loop has the mapping's number of `buffers` as slots: units work
on one while the next is filled. Where the latency is long, or steps differ in length, two slots cannot keep the memory
and the units busy: the next load, or the next result, waits until a slot is free.

At stake is the saving of the same program if each tile had a slot of its own. The remedy is one slot more, or twice as
many, if they fit the scratchpad and the loops have as many iterations; its saving is predicted by simulating the same
program with that many slots. More slots are not always faster: loads that run far ahead share the memory with urgent
loads. Where the scratchpad has no room, smaller tiles make room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.records.spans import Cause
from simulator.tileprogram.more_slots import with_room_for_all, with_slots
from simulator.tileprogram.program import Opcode
from workbench.explaining.findings import LEAST_SHARE, Facts, Finding, KernelFacts, Remedy, finding, percent, times
from workbench.explaining.findings.mapping_remedies import remapped
from workbench.ir import ScheduledKernel
from workbench.scheduling.user_mapping import mapping_of, rounds_of

_ROOM = (Cause.WRITE_AFTER_READ, Cause.WRITE_AFTER_WRITE, Cause.REUSE)


@finding("waits for slots")
def waits_for_slots(facts: Facts) -> Iterator[Finding]:
    for kernel in facts.computed:
        spans = _waiting(facts, kernel)
        if not spans:
            continue
        most = facts.cycles - facts.cycles_with(kernel, with_room_for_all(kernel.scheduled.program))
        if most < LEAST_SHARE * facts.cycles:  # dropped: nothing more is simulated for it
            continue
        remedy, predicted, why = _more_slots(facts, kernel, kernel.scheduled)
        stake, slots = max(most, predicted or 0), kernel.scheduled.mapping.buffers
        yield Finding(
            kernel.name,
            stake,
            f"{times(len(spans), 'time')} a tile waits until a slot of its buffer is free: with a slot for each "
            f"tile the kernel would take {percent(stake, kernel.cycles)} fewer cycles; there "
            f"{'is' if slots == 1 else 'are'} {times(slots, 'slot')}{why}",
            spans,
            remedy=remedy,
            predicted=predicted,
        )


def _waiting(facts: Facts, kernel: KernelFacts) -> tuple[int, ...]:
    """Spans of the critical path whose last wait was for a slot."""
    trace = facts.trace
    on_path = sorted({span for spans in kernel.on_path.values() for span in spans})
    rows = np.array(on_path, np.int64)
    wrote_here = ~np.isin(trace.kind[rows], [Opcode.STORE, Opcode.SCATTER, Opcode.DIRECT])
    return tuple(rows[np.isin(trace.cause[rows], _ROOM) & wrote_here].tolist())


def _more_slots(facts: Facts, kernel: KernelFacts, made: ScheduledKernel) -> tuple[Remedy | None, int | None, str]:
    """The remedy of one slot more or twice as many, the cycles that it saves, and a remark if there is none."""
    slots = made.mapping.buffers
    rounds = rounds_of(made.mapping.tile, made.dims)
    wanted = sorted({each for each in (slots + 1, 2 * slots) if each <= rounds})
    if not made.schedule:
        return None, None, ", and a template writes its own loops"
    if not wanted:
        return None, None, ", and its loops have no more iterations"
    roomier = {each: with_slots(made.program, each, facts.machine.scratchpad_bytes) for each in wanted}
    cycles = {each: facts.cycles_with(kernel, program) for each, program in roomier.items() if program is not None}
    if not cycles:
        return None, None, ", and more do not fit: smaller tiles would make room"
    best = min(cycles, key=lambda each: cycles[each])
    remedy = remapped(facts, made.kernel, {**mapping_of(made), "buffers": best})
    return remedy, facts.cycles - cycles[best], ""
