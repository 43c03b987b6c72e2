"""Tensors that are mostly padding. A memory that lies in blocks of 8 rows and 128 columns pads the innermost axis of a
tensor to 128 and the next one to 8, and a transfer moves whole blocks: of a row of 24 elements four fifths are padding.
With another axis innermost the same tensor may fill its blocks. `layout="least"` gives each tensor the order with the
least padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from simulator.analysis.binding import MEMORY
from simulator.machine.tile_form import Tile
from simulator.tileprogram.program import Opcode, Space
from workbench.explaining.findings import ComputedFacts, Facts, Finding, Remedy, finding, times
from workbench.ir import KernelGraph
from workbench.lowering.layout_options import LEAST, Layout
from workbench.lowering.layouts import laid_out
from workbench.scheduling.planning.dram_plan import storage_bytes

SHOWS = 0.02
"""The least share of all cycles that the rule reports."""
MUCH = 0.25
"""The least share of a tensor's bytes in DRAM that another order of axes saves."""
_TRANSFERS = ("load transfer", "store transfer")


@finding("padded tensors")
def padded_tensors(facts: Facts) -> Iterator[Finding]:
    block = facts.machine.dram_block
    spared, size = (_spared(facts.lowered, block), f"{block.rows} x {block.columns}") if block else ({}, "")
    if not spared:
        return
    stake, shown = 0.0, set[int]()
    for kernel in facts.computed:
        for span, share in _shares(facts, kernel, spared).items():
            stake += share * kernel.path_of(span, *_TRANSFERS)
            shown.add(span)
    cycles = round(stake)
    if cycles >= SHOWS * facts.cycles:
        before, after = (sum(each) for each in zip(*spared.values(), strict=True))
        yield Finding(
            "",
            cycles,
            f"blocks of {size} take {before:,} bytes for {times(len(spared), 'tensor')}, most of them padding; with "
            f"axes in another order it is {after:,}",
            tuple(sorted(shown)),
            remedy=Remedy(f'j.with_(layout="{LEAST}")', options={"layout": LEAST}),
            about=MEMORY,
        )


def _spared(lowered: KernelGraph, block: Tile) -> dict[str, tuple[int, int]]:
    """The tensors that another order makes much smaller: their bytes in blocks now, and in that order."""
    types = laid_out(lowered, Layout(block)).types
    sizes = {
        value: (storage_bytes(lowered.types[value], block), storage_bytes(types[value], block))
        for value in lowered.storages
    }
    return {value: (before, after) for value, (before, after) in sizes.items() if before - after >= MUCH * before}


def _shares(facts: Facts, kernel: ComputedFacts, spared: Mapping[str, tuple[int, int]]) -> dict[int, float]:
    """The copies of `spared` tensors on the critical path, and the share of each that another order would not move."""
    program, on_path = kernel.scheduled.program, set(kernel.showing(*_TRANSFERS))
    owner = program.owners()
    copied = (program.space == Space.DRAM) & np.isin(program.opcode[owner], [Opcode.LOAD, Opcode.STORE])
    found = dict[int, float]()
    for place, launch in enumerate(facts.scheduled.launches.launches):
        sizes = [spared.get(facts.base_of(value), (1, 1)) for value in launch.arguments]
        shares = np.array([1 - after / before for before, after in sizes])
        if launch.kernel != kernel.name or not shares.any():
            continue
        rows = facts.trace.rows_of(place).start + owner[copied]
        parts = zip(rows.tolist(), shares[program.target[copied]].tolist(), strict=True)
        found |= {row: share for row, share in parts if share and row in on_path}
    return found
