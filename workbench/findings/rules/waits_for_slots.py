"""Slots that are waited for. A buffer whose tiles are moved inside a loop has as many slots as the mapping's `buffers`:
one is worked on while the next is filled. Where a transfer takes its latency, or where steps differ in length, two are
not enough to keep the memory and the units busy: the next load, or the next result, waits until a slot is free.

What is at stake is what the same program would save if each tile had a slot of its own. The remedy is one slot more, or
twice as many, if the scratchpad holds them and the loops have as many rounds; what it saves is what the same program
takes with its tiles in so many slots. More are not always faster: loads that run far ahead share the memory with those
that are waited for. Where there is no room, smaller tiles make some."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.records.spans import Cause
from simulator.tileprogram.more_slots import with_room_for_all, with_slots
from simulator.tileprogram.program import Opcode
from workbench.findings.finding_record import Finding, Remedy
from workbench.findings.number_words import percent, times
from workbench.findings.rule_registry import finding
from workbench.findings.run_facts import Facts, KernelFacts
from workbench.ir import ScheduledKernel
from workbench.scheduling.user_mapping import mapping_of, rounds_of

AT_STAKE = 0.01
"""Of the makespan: less is not told (`search.LEAST_SHARE`), so more is not simulated for it."""
_ROOM = (Cause.WRITE_AFTER_READ, Cause.WRITE_AFTER_WRITE, Cause.REUSE)


@finding("waits for slots")
def waits_for_slots(facts: Facts) -> Iterator[Finding]:
    for kernel in facts.computed:
        spans = _waiting(facts, kernel)
        if not spans:
            continue
        most = facts.cycles - facts.cycles_with(kernel, with_room_for_all(kernel.scheduled.program))
        if most < AT_STAKE * facts.cycles:
            continue
        remedy, predicted, why = _more_slots(facts, kernel, kernel.scheduled)
        stake, slots = max(most, predicted or 0), kernel.scheduled.mapping.buffers
        yield Finding(
            kernel.name,
            stake,
            f"{times(len(spans), 'time')} a tile waits until a slot of its buffer is free: with room for each the "
            f"kernel would take {percent(stake, kernel.cycles)} fewer cycles; there "
            f"{'is' if slots == 1 else 'are'} {times(slots, 'slot')}{why}",
            spans,
            remedy=remedy,
            predicted=predicted,
        )


def _waiting(facts: Facts, kernel: KernelFacts) -> tuple[int, ...]:
    """Spans of the critical path that waited for room last."""
    trace = facts.trace
    on_path = sorted({span for spans in kernel.on_path.values() for span in spans})
    rows = np.array(on_path, np.int64)
    wrote_here = ~np.isin(trace.kind[rows], [Opcode.STORE, Opcode.SCATTER, Opcode.DIRECT])
    return tuple(rows[np.isin(trace.cause[rows], _ROOM) & wrote_here].tolist())


def _more_slots(facts: Facts, kernel: KernelFacts, made: ScheduledKernel) -> tuple[Remedy | None, int | None, str]:
    """One slot more or twice as many, the cycles they save, and a remark on them."""
    slots = made.mapping.buffers
    rounds = rounds_of(made.mapping.tile, made.dims)
    wanted = sorted({each for each in (slots + 1, 2 * slots) if each <= rounds})
    if not made.schedule:
        return None, None, ", and its loops are a template's own"
    if not wanted:
        return None, None, ", and its loops have no more rounds"
    roomier = {each: with_slots(made.program, each, facts.machine.scratchpad_bytes) for each in wanted}
    cycles = {each: facts.cycles_with(kernel, program) for each, program in roomier.items() if program is not None}
    if not cycles:
        return None, None, ", and more do not fit: smaller tiles would make room"
    best = min(cycles, key=lambda each: cycles[each])
    mapping = {**mapping_of(made), "buffers": best}
    call = f'j.with_(mapping=j.scheduled.mappings | {{"{made.kernel}": {mapping}}})'
    every = {each.kernel: mapping_of(each) for each in facts.scheduled.kernels if each.mapping.tile}
    return Remedy(call, options={"mapping": {**every, made.kernel: mapping}}), facts.cycles - cycles[best], ""
