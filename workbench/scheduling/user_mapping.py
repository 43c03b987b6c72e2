"""A user's mapping of a kernel, checked against the kernel's dims; its form was checked when it was given.

A kernel takes the mapping of its name, else of the first pattern that matches it, else of `*`. A mapping by name must
fit its kernel: a tile longer than its dim, or more slots than its loops have rounds, is a mistake. A tile given by a
pattern is cut to each kernel's dims.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from simulator.did_you_mean import did_you_mean, sentences
from simulator.tileprogram.program import MAX_RANK
from workbench.ground.errors import MappingError
from workbench.ir import Mapping, ScheduledKernel
from workbench.ir.kernel_names import EVERY, is_pattern, key_for

ROWS: Final = "it is reduced after the product, so a tile holds whole rows"
"""Why a dim is never tiled."""


class UserMapping(TypedDict, total=False):
    """A user's mapping of one kernel; the heuristic decides options that are left out."""

    tile: dict[str, int]
    order: list[str]
    buffers: int
    cores: dict[str, int]


def mapping_of(kernel: ScheduledKernel) -> UserMapping:
    """The mapping that a user would give to have a kernel tiled as it is."""
    made = kernel.mapping
    said: UserMapping = {"tile": dict(made.tile), "order": list(made.order), "buffers": made.buffers}
    return {**said, "cores": dict(made.cores)} if made.cores else said


@dataclass(frozen=True, slots=True)
class Asked:
    """The mapping given for one kernel, and its key."""

    key: str
    mapping: UserMapping

    def check(self, made: ScheduledKernel) -> None:
        """Raises if a mapping given for this kernel by name had to be cut."""
        if is_pattern(self.key):
            return
        for dim, size in self.mapping.get("tile", {}).items():
            if size > made.dims[dim]:
                raise MappingError(
                    self.key,
                    f"tile of {dim} = {size:,}, but the dim has {made.dims[dim]:,}: {made.dims[dim]} is the whole dim",
                    "tile",
                )
            if size < made.mapping.tile.get(dim, size):  # a script has no tiles
                raise MappingError(
                    self.key,
                    f"tile of {dim} = {size:,}, but {ROWS}: {made.dims[dim]:,}. To tile it, keep the reduction apart "
                    "with fusion={'off': ['rows of a product']}",
                    "tile",
                )
        buffers, rounds = self.mapping.get("buffers", 1), rounds_of(made.mapping.tile, made.dims)
        if buffers > most_slots(made.mapping.tile, made.dims):
            raise MappingError(
                self.key,
                f"buffers = {buffers:,}, and its loops have {_rounds(rounds)} in all: more slots than rounds are "
                "never used. Smaller tiles make more rounds",
                "buffers",
            )


_USUAL_SLOTS = 2
"""Slots that a user may give for all kernels, also for those that turn out to be one tile."""


