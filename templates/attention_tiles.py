"""The tiles of attention: the buffers in the scratchpad for blocks of given sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from simulator.machine.machine import Machine
from templates.attention_call import AXES, Call
from templates.writing import element_bytes

NAMES = {"h": "matrices", "g": "sharing", "q": "queries", "k": "keys", "w": "width", "v": "values"}
"""Letter of a loop -> dim of a mapping; the last two are the widths of a key and of a value."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The blocks of one kernel."""

    sizes: dict[str, int]
    """The size of a block along each dim, by the letters of `NAMES`."""
    slots: int
    """Slots of the buffers that loops fill again and again."""
    across: bool
    """True if queries lie along the lanes, False if keys do."""
    split: str
    """The letter along which a block has two parts, so that the arrays have work while the weights of one part are
    computed; empty if a block has one part."""
    held: int
    """Slots of the buffers with all keys and values of a matrix; 0 if they are loaded block by block."""

    @property
    def part(self) -> int:
        return -(-self.sizes[self.split] // 2)


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer: the letters of its axes, their extents, its element type, and its slots."""

    axes: str
    shape: tuple[int, ...]
    dtype: str
    slots: int = 1

    def bytes(self, machine: Machine) -> int:
        return machine.pad_to_lanes(math.prod(self.shape) * element_bytes(self.dtype)) * self.slots


def strides(of: Call, name: str) -> dict[str, int]:
    """Letter -> stride of a tensor's axis, without axes along which the tensor is the same or that a mask lacks."""
    kind, axes = of.tensors[name].type, AXES[name]
    last = zip(axes[-len(kind.shape) :] if kind.shape else "", kind.shape[-2:], kind.strides[-2:], strict=True)
    found = {each: stride for each, extent, stride in last if name != "attn_mask" or (extent > 1 and stride)}
    return {walk.letter: walk.steps[name] for walk in of.walks if walk.letter and walk.steps[name]} | found


def buffers(of: Call, tiles: Tiles) -> dict[str, Held]:
    """The buffers of a kernel, by name."""
    whole = tiles.sizes | {"k": of.keys} if tiles.held else tiles.sizes
    lead = "".join(each for each in "hg" if tiles.sizes[each] > 1)

    def moved(name: str, slots: int, sizes: dict[str, int]) -> Held:
        """A buffer for copies, with its axes in the order of the tensor in DRAM, so that copies are long."""
        steps = strides(of, name)
        axes = "".join(sorted((each for each in steps if each in lead + "qkwv"), key=lambda each: -steps[each]))
        return Held(axes, tuple(sizes[each] for each in axes) or (1,), of.tensors[name].type.dtype, slots)

    def kept(axes: str, dtype: str = "") -> Held:
        return Held(lead + axes, tuple(tiles.sizes[each] for each in lead + axes), dtype or of.accumulated)

    made = {
        "query": moved("query", tiles.slots, tiles.sizes),
        "key": moved("key", tiles.held or tiles.slots, whole),
        "value": moved("value", tiles.held or tiles.slots, whole),
        "score": kept("kq" if tiles.across else "qk"),
        "highest": kept("q"),
        "total": kept("q"),
        "sum": kept("vq" if tiles.across else "qv"),
        "result": moved("result", tiles.slots, tiles.sizes),
    }
    if of.masked:
        made["attn_mask"] = moved("attn_mask", tiles.slots, tiles.sizes)
    if of.narrow != of.accumulated:
        made["weight"] = kept("kq" if tiles.across else "qk", of.narrow)
    if tiles.sizes["k"] < of.keys:
        made |= {"before": kept("q"), "shrink": kept("q")}
    return made


def fits(of: Call, tiles: Tiles, machine: Machine) -> bool:
    return sum(each.bytes(machine) for each in buffers(of, tiles).values()) <= machine.scratchpad_bytes


def tiles_for(of: Call, sizes: dict[str, int], slots: int, machine: Machine) -> Tiles:
    """The tiles of these sizes; all keys and values of a matrix stay in the scratchpad if they fit."""
    across = sizes["q"] * 8 >= machine.vector.lanes
    split = next((each for each in "qhg" if sizes[each] >= (2 * machine.array.columns if each == "q" else 2)), "")
    tiles = Tiles(sizes, slots, across, split, 0)
    whole = sizes["w"] >= of.width and sizes["v"] >= of.value_width
    held = (replace(tiles, held=count) for count in range(slots if whole else 0, 0, -1))
    return next((each for each in held if fits(of, each, machine)), tiles)
