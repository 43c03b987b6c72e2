"""Spreading a kernel over the cores of a machine: the dims that are split, and each core's share.

Every core takes a share of the outermost, parallel dims, and works on that share as on a whole kernel: in tiles,
through its own scratchpad. Shares are equally large, except the last of each dim, which is the remainder. A reduced dim
is never split: the cores' partial results would have to be combined.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import TileProgram
from workbench.ground.errors import MappingError
from workbench.mlir.named_dims import Payload

_SMALL = 4
"""Up to this many cores, scheduling tries every number of cores."""


def share(payload: Payload, cores: Mapping[str, int]) -> Payload:
    """The payload of one core, if each dim is split over `cores[dim]` cores."""
    dims = {dim: -(-extent // cores.get(dim, 1)) for dim, extent in payload.dims.items()}
    return replace(payload, dims=dims, of=payload) if dims != payload.dims else payload


def used(payload: Payload, cores: Mapping[str, int]) -> int:
    """Counts the cores that have something to do."""
    mine = share(payload, cores)
    return math.prod(-(-extent // mine.dims[dim]) for dim, extent in payload.dims.items())


def splittable(payload: Payload) -> tuple[str, ...]:
    """Dims that may be split: parallel dims of the result with more than one point; without a product the dims that
    lie outermost in DRAM come first."""
    return tuple(
        dim
        for dim in (payload.in_memory if payload.contraction is None else payload.dims)
        if dim in payload.last.loops and dim not in (*payload.reduced, *payload.windows) and payload.dims[dim] > 1
    )


def splits(payload: Payload, cores: int) -> list[dict[str, int]]:
    """Ways to spread a payload over at most `cores` cores, most cores first; the last way is no split.

    For each number of cores (`cores`, all small numbers, and powers of two) these are the splits of one dim or two that
    leave each core the least work.
    """
    found: list[dict[str, int]] = []
    for count in range(cores, 1, -1):
        if count < cores and count > _SMALL and count & (count - 1):
            continue
        ways = list(_ways(payload, count))
        least = min((_points(payload, way) for way in ways), default=0)
        found += [way for way in ways if _points(payload, way) == least and way not in found]
    return [*found, {}]


def _points(payload: Payload, way: dict[str, int]) -> int:
    return math.prod(-(-extent // way.get(dim, 1)) for dim, extent in payload.dims.items())


def _ways(payload: Payload, cores: int) -> Iterator[dict[str, int]]:
    """Splits of one dim or two, outer dims first. No dim gets more pieces than it has points."""
    dims = splittable(payload)
    for first, second in itertools.combinations(dims, 2) if len(dims) > 1 else [dims * 2] if dims else []:
        for count in range(min(cores, payload.dims[first]), 0, -1):
            way = {first: count} if first == second else {first: count, second: cores // count}
            pieces = {dim: _pieces(payload.dims[dim], wanted) for dim, wanted in way.items()}
            if any(number > 1 for number in pieces.values()):
                yield {dim: number for dim, number in pieces.items() if number > 1}


def _pieces(extent: int, wanted: int) -> int:
    """The number of shares of a dim cut for `wanted` cores: fewer if the last shares would be empty."""
    return -(-extent // -(-extent // wanted))


def _said(payload: Payload, cores: Mapping[str, int], most: int, *, asked: bool) -> str:
    """The use of the machine's cores in words: as a user asked, or as the heuristic chose."""
    if not splittable(payload):
        return f"on one core of {most}, since no dim of it is parallel"
    where = " and ".join(f"{dim} over {count}" for dim, count in cores.items()) + " cores" if cores else "on one core"
    count = used(payload, cores)
    if count == most:
        return where
    if asked:
        return f"{where} of {most}, as given"
    few = all(used(payload, way) <= count for way in splits(payload, most))
    return f"{where} of {most}, since " + ("it has no more parts" if few else "more would not be faster")


def dealt_to(payload: Payload, machine: Machine, cores: Mapping[str, int]) -> Counter[int]:
    """Counts the shares of each core."""
    shares = machine.shares
    return Counter(shares[number % len(shares)] for number in range(used(payload, cores)))


def spread(payload: Payload, machine: Machine, cores: Mapping[str, int], asked: bool) -> str:
    """The use of the machine's cores in words; empty on a machine with one core."""
    if machine.core.count == 1:
        return ""
    where = _said(payload, cores, len(machine.shares), asked=asked)
    if machine.core.own_figures:  # words about cores are about shares
        where = where.replace("cores", "shares").replace("core", "share")
        where += f"; they go to cores {', '.join(map(str, machine.shares))} in turn"
    return where


def spread_of(program: TileProgram, machine: Machine, author: str) -> str:
    """The use of the machine's cores in words, if a script or template decides it instead of the heuristic."""
    if machine.core.count == 1:
        return ""
    count = len(np.unique(program.core)) or 1
    return f"on {'one core' if count == 1 else f'{count} cores'} of {machine.core.count}, as {author} has it"


def checked_cores(kernel: str, payload: Payload, wanted: Mapping[str, int], cores: int) -> dict[str, int]:
    """Checks a user's split against the kernel's dims and the machine's cores; returns it without empty shares."""
    can = ", ".join(f"{dim} ({payload.dims[dim]})" for dim in splittable(payload)) or "none"
    for dim, count in wanted.items():
        if dim not in payload.dims:
            raise MappingError(kernel, f"cores names {dim!r}; dims that can be split over cores: {can}", "cores")
        if count > 1 and dim in payload.reduced:
            told = f"cores: {dim} is reduced, and a reduction is not split; dims that can be split: {can}"
            raise MappingError(kernel, told, "cores")
        if count > 1 and dim not in splittable(payload):
            raise MappingError(kernel, f"cores: {dim} cannot be split over cores; dims that can: {can}", "cores")
    total = math.prod(wanted.values())
    if total > cores:
        told = f"takes {total} cores, the machine has {cores}: wb.machine(..., cores={total})"
        raise MappingError(kernel, f"cores = {dict(wanted)} {told}", "cores")
    return {dim: pieces for dim, count in wanted.items() if (pieces := _pieces(payload.dims[dim], count)) > 1}
