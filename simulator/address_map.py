"""Where an address lies in a memory: channel, pseudo-channel, bank, row, column.

A mapping is data: for each field the place and width of its bits. A place within a channel is packed into one
integer, a coordinate: row, bank of the channel, column, from the highest bits down. Addresses wrap at the last row.
"""

from __future__ import annotations

import numpy as np

from simulator.errors import MachineError
from simulator.jit import compiled
from simulator.memory_file import Memory
from simulator.program import I64

CHANNEL, PSEUDO, GROUP, BANK, COLUMN, ROW = range(6)
_FIELDS = 6
_HASH = 6
"""Row of the map after the fields: 1 where the channel is hashed."""
_SHIFT, _WIDTH = 0, 1


def address_map(memory: Memory, channels: int) -> I64:
    """The bits of each field: (shift, width) by field, and whether the channel is hashed."""
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
    bits = np.zeros((_FIELDS + 1, 2), np.int64)
    at = memory.request_bytes.bit_length() - 1
    for name in [memory.address[start : start + 2] for start in range(0, len(memory.address), 2)][::-1]:
        for field, count in counts[name]:
            bits[field] = at, count.bit_length() - 1
            at += count.bit_length() - 1
    bits[_HASH, 0] = int(memory.channel_hash == "xor")
    return bits


@compiled
def channel_of(bits: I64, address: int) -> int:
    """The channel an address lies in."""
    width = bits[CHANNEL, _WIDTH]
    channel = (address >> bits[CHANNEL, _SHIFT]) & ((1 << width) - 1)
    if bits[_HASH, 0] == 1 and width > 0:
        above = address >> (bits[CHANNEL, _SHIFT] + width)
        while above > 0:
            channel ^= above & ((1 << width) - 1)
            above >>= width
    return channel


@compiled
def coordinate_of(bits: I64, address: int) -> int:
    """The place of an address within its channel."""
    coordinate = 0
    for field in (ROW, PSEUDO, GROUP, BANK, COLUMN):
        width = bits[field, _WIDTH]
        coordinate = (coordinate << width) | ((address >> bits[field, _SHIFT]) & ((1 << width) - 1))
    return coordinate
