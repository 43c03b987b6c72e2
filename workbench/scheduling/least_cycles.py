"""Cycles that a mapping takes at the least: what must be moved by the bus, and what the arrays must do.

Unlike the heuristic's price this is a bound and no guess: it has no latency, no wait and no overhead, transfers go at
the rate of long streams, and every array is full. So a mapping whose bound is no better than the cycles of another need
not be tried.
"""

from __future__ import annotations

import math

from simulator.machine.figure_places import figure
from simulator.machine.machine import Machine
from simulator.machine.machine_record import matmul_passes
from workbench.ir import Mapping
from workbench.mlir.named_dims import Access, Payload
from workbench.scheduling.core_split import share
from workbench.scheduling.loop_order import loops_of


def least_cycles(payload: Payload, machine: Machine, mapping: Mapping) -> int:
    """A bound that no schedule of this mapping can go below."""
    return max(_bus(payload, machine, mapping), _arrays(payload, machine))


def _bus(payload: Payload, machine: Machine, mapping: Mapping) -> int:
    """The bytes that its loops load and store. Several memories of chiplets are no one bus: then there is no bound."""
    if figure(machine, "chiplets") != 1:
        return 0
    rate = machine.bus_bytes_per_cycle if machine.dram.kind == "simple" else machine.dram_bytes_per_cycle
    made = {access.value for op in payload.ops for access in op.accesses if access.is_output} - payload.results
    most: dict[int, float] = {}
    for access in (access for op in payload.ops for access in op.accesses):
        if access.value in made or access.argument < 0 or access.argument in payload.near or not _is_plain(access):
            continue
        moved = access.bytes(payload.dims) * _times(access, payload, mapping)
        most[access.argument] = max(most.get(access.argument, 0), moved)
    return math.floor(sum(most.values()) / rate)


def _is_plain(access: Access) -> bool:
    """True if each of its elements is loaded: not of a border, nor between the elements that a window touches."""
    return not access.padded and all(
        len(terms) < 2 and all(factor == 1 for _, factor in terms) for terms in access.axes
    )


def _times(access: Access, payload: Payload, mapping: Mapping) -> int:
    """Number of times the whole tensor is transferred: once per iteration of each loop that does not index it, unless
    no loop inside does. Where there is no product, ops have loops of their own, so once is all that is sure."""
    if access.is_output or payload.contraction is None:
        return 1
    mine = share(payload, mapping.cores).dims
    loops = loops_of(access, share(payload, mapping.cores), mapping.tile, mapping.order)
    times = 1
    for dim, extent in payload.dims.items():
        if dim not in access.dims:
            shares = [min(mine[dim], extent - begin) for begin in range(0, extent, mine[dim])]
            times *= sum(math.ceil(each / mapping.tile[dim]) for each in shares) if dim in loops else len(shares)
    return times


def _arrays(payload: Payload, machine: Machine) -> int:
    """The products, with every cell of every array at work. Where tiles of zeros are left out none may be left."""
    if payload.contraction is None or machine.core.skips_zero_tiles:
        return 0
    passes = matmul_passes(machine, payload.factor_bytes)
    points = payload.products * math.prod(payload.dims[dim] for dim in payload.contraction.loops)
    return math.floor(points * passes / machine.peak_macs_per_cycle)
