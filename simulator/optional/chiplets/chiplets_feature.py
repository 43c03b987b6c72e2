"""The feature `chiplets`: hangs chiplets on the hooks of the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.machine.machine import Machine
from simulator.machine.optional.chiplets_shape import SHAPE
from simulator.optional.chiplets.placed import Placed, check_placed
from simulator.optional.feature import Audited, Feature, Followed


def _follow(machine: Machine, placed: Sequence[Placed]) -> Followed:
    if machine.chiplet.count == 1:
        return Followed()
    from simulator.optional.chiplets.page_table import PageTable  # only here: it loads the compiler

    return PageTable(machine, placed)


def _violations(audited: Audited) -> Iterator[str]:
    if audited.trace.machine.chiplet.count > 1:
        from simulator.optional.chiplets.chiplet_invariants import violations  # likewise

        yield from violations(audited)


FEATURE = Feature(
    name="chiplets",
    shape=SHAPE,
    keyword="placed",
    check=check_placed,
    follow=_follow,
    violations=_violations,
)
