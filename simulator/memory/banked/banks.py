"""The timing of one channel of DRAM: the first cycle of each command, and the delay of others by a command.

A channel consists of pseudo-channels, these of bank groups, these of banks; a bank has one row open, or none. A request
needs its row open: PRE closes another row, ACT opens the row, RD or WR moves the data. Every bank, group and
pseudo-channel, and the channel itself with its command buses, has a row of gates: the first cycle in which each command
may be given. A command for a bank waits for the gates of the bank, its group, its pseudo-channel and the channel. With
two buses a cycle carries one command for rows and one for columns.

A request is one integer: its coordinate (see address_map.py), and in the lowest bit 1 if it writes.
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled
from simulator.machine.dram_file import Memory
from simulator.memory.banked.channel_time import COMMAND, GROUP, REFRESH, ROW, TURN
from simulator.tileprogram.program import I64

ACT, PRE, RD, WR = 0, 1, 2, 3

# A row of gates: the first cycle of each command. A bank's row also has its open row (-1 for none), the end of its last
# refresh, and 1 if that was in this round; a pseudo-channel's row its last data command and its last four ACTs in order
_OPEN, _REFRESHED, _FRESH, _DATA, _ACTS, _GATES = 4, 5, 6, 7, 8, 12

# Figures
(
    PSEUDOS, BANKS, _GROUP_SHIFT, _PSEUDO_SHIFT, _GROUPS_AT, _PSEUDOS_AT, _CHANNEL_AT, _BANK_AT, _BANK_MASK, _ROW_AT,
    ALIKE, BUSES, _ACT_CYCLES, _ACT_RD, _ACT_WR, _ACT_PRE, _ACT_ACT, _ACT_ACT_GROUP, _ACT_ACT_PSEUDO, _FOUR_ACTS,
    _PRE_ACT, _RD_PRE, _WR_PRE, _COLUMN_GROUP, COLUMN, _RD_WR, _WR_RD_GROUP, _WR_RD, READ_DATA,
    _REFRESH, REFRESH_INTERVAL, REFRESHED, FIGURES,
) = range(33)  # fmt: skip


def figures_of(memory: Memory) -> I64:
    """The figures of a memory, as the compiled functions read them."""
    made = np.zeros(FIGURES, np.int64)
    banks, groups = memory.bank_groups * memory.banks, memory.pseudo_channels * memory.bank_groups
    bank_at = memory.columns.bit_length()  # above the column and the direction
    written = memory.write_latency + memory.burst
    all_at_once = memory.refreshes == "all"
    for place, value in {
        PSEUDOS: memory.pseudo_channels,
        BANKS: banks,
        _GROUP_SHIFT: memory.banks.bit_length() - 1,
        _PSEUDO_SHIFT: banks.bit_length() - 1,
        _GROUPS_AT: memory.pseudo_channels * banks,
        _PSEUDOS_AT: memory.pseudo_channels * banks + groups,
        _CHANNEL_AT: memory.pseudo_channels * (banks + 1) + groups,
        _BANK_AT: bank_at,
        _BANK_MASK: memory.pseudo_channels * banks - 1,
        _ROW_AT: bank_at + (memory.pseudo_channels * banks).bit_length() - 1,
        ALIKE: ~(2 * memory.columns - 2),
        BUSES: memory.command_buses,
        _ACT_CYCLES: memory.activate_cycles,
        _ACT_RD: memory.activate_to_read,
        _ACT_WR: memory.activate_to_write,
        _ACT_PRE: memory.row_active,
        _ACT_ACT: memory.row_cycle,
        _ACT_ACT_GROUP: memory.activate_to_activate_same_group,
        _ACT_ACT_PSEUDO: memory.activate_to_activate,
        _FOUR_ACTS: memory.four_activates,
        _PRE_ACT: memory.precharge,
        _RD_PRE: memory.read_to_precharge,
        _WR_PRE: written + memory.write_recovery,
        _COLUMN_GROUP: memory.column_to_column_same_group,
        COLUMN: max(memory.column_to_column, memory.burst),
        _RD_WR: memory.read_latency + memory.burst + memory.read_to_write_gap - memory.write_latency,
        _WR_RD_GROUP: written + memory.write_to_read_same_group,
        _WR_RD: written + memory.write_to_read,
        READ_DATA: memory.read_latency + memory.burst,
        _REFRESH: memory.refresh if all_at_once else memory.bank_refresh,
        REFRESH_INTERVAL: memory.refresh_interval if all_at_once else memory.refresh_interval // banks,
        REFRESHED: banks if all_at_once else 1,
    }.items():
        made[place] = value
    return made


def idle_gates(memory: Memory, channels: int) -> I64:
    """The gates of idle channels: commands may be given at once, all rows are closed. (channels x rows of gates x
    gates)"""
    groups = memory.pseudo_channels * memory.bank_groups
    gates = np.zeros((channels, groups * memory.banks + groups + memory.pseudo_channels + 1, _GATES), np.int64)
    gates[:, :, _OPEN], gates[:, :, _ACTS:] = -1, -memory.four_activates
    return gates


@compiled
def bank_of(figures: I64, request: int) -> int:
    """The bank of a request, by its number in the channel."""
    return (request >> figures[_BANK_AT]) & figures[_BANK_MASK]


@compiled
def _around(figures: I64, bank: int) -> tuple[int, int]:
    """The rows of gates of a bank's group and of its pseudo-channel."""
    pseudo = figures[_PSEUDOS_AT] + (bank >> figures[_PSEUDO_SHIFT])
    return figures[_GROUPS_AT] + (bank >> figures[_GROUP_SHIFT]), pseudo


