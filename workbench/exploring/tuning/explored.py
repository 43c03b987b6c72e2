"""A kernel's map space with the costs measured so far, and the candidates to measure next."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.exploring.tuning.measured import Measured
from workbench.ir import Mapping
from workbench.scheduling.mapping_space import Candidate, Space
from workbench.scheduling.user_mapping import UserMapping

BATCH = 8
"""Candidates that are chosen together: an executor works on so many side by side, and finds what one process finds."""

KEPT = 4
"""Of so many of the fastest the neighbours are tried."""


@dataclass
class Explored:
    """A kernel's candidates, and the costs of those that were measured, by their place."""

    kernel: str
    space: Space
    today: int
    """The place of the mapping that the kernel has."""
    costs: dict[int, Measured] = field(default_factory=dict[int, Measured])

    @property
    def fastest(self) -> list[int]:
        """The measured ones, fastest first; of equals the one with the lower guess."""
        found = [(cost.cycles, place) for place, cost in self.costs.items() if cost.cycles is not None]
        return [place for _, place in sorted(found)]

    @property
    def best(self) -> int:
        """The place of the fastest; today's mapping until something is faster."""
        first = next(iter(self.fastest), self.today)
        return first if self.cycles_at(first) < self.cycles_at(self.today) else self.today

    def cycles_at(self, place: int) -> float:
        """The cycles of a measured candidate; endless for a refused one and one that was not tried."""
        cycles = self.costs[place].cycles if place in self.costs else None
        return float("inf") if cycles is None else cycles

    @property
    def pruned(self) -> list[int]:
        """Candidates that need not be tried: no schedule of theirs is faster than the best one."""
        limit = self.cycles_at(self.best)
        return [place for place in self._untried if self.space.candidates[place].least >= limit]

    @property
    def _untried(self) -> list[int]:
        return [place for place in range(len(self.space.candidates)) if place not in self.costs]

    @property
    def refused(self) -> list[int]:
        return [place for place, cost in self.costs.items() if cost.refused]

    def batches(self, budget: int, seed: int) -> Iterator[list[int]]:
        """Which candidates to measure next, until so many are measured or nothing in the space can be faster.

        Two batches of the lowest guesses come first; then in turn neighbours of the fastest, the lowest guesses left,
        and a few drawn at random, since the guess may be wrong all over. The bound leaves out, never the guess.
        """
        drawn, turn = random.Random(seed), 0
        while (left := budget - len(self.costs)) > 0:
            limit, candidates = self.cycles_at(self.best), self.space.candidates
            open_ = [place for place in self._untried if candidates[place].least < limit]
            if not open_:
                return
            count = min(BATCH, left)
            if turn >= 2 and turn % 4 == 1:
                chosen = sorted(drawn.sample(open_, min(count, len(open_))))
            elif turn >= 2 and turn % 2 == 0:
                near = [place for place in open_ if self._is_near(candidates[place])]
                chosen = (near + [place for place in open_ if place not in near])[:count]
            else:
                chosen = open_[:count]
            yield chosen
            turn += 1

    def _is_near(self, candidate: Candidate) -> bool:
        """True if it differs in one thing alone from one of the fastest."""
        kept = [self.space.candidates[place].mapping for place in self.fastest[:KEPT]]
        return any(_differences(candidate.mapping, each) == 1 for each in kept)

    def mapping(self, place: int) -> UserMapping:
        return self.space.candidates[place].asked


def _differences(one: Mapping, other: Mapping) -> int:
    """Counts the differences of two mappings: a dim with another tile, other order, slots or cores are one each."""
    tiles = sum(size != other.tile.get(dim) for dim, size in one.tile.items())
    return tiles + (one.order != other.order) + (one.buffers != other.buffers) + (one.cores != other.cores)
