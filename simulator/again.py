"""What each launch of a trace asked of the machine, worked out again: a trace does not keep it, since it is large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from simulator.common_memory import CommonMemory
from simulator.costs import Work, work
from simulator.pages import PageTable
from simulator.spans import HostCall, Via

if TYPE_CHECKING:
    from simulator.trace import Trace


def works(trace: Trace, pages: PageTable | None = None) -> Iterator[Work | None]:
    """The work of each launch, None for a step on the host. A table of pages that is given is led along."""
    common, pages = CommonMemory(trace.residents), pages or PageTable(trace.machine, trace.placed)
    starts = np.searchsorted(trace.launch, np.arange(len(trace.launches) + 1)).tolist()
    for index, launched in enumerate(trace.launches):
        skipped = trace.via[starts[index] : starts[index + 1]] == Via.SKIPPED
        served = common.launch(index, launched, skipped)
        if isinstance(launched, HostCall):
            yield None
            continue
        asked = work(launched.program, launched.addresses, trace.machine, launched.indices, served)
        yield pages.launch(index, launched.program, asked)