@compiled
def next_command(figures: I64, gates: I64, request: int) -> int:
    """The command that a request needs next."""
    row = gates[bank_of(figures, request), _OPEN]
    if row == request >> figures[_ROW_AT]:
        return RD + (request & 1)
    return ACT if row < 0 else PRE


@compiled
def first_cycle(figures: I64, gates: I64, request: int, command: int) -> int:
    """The first cycle at which a command for a request may be given."""
    bank = bank_of(figures, request)
    group, pseudo = _around(figures, bank)
    own = max(gates[bank, command], gates[group, command])
    return max(own, max(gates[pseudo, command], gates[figures[_CHANNEL_AT], command]))


@compiled
def waits_for(figures: I64, gates: I64, request: int, now: int) -> int:
    """The state of the channel while it waits for this request's next command."""
    bank, command = bank_of(figures, request), next_command(figures, gates, request)
    group, pseudo = _around(figures, bank)
    if gates[bank, _REFRESHED] > now:
        return REFRESH
    if command < RD or gates[bank, command] > now:
        return ROW
    if max(gates[group, command], gates[pseudo, command]) <= now:
        return COMMAND
    return GROUP if gates[pseudo, _DATA] == command else TURN


@compiled
def give_column(figures: I64, gates: I64, request: int, now: int) -> None:
    """Gives RD or WR for a request: delays later commands."""
    bank, command = bank_of(figures, request), RD + (request & 1)
    group, pseudo = _around(figures, bank)
    _wait(gates, group, command, now + figures[_COLUMN_GROUP])
    _wait(gates, pseudo, command, now + figures[COLUMN])
    gates[pseudo, _DATA] = command
    if command == RD:
        _wait(gates, bank, PRE, now + figures[_RD_PRE])
        _wait(gates, pseudo, WR, now + figures[_RD_WR])
    else:
        _wait(gates, bank, PRE, now + figures[_WR_PRE])
        _wait(gates, group, RD, now + figures[_WR_RD_GROUP])
        _wait(gates, pseudo, RD, now + figures[_WR_RD])
    _take_bus(figures, gates, RD, WR, now + 1)


