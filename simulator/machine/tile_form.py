"""The blocks in which tensors lie in DRAM, as a figure names them: "8x128" is 8 rows of 128 columns."""

from __future__ import annotations

import re
from typing import NamedTuple

from simulator.errors import MachineError
from simulator.machine.parts import TILE_FORM

_TILE = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


class Tile(NamedTuple):
    """The extents of a block: `columns` along the tensor's axis of smallest stride, `rows` along the next axis."""

    rows: int
    columns: int


def check_tile(where: str, text: str) -> None:
    """Raises unless the text names a block or is empty."""
    if text and not _TILE.fullmatch(text):
        raise MachineError(f"{where}: expected {TILE_FORM}")


def tile_of(text: str) -> Tile | None:
    """The block that a checked text names; None for an empty text."""
    found = _TILE.fullmatch(text)
    return Tile(int(found[1]), int(found[2])) if found else None
