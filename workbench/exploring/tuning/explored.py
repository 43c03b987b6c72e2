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
"""Candidates that are chosen together: an executor measures so many in parallel, and finds what one process finds."""

KEPT = 4
"""The number of fastest candidates whose neighbours are tried."""


@dataclass
class Explored:
    """A kernel's candidates, and the costs of the measured ones. A candidate's place is its index in the space."""

    kernel: str
    space: Space
    today: int
    """The place of the kernel's current mapping."""
    costs: dict[int, Measured] = field(default_factory=dict[int, Measured])

    @property
    def fastest(self) -> list[int]:
        """The places of the measured candidates, fastest first; of equal ones the lower prediction first."""
        found = [(cost.cycles, place) for place, cost in self.costs.items() if cost.cycles is not None]
        return [place for _, place in sorted(found)]

    @property
    def best(self) -> int:
        """The place of the fastest candidate; of the current mapping if none is faster."""
        first = next(iter(self.fastest), self.today)
        return first if self.cycles_at(first) < self.cycles_at(self.today) else self.today

    def cycles_at(self, place: int) -> float:
        """The cycles of a measured candidate; infinite for one that was refused or not tried."""
        cycles = self.costs[place].cycles if place in self.costs else None
        return float("inf") if cycles is None else cycles

    @property
    def pruned(self) -> list[int]:
        """The places of candidates that need not be tried: their least possible cycles are not below the best's."""
        limit = self.cycles_at(self.best)
        return [place for place in self._untried if self.space.candidates[place].least >= limit]

    @property
    def _untried(self) -> list[int]:
        return [place for place in range(len(self.space.candidates)) if place not in self.costs]

    @property
    def refused(self) -> list[int]:
        return [place for place, cost in self.costs.items() if cost.refused]

    def batches(self, budget: int, seed: int) -> Iterator[list[int]]:
        """The candidates to measure next, in batches, until `budget` are measured or none in the space can be faster.

        The first two batches have the lowest predictions. Then batches have neighbours of the fastest candidates, the
        lowest remaining predictions, or random candidates, since predictions may be wrong. Only the bound rules out
        candidates, never a prediction.
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
        """True if a candidate has exactly one difference to one of the fastest."""
        kept = [self.space.candidates[place].mapping for place in self.fastest[:KEPT]]
        return any(_differences(candidate.mapping, each) == 1 for each in kept)

    def mapping(self, place: int) -> UserMapping:
        return self.space.candidates[place].asked


def _differences(one: Mapping, other: Mapping) -> int:
    """The number of differences of two mappings: one for each dim's tile, and one each for order, slots and cores."""
    tiles = sum(size != other.tile.get(dim) for dim, size in one.tile.items())
    return tiles + (one.order != other.order) + (one.buffers != other.buffers) + (one.cores != other.cores)
