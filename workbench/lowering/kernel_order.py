"""The order of kernels: each comes after the kernels that write its inputs."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Mapping, Sequence
from graphlib import TopologicalSorter

from workbench.ir import Node


class KernelOrder:
    """The order of groups of nodes.

    A group comes after another if it reads the other's results, directly or through a view, or writes later to the same
    storage. Nodes that must run `in_turn`, such as random numbers drawn on the host, keep their order.
    """

    def __init__(
        self, nodes: Sequence[Node], group_of: Mapping[str, int], bases: Mapping[str, str], in_turn: Collection[str]
    ) -> None:
        self._last = {group_of[node.name]: place for place, node in enumerate(nodes)}
        self._before: dict[int, set[int]] = {group: set() for group in self._last}
        """Group -> the groups that it comes after."""
        maker: dict[str, int] = {}
        writers: dict[str, list[int]] = {}
        for node in nodes:
            group = group_of[node.name]
            for value in node.operands:
                made = [maker[value]] if value in maker else writers.get(bases.get(value, value), [])
                self._before[group].update(made)
            for value in node.results:
                maker[value] = group
                before = writers.setdefault(bases.get(value, value), [])
                self._before[group].update(before[-1:])
                before.append(group)
        turns = [group_of[node.name] for node in nodes if node.name in in_turn]
        for earlier, group in itertools.pairwise(turns):
            self._before[group].add(earlier)
        for group, before in self._before.items():
            before.discard(group)

    def may_join(self, first: int, second: int) -> bool:
        """True if no third group stands between the two: it would have to come both before and after them."""
        ends = {first, second}
        ahead = [each for group in ends for each in self._before[group] - ends]
        seen = set(ahead)
        while ahead:
            before = self._before[ahead.pop()]
            if before & ends:
                return False
            ahead += before - seen
            seen |= before
        return True

    def sorted(self) -> list[int]:
        """The groups in order; of the groups that may come next, the one with the earliest last node is taken."""
        order, ready, found = TopologicalSorter(self._before), list[tuple[int, int]](), list[int]()
        order.prepare()
        while order.is_active():
            for group in order.get_ready():
                heapq.heappush(ready, (self._last[group], group))
            found.append(heapq.heappop(ready)[1])
            order.done(found[-1])
        return found
