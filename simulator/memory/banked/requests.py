"""Makes the requests of an instruction, one by one, from its boxes and runs: see units/request_addresses.py."""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled
from simulator.tileprogram.program import I64
from simulator.units.request_addresses import Boxes, Walks


def request_counts(walked: Walks, size: int) -> I64:
    """For each instruction, the number of its requests of `size` bytes."""
    counts = np.zeros(len(walked.box_start) - 1, np.int64)
    _count(walked, size, np.zeros(0, np.int64), counts)
    return counts


@compiled
def _count(walked: Walks, size: int, nothing: I64, counts: I64) -> None:
    for row in range(len(counts)):
        counts[row] = requests_of(walked, row, size, nothing)


@compiled
def requests_of(walked: Walks, row: int, size: int, out: I64) -> int:
    """Writes an instruction's requests (address, plus 1 for a write) to `out` up to its end; returns their number."""
    count, first, last, boxes = 0, walked.box_start[row], walked.box_start[row + 1], walked.boxes
    steps = 0
    for box in range(first, last):
        steps = max(steps, points(boxes, box))
    for step in range(steps):
        for box in range(first, last):
            if last - first == 1 or step < points(boxes, box):
                address = boxes.address[box] + offset(boxes, box, step)
                count = _ask(address, boxes.run[box], boxes.writes[box], size, out, count)
    for run in range(walked.run_start[row], walked.run_start[row + 1]):
        for way in range(2):
            if walked.runs.ways[run] & (1 << way):
                count = _ask(walked.runs.address[run], walked.runs.size[run], way, size, out, count)
    return count


@compiled
def points(boxes: Boxes, box: int) -> int:
    """Number of runs of a box."""
    count = 1
    for dim in range(boxes.extents.shape[1]):
        count *= boxes.extents[box, dim]
    return count


@compiled
def offset(boxes: Boxes, box: int, step: int) -> int:
    """Bytes from the first run of a box to its run number `step`; the last dim is walked first."""
    found = 0
    for dim in range(boxes.extents.shape[1] - 1, -1, -1):
        extent = boxes.extents[box, dim]
        if extent > 1:
            found += step % extent * boxes.strides[box, dim]
            step //= extent
    return found


@compiled
def _ask(address: int, run: int, writes: int, size: int, out: I64, count: int) -> int:
    """Writes the requests of one run after the first `count` requests; returns the new number of requests."""
    first, last = address // size, (address + run - 1) // size
    for place in range(min(last - first + 1, len(out) - count)):
        out[count + place] = (first + place) * size + writes
    return count + last - first + 1
