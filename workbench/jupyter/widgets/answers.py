"""Answers of widgets and looks to the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview
Answer = Mapping[str, object] | tuple[Mapping[str, object], Sequence[Buffer]] | None
"""What a method answers: plain values, and columns of numbers beside them as buffers."""


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that takes a while: `make` works it out in a thread, and other questions are answered meanwhile."""

    make: Callable[[], Answer]
