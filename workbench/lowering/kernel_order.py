"""The order of kernels: each after those that write what it reads."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Mapping, Sequence

from workbench.ir import Node


class KernelOrder:
    """Nodes in groups, and which group comes after which.

    A group comes after another if it reads what that one makes, be it through a view, or writes to a storage behind it.
    Nodes that are to work `in_turn` keep their order, as random numbers drawn on the host do.
    """

    def __init__(
        self, nodes: Sequence[Node], group_of: Mapping[str, int], bases: Mapping[str, str], in_turn: Collection[str]
    ) -> None:
        self._last = {group_of[node.name]: place for place, node in enumerate(nodes)}
        self._after: dict[int, set[int]] = {group: set() for group in self._last}
        maker: dict[str, int] = {}
        writers: dict[str, list[int]] = {}
        for node in nodes:
            group = group_of[node.name]
            for value in node.operands:
                made = [maker[value]] if value in maker else writers.get(bases.get(value, value), [])
                for other in made:
                    self._after[other].add(group)
            for value in node.results:
                maker[value] = group
                before = writers.setdefault(bases.get(value, value), [])
                for other in before[-1:]:
                    self._after[other].add(group)
                before.append(group)
        turns = [group_of[node.name] for node in nodes if node.name in in_turn]
        for group, later in itertools.pairwise(turns):
            self._after[group].add(later)
        for group, later in self._after.items():
            later.discard(group)

    def may_join(self, first: int, second: int) -> bool:
        """True if no third group stands between the two: it would have to come both before and after them."""
        ends = {first, second}
        ahead = [each for group in ends for each in self._after[group] - ends]
        seen = set(ahead)
        while ahead:
            later = self._after[ahead.pop()]
            if later & ends:
                return False
            ahead += later - seen
            seen |= later
        return True

    def sorted(self) -> list[int]:
        """The groups in order; of those that may come next, the one whose last node comes first."""
        waits = dict.fromkeys(self._after, 0)
        for later in self._after.values():
            for group in later:
                waits[group] += 1
        ready = [(self._last[group], group) for group, count in waits.items() if not count]
        heapq.heapify(ready)
        found: list[int] = []
        while ready:
            _, group = heapq.heappop(ready)
            found.append(group)
            for later in self._after[group]:
                waits[later] -= 1
                if not waits[later]:
                    heapq.heappush(ready, (self._last[later], later))
        assert len(found) == len(waits), "kernels that wait for each other"
        return found
