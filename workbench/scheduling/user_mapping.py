"""A user's mapping of a kernel: checks its form first, and its values later, against the kernel's dims.

A kernel takes the mapping under its name, else under the first pattern that matches it, else under `*`. A mapping by
name must fit its kernel: a tile longer than its dim, or more slots than the loops have iterations, is a mistake. A tile
under a pattern is cut to each kernel's dims.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import Final, TypedDict, cast

from simulator.did_you_mean import did_you_mean, sentences
from simulator.tileprogram.program import MAX_RANK
from workbench.ground.argument_types import plain_value
from workbench.ground.errors import MappingError
from workbench.ir import Mapping, ScheduledKernel
from workbench.ir.kernel_names import EVERY, is_pattern, key_for

ROWS: Final = "it is reduced after the product, so a tile holds whole rows"
"""The reason why a dim is never tiled."""


class UserMapping(TypedDict, total=False):
    """A user's mapping of one kernel; the heuristic decides options that are left out."""

    tile: dict[str, int]
    order: list[str]
    buffers: int
    cores: dict[str, int]


OF_A_KERNEL: Final = ("tile", "order", "buffers", "cores")
"""The keys of a mapping."""


def mistake_in(key: object, value: object) -> str:
    """The mistake in a key of a mapping or in its value; empty if there is none."""
    if key not in OF_A_KERNEL:
        what = f"unknown key {key!r}{did_you_mean(str(key), OF_A_KERNEL)}"
        return sentences(what, "Expected tile, order, buffers or cores")
    if key == "buffers":
        return "" if _is_count(value) else f"buffers = {value!r}: expected a whole number of slots, 1 or more"
    if key == "order":
        dims = cast("list[object]", value) if isinstance(value, list | tuple) else None  # no str, a sequence of letters
        right = dims is not None and all(isinstance(dim, str) for dim in dims) and len(set(dims)) == len(dims)
        told = f"order = {value!r}: expected a list of the kernel's dims, outermost first, each of them once"
        return "" if right else told
    if not isinstance(value, Dict):
        return f"{key} = {value!r}: expected {{dim: {'size' if key == 'tile' else 'how many'}}}"
    for dim, size in cast("Dict[object, object]", value).items():
        if not isinstance(dim, str):
            return f"{key} of {dim!r} = {size!r}: expected the name of a dim"
        if not _is_count(size):
            return f"{key} of {dim} = {size!r}: expected a whole number, 1 or more"
    return ""


def _is_count(value: object) -> bool:
    return isinstance(plain_value(value), int) and not isinstance(value, bool) and cast("int", value) >= 1


def as_given(made: Mapping) -> UserMapping:
    """A mapping in the form in which a user gives one."""
    return {"tile": dict(made.tile), "order": list(made.order), "buffers": made.buffers, "cores": dict(made.cores)}


def mapping_of(kernel: ScheduledKernel) -> UserMapping:
    """The mapping with which a user would get a kernel's present tiling."""
    given = as_given(kernel.mapping)
    if not kernel.mapping.cores:
        del given["cores"]
    return given


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """The mapping given for one kernel, and its key."""

    key: str
    mapping: UserMapping

    def check(self, made: ScheduledKernel) -> None:
        """Raises if a mapping under this kernel's name does not fit it."""
        if is_pattern(self.key):
            return
        for dim, size in self.mapping.get("tile", {}).items():
            if size > made.dims[dim]:
                told = f"the dim has {made.dims[dim]:,}: {made.dims[dim]} is the whole dim"
                raise MappingError(self.key, f"tile of {dim} = {size:,}, but {told}", "tile")
            if size < made.mapping.tile.get(dim, size):  # a script has no tiles
                advice = "To tile it, keep the reduction apart with fusion={'off': ['rows of a product']}"
                told = f"tile of {dim} = {size:,}, but {ROWS}: {made.dims[dim]:,}. {advice}"
                raise MappingError(self.key, told, "tile")
        buffers, rounds = self.mapping.get("buffers", 1), rounds_of(made.mapping.tile, made.dims)
        if buffers > most_slots(made.mapping.tile, made.dims):
            told = f"buffers = {buffers:,}, and its loops have {_rounds(rounds)} in all"
            advice = "more slots than rounds are never used. Smaller tiles make more rounds"
            raise MappingError(self.key, f"{told}: {advice}", "buffers")


