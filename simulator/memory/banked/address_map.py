"""The place of an address in a memory: channel, pseudo-channel, bank, row, column.

A mapping is a table: for each field, the place and width of its bits. A place within a channel is packed into one
integer, a coordinate: row, bank of the channel, column, from the highest bits down. Addresses wrap at the last row.

A hash replaces a field by the exclusive or of it with all bits above it, taken in pieces as wide as the field. Distinct
addresses stay distinct, and an access pattern with a power-of-two stride reaches all channels and banks.

In a memory that is divided into parts, the number of the part is in the bits above the address in the part (see
memory/pages.py), and the mapping is that of the part's own channels.
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled
from simulator.errors import MachineError
from simulator.machine.dram_file import Memory
from simulator.tileprogram.program import I64

CHANNEL, PSEUDO, GROUP, BANK, COLUMN, ROW = range(6)
_FIELDS = 6
_HASH = 6
"""The row of the map after the fields: 1 if the channel is hashed, and 1 if the fields of a bank are hashed too."""
_PART = 7
"""The next row: the number of channels of a part of the memory."""
_SHIFT, _WIDTH = 0, 1

PART_SHIFT = 52
"""The lowest bit of a part's number; no address reaches it."""


def address_map(memory: Memory, channels: int) -> I64:
    """The map of a memory, or part of one, of `channels` channels: a row per field, then rows `_HASH` and `_PART`."""
    if channels & (channels - 1):
        raise MachineError(f"memory {memory.name!r}: {channels} channels: banks need a power of two")
    apart = "Bg" in memory.address
    counts = {
        "Ch": ((CHANNEL, channels),),
        "Ra": ((PSEUDO, memory.pseudo_channels),),
        "Bg": ((GROUP, memory.bank_groups),),
        "Ba": ((BANK, memory.banks),) if apart else ((GROUP, memory.bank_groups), (BANK, memory.banks)),
        "Co": ((COLUMN, memory.columns),),
        "Ro": ((ROW, memory.rows),),
    }
    bits = np.zeros((_FIELDS + 2, 2), np.int64)
    at = memory.request_bytes.bit_length() - 1
    for name in [memory.address[start : start + 2] for start in range(0, len(memory.address), 2)][::-1]:
        for field, count in counts[name]:
            bits[field] = at, count.bit_length() - 1
            at += count.bit_length() - 1
    bits[_HASH] = int(memory.channel_hash != "none"), int(memory.channel_hash == "all")
    bits[_PART, 0] = channels
    return bits


@compiled
def channel_of(bits: I64, address: int) -> int:
    """The channel of an address."""
    above = (address >> PART_SHIFT) * bits[_PART, 0]
    return above + _field(bits, CHANNEL, address, bits[_HASH, 0] == 1)


@compiled
def coordinate_of(bits: I64, address: int) -> int:
    """The place of an address within its channel."""
    coordinate = 0
    for field in (ROW, PSEUDO, GROUP, BANK, COLUMN):
        hashed = bits[_HASH, 1] == 1 and field != ROW and field != COLUMN
        coordinate = (coordinate << bits[field, _WIDTH]) | _field(bits, field, address, hashed)
    return coordinate


@compiled
def _field(bits: I64, field: int, address: int, hashed: bool) -> int:
    width = bits[field, _WIDTH]
    above = address >> bits[field, _SHIFT]
    mask = (1 << width) - 1
    place = above & mask
    while hashed and width > 0 and above > 0:
        above >>= width
        place ^= above & mask
    return place
