"""The tiles of attention: what lies in the scratchpad, and how large a block of queries and of keys is by default."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from templates.writing import element_bytes
from workbench.ir import Mapping

if TYPE_CHECKING:
    from templates.attention import Attention


@dataclass(frozen=True, slots=True)
class Tiles:
    """The blocks of one kernel."""

    queries: int
    keys: int
    slots: int
    """Of the buffers that loops fill anew."""
    across: bool
    """Queries lie along the lanes, not keys."""
    parts: int
    """Parts of a block's queries, so that the arrays have work while the weights of a part are computed."""
    held: int
    """Slots of buffers with all keys and values of a matrix; 0 where a block of them is loaded at a time."""

    @property
    def part(self) -> int:
        """The queries of a part."""
        return -(-self.queries // self.parts)


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer: its axes by the letters of loops, the extents of these, its type, and its slots."""

    axes: str
    shape: tuple[int, ...]
    dtype: str
    slots: int = 1

    def bytes(self, machine: Machine) -> int:
        return machine.pad_to_lanes(math.prod(self.shape) * element_bytes(self.dtype)) * self.slots


def buffers(of: Attention, tiles: Tiles) -> dict[str, Held]:
    """All buffers. Letters: q and k, queries and keys; w and v, the widths of keys and of values."""
    several = tiles.keys < of.keys
    extents = {"q": tiles.queries, "k": tiles.keys, "w": of.width, "v": of.value_width}
    whole = extents | {"k": of.keys} if tiles.held else extents

    def moved(name: str, axes: str, slots: int, over: dict[str, int]) -> Held:
        """In the order in which it lies in DRAM, so that copies are long."""
        kind = of.tensors[name].type
        steps = dict(zip(axes, kind.strides[-2:], strict=True))
        lengths = dict(zip(axes, kind.shape[-2:], strict=True))
        if name == "attn_mask":  # what is the same along an axis is loaded once
            axes = "".join(each for each in axes if lengths[each] > 1 and steps[each])
        order = "".join(sorted(axes, key=lambda each: -steps[each]))
        return Held(order, tuple(over[each] for each in order) or (1,), kind.dtype, slots)

    def kept(axes: str, dtype: str = "") -> Held:
        return Held(axes, tuple(extents[each] for each in axes), dtype or of.accumulated)

    slots = tiles.held or tiles.slots
    made = {
        "query": moved("query", "qw", tiles.slots, extents),
        "key": moved("key", "kw", slots, whole),
        "value": moved("value", "kv", slots, whole),
        "score": kept("kq" if tiles.across else "qk"),
        "highest": kept("q"),
        "total": kept("q"),
        "sum": kept("vq" if tiles.across else "qv"),
        "result": moved("result", "qv", tiles.slots, extents),
    }
    if "attn_mask" in of.tensors:
        made["attn_mask"] = moved("attn_mask", "qk", tiles.slots, extents)
    if of.narrow != of.accumulated:
        made["weight"] = kept(made["score"].axes, of.narrow)
    if several:
        made |= {"before": kept("q"), "shrink": kept("q")}
    return made


def fits(of: Attention, tiles: Tiles, machine: Machine) -> bool:
    return sum(each.bytes(machine) for each in buffers(of, tiles).values()) <= machine.scratchpad_bytes


def tiles_of(of: Attention, mapping: Mapping, machine: Machine) -> Tiles:
    """The tiles of a mapping."""
    return _tiles(of, mapping.tile["queries"], mapping.tile["keys"], mapping.buffers, machine)


def _tiles(of: Attention, queries: int, keys: int, slots: int, machine: Machine) -> Tiles:
    """With all keys and values of a matrix in the scratchpad, if they fit."""
    across = queries * 8 >= machine.vector.lanes
    parts = 2 if queries >= 2 * machine.array.columns else 1
    tiles = Tiles(queries, keys, slots, across, parts, 0)
    held = (replace(tiles, held=count) for count in range(slots, 0, -1))
    return next((each for each in held if fits(of, each, machine)), tiles)


def chosen_tile(of: Attention, machine: Machine) -> dict[str, int]:
    size = 512
    while size > 1 and not fits(of, _tiles(of, min(size, of.queries), min(size, of.keys), 2, machine), machine):
        size //= 2
    return {"queries": min(of.queries, size), "keys": min(of.keys, size)}