def rounds_of(tile: Dict[str, int], dims: Dict[str, int]) -> int:
    """Counts the rounds of the innermost loop, at the most."""
    return math.prod(-(-extent // tile.get(dim, extent)) for dim, extent in dims.items())


def _rounds(rounds: int) -> str:
    return f"{rounds:,} round{'s' * (rounds != 1)}"


def useful_slots(slots: int, tile: Dict[str, int], dims: Dict[str, int]) -> int:
    """No more slots than the loops have rounds: else tiles would shrink to make room for unused slots."""
    return min(slots, most_slots(tile, dims))


def most_slots(tile: Dict[str, int], dims: Dict[str, int]) -> int:
    """The most slots that a user may give for a kernel by name."""
    return max(rounds_of(tile, dims), _USUAL_SLOTS)


def asked_of(wanted: Dict[str, UserMapping], names: tuple[str, ...]) -> Asked | None:
    """The entry for a kernel of these names: under one of them, else under the first pattern; `*` comes last."""
    key = key_for(wanted, names)
    return None if key is None else Asked(key, wanted[key])


def check_kernels(wanted: Dict[str, UserMapping], names: list[str]) -> None:
    """Raises for a name that no kernel has, and a pattern that none matches."""
    unknown = [key for key in wanted if key != EVERY and not asked_of({key: wanted[key]}, tuple(names))]
    if not unknown:
        return
    key, *others = unknown
    what = [f"no kernel has that name{did_you_mean(key, names)}"]
    if is_pattern(key):
        what = ["no kernel matches that pattern"]
    what += [f"Nor is there one for {', '.join(map(repr, others))}"] if others else []
    known = f"The kernels are {', '.join(names)}; {EVERY!r} stands for all of them, 'k*_linear*' for some"
    raise MappingError(key, sentences(*what, known))


def check_shadowed(wanted: Dict[str, UserMapping], kernels: list[tuple[str, ...]]) -> None:
    """Raises for a pattern whose kernels all go by other keys; `kernels` are the names that each goes by."""
    taken = {names: asked.key for names in kernels if (asked := asked_of(wanted, names))}
    for key in filter(is_pattern, wanted):
        others = {taken[names]: names[0] for names in taken if asked_of({key: wanted[key]}, names)}
        if key == EVERY or key in others or not others:
            continue
        by = ", ".join(f"{kernel} goes by {other!r}" for other, kernel in others.items())
        advice = f"put {key!r} before the others" if all(map(is_pattern, others)) else f"leave {key!r} out"
        raise MappingError(
            key,
            f"it applies to no kernel: {by}. A kernel's name comes before patterns, of patterns the first match "
            f"counts, and {EVERY!r} comes last; {advice}",
        )


def with_named(
    wanted: Dict[str, UserMapping], named: Dict[str, UserMapping], kernels: list[tuple[str, str]]
) -> dict[str, UserMapping]:
    """The mappings with some of kernels' own in their place, and without patterns that are then for no kernel;
    `kernels` are the names of the graph's kernels, each with that of the scheduled one it runs."""
    left = [names for names in kernels if names[1] not in named]
    used = {asked.key for names in left if (asked := asked_of(wanted, names))}
    return {key: each for key, each in wanted.items() if key in used or key == EVERY} | dict(named)


def few_wide(tile: dict[str, int]) -> bool:
    """True if a box along all dims of a tile has few enough axes."""
    return sum(size > 1 for size in tile.values()) <= MAX_RANK


def with_users(
    kernel: str,
    dims: dict[str, int],
    chosen: Mapping,
    wanted: UserMapping,
    within_rank: Callable[[dict[str, int]], bool] = few_wide,
    share: Dict[str, int] | None = None,
    rows: tuple[str, ...] = (),
) -> Mapping:
    """The chosen mapping with the user's tile and order in its place, checked; `share` is a core's part of each dim.

    Dims of `rows` stay whole.
    """
    most = share or dims
    tile, cut = dict(wanted.get("tile", {})), list[str]()
    for dim, size in tile.items():
        if dim not in dims:
            raise MappingError(
                kernel,
                f"tile names {dim!r}, but its dims are {_extents(dims)}. An entry under '*' must suit every "
                "kernel; an entry under a kernel's name is for that kernel",
                "tile",
            )
        if size > most[dim]:
            whole = "a core's part of it" if most[dim] < dims[dim] else "the whole dim"
            cut.append(f"the tile of {dim} was cut from {size:,} to {most[dim]:,}, {whole}")
        if dim in rows and size < most[dim]:
            cut.append(f"the tile of {dim} was widened from {size:,} to {most[dim]:,}: {ROWS}")
        tile[dim] = most[dim] if dim in rows else min(size, most[dim])
    rounds = rounds_of(chosen.tile | tile, most)
    if wanted.get("buffers", 1) > most_slots(chosen.tile | tile, most):
        cut.append(f"its loops have {_rounds(rounds)}, and {wanted.get('buffers'):,} slots were given")
    if not within_rank(chosen.tile | tile):
        wide = [dim for dim, size in (chosen.tile | tile).items() if size > 1]
        told = f"a tile has at most {MAX_RANK} dims above 1, this one has {', '.join(wide)}"
        raise MappingError(kernel, told, "tile")
    order = tuple(wanted.get("order", chosen.order))
    if sorted(order) != sorted(dims):
        told = f"order {list(order)!r} must name each of its dims once: {_extents(dims)}"
        raise MappingError(kernel, told, "order")
    return replace(chosen, tile=chosen.tile | tile, order=order, reason="; ".join(["user", *cut]))


def _extents(dims: dict[str, int]) -> str:
    return ", ".join(f"{dim} ({extent})" for dim, extent in dims.items())