@compiled
def activate(figures: I64, gates: I64, request: int, now: int) -> None:
    """Gives ACT for the row of a request: opens the row and delays later commands."""
    bank = bank_of(figures, request)
    gates[bank, _OPEN] = request >> figures[_ROW_AT]
    _wait(gates, bank, ACT, now + figures[_ACT_ACT])
    _wait(gates, bank, PRE, now + figures[_ACT_PRE])
    _wait(gates, bank, RD, now + figures[_ACT_RD])
    _wait(gates, bank, WR, now + figures[_ACT_WR])
    _wait(gates, figures[_GROUPS_AT] + (bank >> figures[_GROUP_SHIFT]), ACT, now + figures[_ACT_ACT_GROUP])
    pseudo = gates[figures[_PSEUDOS_AT] + (bank >> figures[_PSEUDO_SHIFT])]
    for at in range(_ACTS, _GATES - 1):
        pseudo[at] = pseudo[at + 1]
    pseudo[_GATES - 1] = now
    pseudo[ACT] = max(now + figures[_ACT_ACT_PSEUDO], pseudo[_ACTS] + figures[_FOUR_ACTS])
    _take_bus(figures, gates, ACT, PRE, now + figures[_ACT_CYCLES])


@compiled
def precharge(figures: I64, gates: I64, bank: int, now: int) -> None:
    """Gives PRE for one bank: closes its row and delays later commands."""
    gates[bank, _OPEN] = -1
    _wait(gates, bank, ACT, now + figures[_PRE_ACT])
    _take_bus(figures, gates, ACT, PRE, now + 1)


@compiled
def all_closed(gates: I64, first: int, last: int) -> bool:
    """True if none of some banks has a row open."""
    for bank in range(first, last):  # noqa: SIM110
        if gates[bank, _OPEN] >= 0:
            return False
    return True


@compiled
def first_cycle_of_all(figures: I64, gates: I64, first: int, last: int, command: int) -> int:
    """The first cycle in which banks `first` to `last` of a pseudo-channel may all take a command; a refresh waits as
    ACT."""
    pseudo = figures[_PSEUDOS_AT] + (first >> figures[_PSEUDO_SHIFT])
    gate = max(gates[pseudo, command], gates[figures[_CHANNEL_AT], command])
    for bank in range(first, last):
        gate = max(gate, gates[bank, command])
    return gate


@compiled
def refresh_all(figures: I64, gates: I64, first: int, last: int, now: int) -> None:
    """Refreshes banks `first` up to `last`: delays their ACTs."""
    for bank in range(first, last):
        _wait(gates, bank, ACT, now + figures[_REFRESH])
        gates[bank, _REFRESHED] = now + figures[_REFRESH]
        mark_fresh(figures, gates, bank)
    _take_bus(figures, gates, ACT, PRE, now + 1)


@compiled
def mark_fresh(figures: I64, gates: I64, bank: int) -> None:
    """Marks a bank as refreshed in this round; after the last bank of its pseudo-channel another round begins."""
    gates[bank, _FRESH] = 1
    first = bank // figures[BANKS] * figures[BANKS]
    for other in range(first, first + figures[BANKS]):
        if gates[other, _FRESH] == 0:
            return
    for other in range(first, first + figures[BANKS]):
        gates[other, _FRESH] = 0


@compiled
def is_fresh(gates: I64, bank: int) -> bool:
    """True if a bank has been refreshed in this round."""
    return gates[bank, _FRESH] == 1


@compiled
def _wait(gates: I64, row: int, command: int, until: int) -> None:
    gates[row, command] = max(gates[row, command], until)


@compiled
def _take_bus(figures: I64, gates: I64, one: int, other: int, until: int) -> None:
    """Holds the bus of two commands until a cycle; with a single bus, that of all commands."""
    channel = gates[figures[_CHANNEL_AT]]
    channel[one] = channel[other] = until
    if figures[BUSES] == 1:
        channel[ACT] = channel[PRE] = channel[RD] = channel[WR] = until
