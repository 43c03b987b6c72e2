"""The tiles, bytes and products that a run skipped as zeros, by launch and argument."""

from __future__ import annotations

import numpy as np

from simulator.optional.zero_tiles.skipping import known
from simulator.records.spans import Via
from simulator.tileprogram.program import Opcode, Space
from simulator.trace_record import TraceRecord


def skipped_of(trace: TraceRecord) -> list[dict[str, str | int | bool]]:
    """One row per launch and argument that it loads: its tiles, and the tiles and bytes that were skipped.

    One more row per launch counts its products; its `argument` is -1. `known` is True if the numbers are known; for a
    trace from a journey's file it is True only if something was skipped.
    """
    trace.check_has_programs("which its skipped tiles follow from")
    rows = list[dict[str, str | int | bool]]()
    for index, launched, span_rows in trace.programs():
        program, left_out = launched.program, trace.via[span_rows] == Via.SKIPPED
        owner = program.owners()
        loads = (program.space == Space.DRAM) & (program.opcode[owner] == Opcode.LOAD)
        size, gone = program.shape.prod(1) * program.element_bytes, left_out[owner]
        data = known(launched)
        for place in np.unique(program.target[loads]).tolist():
            mine = loads & (program.target == place)
            counts = int(mine.sum()), int((mine & gone).sum()), int(size[mine & gone].sum())
            rows.append(_row(index, launched.kernel, place, place in data or counts[1] > 0, *counts, 0))
        products, macs = program.opcode == Opcode.MATMUL, program.extent.prod(1)
        if products.any():
            counts = int(products.sum()), int((products & left_out).sum())
            told = bool(data) or counts[1] > 0
            rows.append(_row(index, launched.kernel, -1, told, *counts, 0, int(macs[products & left_out].sum())))
    return rows


_COLUMNS = ("launch", "kernel", "argument", "known", "count", "skipped", "bytes_skipped", "macs_skipped")


def _row(*values: str | int | bool) -> dict[str, str | int | bool]:
    return dict(zip(_COLUMNS, values, strict=True))
