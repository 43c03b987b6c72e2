"""Pages of a memory that is divided into parts: which part holds each page, and where in it.

An address is translated to another, with the number of its part above it; a part spreads its frames over its own
channels and banks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.memory.banked.address_map import PART_SHIFT
from simulator.tileprogram.program import I32, I64


class Pages(NamedTuple):
    """The table of pages, as compiled functions read it."""

    shift: int
    part: I32
    """Columns with an entry for each page; -1 while it has no place."""
    frame: I32


@compiled
def translate(pages: Pages | None, requests: I64) -> None:
    """Puts each request, an address plus 1 if it writes, where its page lies: part, frame, place in the page."""
    if pages is None:  # the compiler leaves the rest out: a memory in one part
        return
    within = (1 << pages.shift) - 1
    for number in range(len(requests)):
        request = requests[number]
        page = request >> pages.shift
        place = (np.int64(pages.frame[page]) << pages.shift) | (request & within)
        requests[number] = (np.int64(pages.part[page]) << PART_SHIFT) | place
