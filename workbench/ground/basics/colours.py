"""Colours of the pictures. The hues are Okabe and Ito's, which differ for colour-blind readers too; the light and the
dark style differ in their background and in the brightness of the hues."""

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
"""The opacity of a bar where its span waits."""


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


_KINDS = {
    "LOAD": ("#0072B2", "#4BA3DB"),
    "STORE": ("#D55E00", "#F07F3C"),
    "COPY": ("#56B4E9", "#8CCEF2"),
    "GATHER": ("#004B75", "#2F74C0"),
    "SCATTER": ("#8F3F00", "#B5561B"),
    "MATMUL": ("#009E73", "#1FC79A"),
    "VECTOR": ("#E69F00", "#F2BE4A"),
    "DIRECT": ("#CC79A7", "#E29DC4"),
    "BARRIER": ("#555555", "#AAAAAA"),
    "OTHER": ("#DADDE2", "#343A44"),
    "HOST": ("#7A4A9E", "#B795D6"),
}
_CAUSES = {
    "launch": ("#5F6874", "#C3C9D1"),
    "issue": ("#C9BFA5", "#6E6753"),
    "window": ("#B3A27C", "#857957"),
    "queue_full": ("#DDD3BB", "#575243"),
    "unit_busy": ("#9C8F70", "#948868"),
    "memory_peak": ("#8CB7E0", "#476F99"),
    "inefficient_transfers": ("#E6DB5C", "#8F8A00"),
    "write_after_read": ("#B497CC", "#735A8C"),
    "write_after_write": ("#D3BEE3", "#5A4A6B"),
    "reuse": ("#8E6BAE", "#94719F"),
    "accumulate": ("#A5D2BF", "#4B7565"),
    "data": ("#99A3AE", "#646E7A"),
    "barrier": ("#E3B8A5", "#8A5F4C"),
    "common_memory": ("#BFD9A0", "#6A8547"),
}
_WAITS = {
    "interconnect": ("#B3A6E8", "#B08BE6"),
    "memory_row": ("#2E8C86", "#1F8F86"),
    "memory_bank_group": ("#86CDBB", "#8ED6C4"),
    "memory_turnaround": ("#6FD3EA", "#A6CDF7"),
    "memory_refresh": ("#5560B0", "#3F4CC0"),
    "memory_command": ("#145266", "#D6E3B5"),
    "scalar_latency": ("#E5C3D7", "#7D5570"),
}
"""(light, dark) colours by name."""

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
"""(light, dark) hues, Tol's, for things that only need different colours, such as the nodes of a kernel. None of them
stands for a kind of work or a cause of waiting that has its own colour."""


def _all_of(
    known: Mapping[str, tuple[str, str]], dark: bool, names: Iterable[str] = (), hues: Iterable[tuple[str, str]] = HUES
) -> Mapping[str, str]:
    """The known colours, and one of the hues for each name without a known colour."""
    spare = itertools.cycle(hues)
    return MappingProxyType({name: (known.get(name) or next(spare))[dark] for name in dict.fromkeys([*known, *names])})


def _style(*, dark: bool, ground: str, ink: str, faint: str, band: str, busy: str) -> Style:
    kinds = _all_of(_KINDS, dark, (opcode.name for opcode in Opcode))
    waits = _all_of(_WAITS, dark, STALLS, reversed(HUES))
    return Style(ground, ink, faint, band, kinds, _all_of(_CAUSES, dark), waits, busy)


LIGHT: Final = _style(dark=False, ground="#FFFFFF", ink="#222222", faint="#ECEDEF", band="#F4F6F9", busy="#2B3138")
DARK: Final = _style(dark=True, ground="#15181D", ink="#E6E8EB", faint="#262B33", band="#1C2129", busy="#F4F6F8")


def colour_of_step(what: str) -> str:
    """CSS for a step of the critical path, by its name in the waterfall: work as on the timeline, its latency faded."""
    kind, _, part = what.removeprefix("common memory ").partition(" ")
    if part in LIGHT.waits or part in LIGHT.causes or (kind in LIGHT.causes and not part):
        return f"var(--c-{part or kind})"
    name = next((opcode.name for opcode, unit in zip(Opcode, DOES, strict=True) if unit.label == kind), None)
    if name is None:
        return "var(--soft)"
    return f"var(--k-{name})" + (f";opacity:{HELD}" if part == "latency" else "")


def style_named(name: str) -> Style:
    """Returns the style named `light` or `dark`."""
    if name not in ("light", "dark"):
        raise BadOption(f"style={name!r} is unknown; expected 'light', 'dark' or 'theme'")
    return LIGHT if name == "light" else DARK
