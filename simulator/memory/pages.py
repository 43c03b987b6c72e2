"""Pages of a memory that is divided into parts: the part that holds each page, and the page's frame there.

An address is translated to an address in a part, with the part's number in the bits above; a part spreads its frames
over its own channels and banks.
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
    """For each page, the part that holds it; -1 while it has no place. `frame` is the page's frame in the part."""
    frame: I32


@compiled
def translate(pages: Pages | None, requests: I64) -> None:
    """Translates requests, each an address plus 1 if it writes, in place: to part, frame and place in the page."""
    if pages is None:  # the compiler leaves the rest out: a memory in one part
        return
    within = (1 << pages.shift) - 1
    for number in range(len(requests)):
        request = requests[number]
        page = request >> pages.shift
        place = (np.int64(pages.frame[page]) << pages.shift) | (request & within)
        requests[number] = (np.int64(pages.part[page]) << PART_SHIFT) | place
