"""Colours of the pictures. The hues are Okabe and Ito's, which stay apart for colour-blind readers; light and dark
differ in the ground they stand on and in how bright the hues are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from simulator.tileprogram.program import Opcode
from simulator.units.unit_table import DOES, STALLS
from workbench.ground.errors import BadOption

HELD: Final = 0.35
"""How much of its colour a bar keeps where its span waits."""


@dataclass(frozen=True)
class Style:
    """A set of colours."""

    ground: str
    ink: str
    faint: str
    """Grid lines and the empty part of a lane."""
    band: str
    """Every second launch's background."""
    kinds: Mapping[str, str]
    causes: Mapping[str, str]
    """Idle time by cause: paler than work, grey for data, blue for the memory, violet for buffers still in use, yellow
    for bytes that move in vain."""
    waits: Mapping[str, str]
    """Other waits of transfers, on their way and in a banked memory: violet to green by way of blue, light beside dark;
    and a scalar unit's waits for answers."""
    busy: str
    """A unit at work, whatever its work is."""


_LIGHT_KINDS = {
    "LOAD": "#0072B2",
    "STORE": "#D55E00",
    "COPY": "#56B4E9",
    "GATHER": "#004B75",
    "SCATTER": "#8F3F00",
    "MATMUL": "#009E73",
    "VECTOR": "#E69F00",
    "DIRECT": "#CC79A7",
    "BARRIER": "#555555",
    "OTHER": "#DADDE2",
    "HOST": "#7A4A9E",
}
_LIGHT_CAUSES = {
    "launch": "#5F6874",
    "issue": "#C9BFA5",
    "window": "#B3A27C",
    "queue_full": "#DDD3BB",
    "unit_busy": "#9C8F70",
    "memory_peak": "#8CB7E0",
    "inefficient_transfers": "#E6DB5C",
    "write_after_read": "#B497CC",
    "write_after_write": "#D3BEE3",
    "reuse": "#8E6BAE",
    "accumulate": "#A5D2BF",
    "data": "#99A3AE",
    "barrier": "#E3B8A5",
    "common_memory": "#BFD9A0",
}
_LIGHT_WAITS = {
    "interconnect": "#B3A6E8",
    "memory_row": "#2E8C86",
    "memory_bank_group": "#86CDBB",
    "memory_turnaround": "#6FD3EA",
    "memory_refresh": "#5560B0",
    "memory_command": "#145266",
    "scalar_latency": "#E5C3D7",
}
_DARK_WAITS = {
    "interconnect": "#B08BE6",
    "memory_row": "#1F8F86",
    "memory_bank_group": "#8ED6C4",
    "memory_turnaround": "#A6CDF7",
    "memory_refresh": "#3F4CC0",
    "memory_command": "#D6E3B5",
    "scalar_latency": "#7D5570",
}
_DARK_CAUSES = {
    "launch": "#C3C9D1",
    "issue": "#6E6753",
    "window": "#857957",
    "queue_full": "#575243",
    "unit_busy": "#948868",
    "memory_peak": "#476F99",
    "inefficient_transfers": "#8F8A00",
    "write_after_read": "#735A8C",
    "write_after_write": "#5A4A6B",
    "reuse": "#94719F",
    "accumulate": "#4B7565",
    "data": "#646E7A",
    "barrier": "#8A5F4C",
    "common_memory": "#6A8547",
}
_DARK_KINDS = {
    **_LIGHT_KINDS,
    "LOAD": "#4BA3DB",
    "STORE": "#F07F3C",
    "COPY": "#8CCEF2",
    "GATHER": "#2F74C0",
    "SCATTER": "#B5561B",
    "MATMUL": "#1FC79A",
    "VECTOR": "#F2BE4A",
    "DIRECT": "#E29DC4",
    "BARRIER": "#AAAAAA",
    "OTHER": "#343A44",
    "HOST": "#B795D6",
}

HUES: Final = (
    ("#332288", "#8F80E0"),
    ("#999933", "#C9C95A"),
    ("#882255", "#D85F98"),
    ("#44AA99", "#7FD6C8"),
    ("#CC6677", "#F29AA6"),
    ("#117733", "#5FBF80"),
    ("#AA4499", "#DC8ED2"),
    ("#B8A032", "#F0E3A0"),
)
"""(light, dark) hues for things that only have to be told apart, such as the nodes of a kernel: Tol's, of which none
stands for a kind of work or a cause of waiting that has a colour of its own."""
_LIGHT_HUES, _DARK_HUES = zip(*HUES, strict=True)


def _all_of(known: Mapping[str, str], names: Iterable[str], hues: Iterable[str]) -> Mapping[str, str]:
    """The colours known, and for names without one some of those hues that only have to be told apart."""
    spare = itertools.cycle(hues)
    return MappingProxyType({**known, **{name: next(spare) for name in names if name not in known}})


LIGHT: Final = Style(
    ground="#FFFFFF",
    ink="#222222",
    faint="#ECEDEF",
    band="#F4F6F9",
    kinds=_all_of(_LIGHT_KINDS, (opcode.name for opcode in Opcode), _LIGHT_HUES),
    causes=MappingProxyType(_LIGHT_CAUSES),
    waits=_all_of(_LIGHT_WAITS, STALLS, reversed(_LIGHT_HUES)),
    busy="#2B3138",
)
DARK: Final = Style(
    ground="#15181D",
    ink="#E6E8EB",
    faint="#262B33",
    band="#1C2129",
    kinds=_all_of(_DARK_KINDS, (opcode.name for opcode in Opcode), _DARK_HUES),
    causes=MappingProxyType(_DARK_CAUSES),
    waits=_all_of(_DARK_WAITS, STALLS, reversed(_DARK_HUES)),
    busy="#F4F6F8",
)


def colour_of_step(what: str) -> str:
    """CSS for a step of the critical path, by its name in the waterfall: work as on the timeline, its latency faded."""
    kind, _, part = what.removeprefix("common memory ").partition(" ")
    if part in LIGHT.waits or part in LIGHT.causes or (kind in LIGHT.causes and not part):
        return f"var(--c-{part or kind})"
    name = next((opcode.name for opcode, told in zip(Opcode, DOES, strict=True) if told.label == kind), None)
    if name is None:
        return "var(--soft)"
    return f"var(--k-{name})" + (f";opacity:{HELD}" if part == "latency" else "")


def style_named(name: str) -> Style:
    """`light` or `dark`."""
    if name not in ("light", "dark"):
        raise BadOption(f"style={name!r} is unknown; expected 'light', 'dark' or 'theme'")
    return LIGHT if name == "light" else DARK
