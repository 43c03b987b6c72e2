"""Answers of widgets and looks to the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.explaining.views.timelines.columns import Columns

Buffer = bytes | bytearray | memoryview
Answer = Mapping[str, object] | tuple[Mapping[str, object], Sequence[Buffer]] | None
"""The answer of a method: plain values, and columns of numbers beside them as buffers."""


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that takes a while: `make` computes it in a thread, and other questions are answered meanwhile."""

    make: Callable[[], Answer]


def in_columns(block: Columns, **beside: object) -> Answer:
    """An answer of columns of numbers, with plain values beside their header."""
    return {**beside, "header": dict(block.header)}, [memoryview(block.data)]
