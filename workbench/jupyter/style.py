"""Colours of the pictures. The hues are Okabe and Ito's, which stay apart for colour-blind readers; light and dark
differ in the ground they stand on and in how bright the hues are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from workbench.errors import BadOption


@dataclass(frozen=True)
class Style:
    """One set of colours."""

    ground: str
    ink: str
    faint: str
    """Grid lines and the empty part of a lane."""
    band: str
    """Every second launch's background."""
    kinds: Mapping[str, str]
    causes: tuple[str, ...]
    """Idle time by cause, in the order of the causes; they repeat when there are more causes."""


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
}
_DARK_KINDS = {
    **_LIGHT_KINDS,
    "LOAD": "#4BA3DB",
    "STORE": "#F07F3C",
    "COPY": "#8CCEF2",
    "MATMUL": "#1FC79A",
    "VECTOR": "#F2BE4A",
    "DIRECT": "#E29DC4",
    "BARRIER": "#AAAAAA",
}

LIGHT: Final = Style(
    ground="#FFFFFF",
    ink="#222222",
    faint="#ECEDEF",
    band="#F4F6F9",
    kinds=MappingProxyType(_LIGHT_KINDS),
    causes=("#9AA5B1", "#77AADD", "#EE8866", "#BBCC33", "#FFAABB", "#44BB99", "#AAAA00", "#99DDFF"),
)
DARK: Final = Style(
    ground="#15181D",
    ink="#E6E8EB",
    faint="#262B33",
    band="#1C2129",
    kinds=MappingProxyType(_DARK_KINDS),
    causes=("#707C89", "#5C8FC4", "#C96C4D", "#94A32A", "#D0808F", "#37957B", "#8A8A1A", "#7AB4D0"),
)


def style_named(name: str) -> Style:
    """`light` or `dark`."""
    if name not in ("light", "dark"):
        raise BadOption(f"style={name!r} is unknown; expected 'light' or 'dark'")
    return LIGHT if name == "light" else DARK
