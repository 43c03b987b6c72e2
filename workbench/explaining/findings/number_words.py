"""Numbers in sentences."""

from __future__ import annotations

from fractions import Fraction


def percent(part: float | Fraction, whole: float | Fraction) -> str:
    """`37%`, `0.4%`; 0% if the whole is zero."""
    share = 100 * float(part) / float(whole) if whole else 0.0
    return f"{share:.0f}%" if share >= 1 or share == 0 else f"{share:.1f}%"


def times(count: int, noun: str) -> str:
    """`1 launch`, `3 launches`."""
    plural = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
