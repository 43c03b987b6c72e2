"""Checks the traffic between chiplets in a trace: follows each request to the memory that holds its page."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np

from simulator.machine.machine import Machine
from simulator.machine.optional.chiplets_shape import chiplet_of_core, is_between, route
from simulator.machine.topology import READ, WRITE
from simulator.memory.pages import Pages
from simulator.optional.feature import Audited
from simulator.records.spans import TOTALS
from simulator.tileprogram.program import I32, I64
from simulator.units.cost_table import Work


def violations(audited: Audited) -> Iterator[str]:
    """Yields totals that differ from the requests, launches too fast for a memory, and links with wrong traffic.

    A request is served by the memory of its page; a request to another chiplet crosses the links on the way there.
    """
    trace, machine = audited.trace, audited.trace.machine
    whole, rate = np.zeros((2, machine.chiplet.count, machine.chiplet.count), np.int64), machine.dram_bytes_per_cycle
    for launch, worked in enumerate(audited.works()):
        asked, table = worked or (None, None)
        if asked is None or table is None:
            continue
        cores = trace.launches[launch].program.core
        moved = _moved(asked, cores, table, machine)
        whole += moved
        remote = int(moved.sum() - moved.trace(0, 1, 2).sum())
        for name, bytes in (("dram_request_bytes", int(moved.sum())), ("dram_remote_bytes", remote)):
            told = int(trace.totals[launch, TOTALS.index(name)])
            if told != bytes:
                yield f"launch {launch} tells of {told} {name}, its requests have {bytes}"
        _, begin, end = trace.kernel_spans[launch]
        for chiplet, bytes in enumerate(moved.sum((0, 1)).tolist()):
            least = Fraction(bytes - audited.unfinished) * machine.chiplet.count / rate
            if end - begin < least:
                took = f"launch {launch} takes {end - begin} cycles"
                yield f"{took}, less than the {float(least):.1f} that the memory of chiplet {chiplet} needs"
    yield from _link_violations(audited, whole)


def _moved(asked: Work, cores: I32, pages: Pages, machine: Machine) -> I64:
    """Bytes in whole requests, by direction, requesting chiplet and serving chiplet."""
    size, moved = machine.dram.request_bytes, np.zeros((2, machine.chiplet.count, machine.chiplet.count), np.int64)
    walked, boxes, runs = asked.walks, asked.walks.boxes, asked.walks.runs
    for row, core in enumerate(cores.tolist()):
        home = chiplet_of_core(machine, core)
        for box in range(walked.box_start[row], walked.box_start[row + 1]):
            begins: I64 = boxes.address[box : box + 1]
            for extent, stride in zip(boxes.extents[box], boxes.strides[box], strict=True):
                begins = (begins[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
            lies = pages.part[_requests(begins, boxes.run[box], size) >> pages.shift]
            np.add.at(moved[WRITE if boxes.writes[box] else READ, home], lies, size)
        for run in range(walked.run_start[row], walked.run_start[row + 1]):
            lies = pages.part[_requests(runs.address[run : run + 1], runs.size[run], size) >> pages.shift]
            for way in range(2):
                np.add.at(moved[way, home], lies, size * (int(runs.ways[run]) >> way & 1))
    return moved


def _requests(begins: I64, run: np.int64, size: int) -> I64:
    """Addresses of all requests of runs that begin at `begins` and have `run` bytes each."""
    first, last = begins // size, (begins + run - 1) // size
    counts = last - first + 1
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return (np.repeat(first, counts) + within) * size


def _link_violations(audited: Audited, moved: I64) -> Iterator[str]:
    expected: dict[tuple[int, ...], int] = {}
    machine = audited.trace.machine
    chiplets = range(machine.chiplet.count)
    for home, lies in ((home, lies) for home in chiplets for lies in chiplets):
        for way, ends in ((WRITE, (home, lies)), (READ, (lies, home))):
            crossed = route(machine, *ends)
            for link in pairwise(crossed):
                expected[link] = expected.get(link, 0) + int(moved[way, home, lies])
    for row in audited.links:
        begin, end = str(row["from"]), str(row["to"])
        if not is_between(begin, end):
            continue
        link = tuple(int(place.split(".")[0].removeprefix("chiplet")) for place in (begin, end))
        wanted = expected.pop(link, 0)
        if row["bytes"] != wanted:
            yield f"the link from {begin} to {end} carries {row['bytes']} bytes, those that cross it are {wanted}"
    for (begin, end), bytes in expected.items():
        if bytes:
            yield f"{bytes} bytes cross from chiplet {begin} to chiplet {end}, and no link carries them"
