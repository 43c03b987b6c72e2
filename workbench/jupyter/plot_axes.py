"""Common parts of all pictures drawn with matplotlib."""

from __future__ import annotations

from typing import Final

from workbench.ground.errors import BadOption

_WIDEST: Final = 600
"""Of a picture that matplotlib draws: 65,536 dots at 100 an inch are its limit."""


def inches(width: float) -> float:
    if not 0 < width <= _WIDEST:
        raise BadOption(f"width={width!r}: expected inches, more than 0 and up to {_WIDEST}")
    return width


def with_commas(value: float, _: int) -> str:
    return f"{value:,g}" if value % 1 else f"{value:,.0f}"
