"""Computes the scratchpad bytes that a tiling needs, before it is scheduled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.machine.machine import Machine
from simulator.tileprogram.program import MAX_RANK
from workbench.mlir.named_dims import Access, Payload, PayloadOp
from workbench.scheduling.loop_order import inside_reduced


@dataclass(frozen=True, slots=True)
class Demand:
    """The scratchpad bytes of tilings, before scheduling: of every tensor touched, in all its slots."""

    machine: Machine
    payload: Payload
    buffers: int

    def bytes(self, tile: dict[str, int], order: Sequence[str] = ()) -> int:
        """The bytes of a tiling. If the order has parallel dims inside a reduced one, sums of all their tiles count."""
        made, stored = self.payload.made, self.payload.results
        tiled = any(tile[dim] < extent for dim, extent in self.payload.dims.items())
        contraction = self.payload.contraction is not None
        inside = inside_reduced(self.payload, tile, order)
        whole = tile | {dim: self.payload.dims[dim] for dim in inside}
        around = any(whole[dim] < self.payload.dims[dim] for dim in self.payload.parallel)
        total = 0
        for access in touched(self.payload, tile):
            if inside and access.value in self._sums:
                several, box = contraction and around, whole
            else:
                several = tiled and (access.value not in made or access.value in stored or contraction)
                box = tile
            total += (self.buffers if several else 1) * self.machine.pad_to_lanes(access.bytes(box))
        return total

    @property
    def _sums(self) -> set[str]:
        """The results of reductions; without a product also the values computed from them before the last op."""
        product, last = self.payload.contraction, self.payload.last
        if product is not None:
            return {product.accesses[-1].value}
        reduced = {*self.payload.reduced}
        return {
            access.value
            for op in self.payload.ops
            for access in op.accesses
            if access.is_output and not reduced & {*access.dims} and (op is not last or op.reduced)
        }

    def fits(self, tile: dict[str, int], order: Sequence[str] = ()) -> bool:
        return within_rank(self.payload, tile) and self.bytes(tile, order) <= self.machine.scratchpad_bytes


def touched(payload: Payload, tile: Mapping[str, int]) -> list[Access]:
    """The accesses of a tiling: each tensor once for every inner loop that reads or writes it.

    Ops that share an inner loop share a load; in a tiled reduction every op has its own loop.
    """
    found: dict[tuple[str, int], Access] = {}
    for op in payload.ops:
        if op.role != "fill":
            loop = op.id if _has_own_loop(op, payload, tile) else -1
            for access in op.accesses:
                found.setdefault((access.value, loop), access)
    return [*found.values()]


def _has_own_loop(op: PayloadOp, payload: Payload, tile: Mapping[str, int]) -> bool:
    return payload.contraction is None and any(
        dim in payload.reduced and tile[dim] < payload.dims[dim] for dim in op.loops
    )


def within_rank(payload: Payload, tile: dict[str, int]) -> bool:
    """True if every box, and the space of every vector pass, has at most `MAX_RANK` axes of more than one element."""
    boxes = [access.extents(tile) for access in payload.accesses]
    windows = payload.windows
    boxes += [
        tuple(tile[dim] for dim in op.loops if dim not in windows) for op in payload.ops if op.role != "contraction"
    ]
    return all(sum(extent > 1 for extent in box) <= MAX_RANK for box in boxes)


def rows_fit(payload: Payload, machine: Machine, buffers: int) -> bool:
    """True if one row, with all reduced dims whole, fits into the scratchpad as a box of at most `MAX_RANK` axes."""
    if set(outermost(payload)) & set(payload.reduced):
        return False
    tile = {dim: extent if dim in payload.reduced else 1 for dim, extent in payload.dims.items()}
    return payload.contraction is not None or Demand(machine, payload, buffers).fits(tile)


def outermost(payload: Payload) -> list[str]:
    """Dims that must be walked one by one, because an operand's box has at most `MAX_RANK` axes."""
    return [dim for dim in payload.dims if dim not in payload.windows][:-MAX_RANK]