_USUAL_SLOTS = 2
"""The number of slots that a user may give for any kernel, even for one that turns out to be a single tile."""


def rounds_of(tile: Dict[str, int], dims: Dict[str, int]) -> int:
    """The largest number of iterations of the innermost loop: the number of tiles."""
    return math.prod(-(-extent // tile.get(dim, extent)) for dim, extent in dims.items())


def _rounds(rounds: int) -> str:
    return f"{rounds:,} round{'s' * (rounds != 1)}"


def useful_slots(slots: int, tile: Dict[str, int], dims: Dict[str, int]) -> int:
    """At most as many slots as the loops have iterations: unused slots would take room from tiles."""
    return min(slots, most_slots(tile, dims))


def most_slots(tile: Dict[str, int], dims: Dict[str, int]) -> int:
    """The most slots that a user may give for a kernel by name."""
    return max(rounds_of(tile, dims), _USUAL_SLOTS)


def mapping_entry(wanted: Dict[str, UserMapping], names: tuple[str, ...]) -> MappingEntry | None:
    """The entry for a kernel with these names: under a name, else under the first pattern that matches, else `*`."""
    key = key_for(wanted, names)
    return None if key is None else MappingEntry(key, wanted[key])


def check_kernels(wanted: Dict[str, UserMapping], names: list[str]) -> None:
    """Raises for a name that no kernel has, and for a pattern that no kernel matches."""
    unknown = [key for key in wanted if key != EVERY and not mapping_entry({key: wanted[key]}, tuple(names))]
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
    """Raises for a pattern all of whose kernels take other keys' mappings; `kernels` are the names of each kernel."""
    taken = {names: asked.key for names in kernels if (asked := mapping_entry(wanted, names))}
    for key in filter(is_pattern, wanted):
        others = {taken[names]: names[0] for names in taken if mapping_entry({key: wanted[key]}, names)}
        if key == EVERY or key in others or not others:
            continue
        by = ", ".join(f"{kernel} takes {other!r}" for other, kernel in others.items())
        advice = f"put {key!r} before the others" if all(map(is_pattern, others)) else f"leave {key!r} out"
        order = f"A kernel's name comes before patterns, of patterns the first match counts, and {EVERY!r} comes last"
        raise MappingError(key, f"it is never used: {by}. {order}; {advice}")


def with_named(
    wanted: Dict[str, UserMapping], named: Dict[str, UserMapping], kernels: list[tuple[str, str]]
) -> dict[str, UserMapping]:
    """The mappings `wanted` with the mappings `named` added, without patterns that then apply to no kernel. `kernels`
    has for each kernel of the graph its name and the name of the scheduled kernel that it runs."""
    left = [names for names in kernels if names[1] not in named]
    used = {asked.key for names in left if (asked := mapping_entry(wanted, names))}
    return {key: each for key, each in wanted.items() if key in used or key == EVERY} | dict(named)


def few_wide(tile: dict[str, int]) -> bool:
    """True if a tile has at most `MAX_RANK` dims above 1."""
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
    """The chosen mapping with the user's checked tile and order; `share` is a core's part of each dim.

    Dims in `rows` stay whole.
    """
    most = share or dims
    tile, cut = dict(wanted.get("tile", {})), list[str]()
    for dim, size in tile.items():
        if dim not in dims:
            told = f"tile names {dim!r}, but its dims are {_extents(dims)}"
            advice = "An entry under '*' must suit every kernel; an entry under a kernel's name is for that kernel"
            raise MappingError(kernel, f"{told}. {advice}", "tile")
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
