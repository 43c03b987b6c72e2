"""Random mappings for the kernels of a journey: any tiles, any order of the loops, any slots and cores."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import workbench as wb
from simulator.errors import DoesNotFit
from workbench.ground.errors import MappingError, TooManyInstructions
from workbench.ir import ScheduledKernel

TRIES = 4
"""Number of draws after a mapping that does not fit the machine or is refused for another reason."""

MOST_ROUNDS = 200
"""Rounds of all loops of a kernel: more only take longer."""


def mapped(journey: wb.Journey, seed: int) -> wb.Journey:
    """The journey with mappings of this seed; a kernel that refuses all that are drawn keeps the one it has."""
    drawn, taken = random.Random(seed), dict[str, Any]()
    if not seed:
        return journey
    written = {each.kernel for each in journey.scheduled.rendered if each.handwritten}
    for kernel in journey.scheduled.record.kernels:
        if kernel.kernel in written:  # a template has tiles of its own
            continue
        for _ in range(TRIES):
            wanted = taken | {kernel.kernel: _mapping(kernel, len(journey.machine.shares), drawn)}
            try:
                journey.with_(mapping=wanted).scheduled.record  # noqa: B018 - which raises what is refused
            except (MappingError, DoesNotFit, TooManyInstructions):
                continue
            taken = wanted
            break
    return journey.with_(mapping=taken)


def _mapping(kernel: ScheduledKernel, cores: int, drawn: random.Random) -> dict[str, Any]:
    dims = kernel.dims
    tile = {dim: _size(extent, drawn) for dim, extent in dims.items()}
    while _rounds(tile, dims) > MOST_ROUNDS:
        smallest = min(tile, key=lambda dim: tile[dim] / dims[dim])
        tile[smallest] = min(2 * tile[smallest], dims[smallest])
    said: dict[str, Any] = {"tile": tile, "order": drawn.sample([*dims], len(dims))}
    said["buffers"] = min(drawn.randint(1, 4), max(_rounds(tile, dims), 1))
    if cores > 1 and dims and drawn.random() < 0.5:
        said["cores"] = {drawn.choice([*dims]): drawn.randint(2, cores)}
    return said


def _size(extent: int, drawn: random.Random) -> int:
    """Mostly the whole dim or a few parts of it, at times whatever comes."""
    parts = drawn.choices((1, 2, 3, 0), (4, 3, 1, 2))[0]
    return -(-extent // parts) if parts else drawn.randint(1, extent)


def _rounds(tile: Mapping[str, int], dims: Mapping[str, int]) -> int:
    return math.prod(-(-extent // tile[dim]) for dim, extent in dims.items())
