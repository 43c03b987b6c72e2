"""Findings of several journeys put together: which came, which went, and which stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.explaining.views.graphs.kernel_groups import Matching, Union


@dataclass(frozen=True)
class Found:
    """A finding of one journey."""

    rule: str
    nodes: tuple[str, ...]
    """The captured nodes that the finding is about; empty for the whole program."""
    cycles: int
    reason: str
    count: int = 1
    """The number of findings of the rule that are shown as this one, since they are about kernels that meet."""


@dataclass(frozen=True)
class Kept:
    """The same finding in every journey that has it: the same rule, about kernels that meet."""

    groups: frozenset[int]
    """The places in `Matching.groups` of the groups that the finding is about; empty for the whole program."""
    each: tuple[Found | None, ...]

    @property
    def rule(self) -> str:
        return self._last.rule

    @property
    def change(self) -> str:
        """`stays`, `came` if the first journey does not have it, `went` if another does not."""
        if None not in self.each:
            return "stays"
        return "came" if self.each[0] is None else "went"

    @property
    def reason(self) -> str:
        """The reason, in the words of the last journey that has the finding."""
        last = self._last
        return last.reason + (f" (and {last.count - 1} more of the kind)" if last.count > 1 else "")

    @property
    def most(self) -> int:
        """The most cycles at stake in any of the journeys that have the finding."""
        return max(found.cycles for found in self.each if found is not None)

    @property
    def _last(self) -> Found:
        return next(found for found in reversed(self.each) if found is not None)


def kept(found: Sequence[Iterable[Found]], matching: Matching) -> tuple[Kept, ...]:
    """The findings of every journey: those that came and went first, then by cycles at stake.

    Findings of one rule about kernels that compute common nodes are put together as one.
    """
    about: dict[str, list[tuple[int, frozenset[int], Found]]] = {}
    for at, mine in enumerate(found):
        for each in mine:
            about.setdefault(each.rule, []).append((at, matching.groups_of(at, each.nodes), each))
    groups_kept: list[Kept] = []
    for same_rule in about.values():
        union = Union(len(matching.groups) + 1)
        for _, groups, _ in same_rule:
            union.join(groups)
        meeting: dict[int, list[tuple[int, frozenset[int], Found]]] = {}
        for each in same_rule:
            meeting.setdefault(union.root(min(each[1], default=len(matching.groups))), []).append(each)
        for together in meeting.values():
            mine = [_as_one([each for place, _, each in together if place == at]) for at in range(len(found))]
            groups_kept.append(Kept(frozenset[int]().union(*(groups for _, groups, _ in together)), tuple(mine)))
    order = ("came", "went", "stays")
    return tuple(sorted(groups_kept, key=lambda each: (order.index(each.change), -each.most)))


def _as_one(found: Sequence[Found]) -> Found | None:
    """The finding with most cycles at stake, with the cycles of all; None if there are none."""
    largest = max(found, key=lambda each: each.cycles, default=None)
    return largest and replace(largest, cycles=sum(each.cycles for each in found), count=len(found))
