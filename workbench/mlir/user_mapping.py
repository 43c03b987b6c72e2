"""What a user says of a kernel's mapping, checked against the kernel's dims."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from simulator.program import MAX_RANK
from workbench.errors import MappingError
from workbench.ir import Mapping


class UserMapping(TypedDict, total=False):
    """What a user may say of one kernel; what is left out stays as the heuristic has it."""

    tile: dict[str, int]
    order: list[str]
    buffers: int
    cores: dict[str, int]


def check_kernels(wanted: dict[str, UserMapping], names: list[str]) -> None:
    for name in wanted:
        if name != "*" and name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise MappingError(
                name, f"no kernel has that name.{hint} The kernels are {', '.join(names)}; '*' stands for all of them"
            )


def checked_buffers(kernel: str, wanted: UserMapping | None, default: int) -> int:
    """Slots of a moved buffer: the user's, or the default."""
    buffers = (wanted or {}).get("buffers", default)
    if isinstance(buffers, bool) or not isinstance(buffers, int) or buffers < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MappingError(kernel, f"buffers = {buffers!r}: expected a whole number of slots, 1 or more")
    return buffers


def few_wide(tile: dict[str, int]) -> bool:
    """Whether a box along all dims of a tile has few enough axes."""
    return sum(size > 1 for size in tile.values()) <= MAX_RANK


def with_users(
    kernel: str,
    dims: dict[str, int],
    chosen: Mapping,
    wanted: UserMapping,
    within_rank: Callable[[dict[str, int]], bool] = few_wide,
) -> Mapping:
    """The chosen mapping with the user's tile and order in its place, checked."""
    unknown = sorted(set(wanted) - {"tile", "order", "buffers", "cores"})
    if unknown:
        raise MappingError(kernel, f"unknown key {unknown[0]!r}: expected tile, order, buffers or cores")
    tile = dict(wanted.get("tile", {}))
    for dim, size in tile.items():
        if dim not in dims:
            raise MappingError(
                kernel,
                f"tile names {dim!r}, but its dims are {_extents(dims)}. What stands under '*' must suit every kernel; "
                f"under a kernel's name it is for that one",
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MappingError(kernel, f"tile of {dim} = {size!r}: expected a whole number, 1 or more")
        tile[dim] = min(size, dims[dim])
    if not within_rank(chosen.tile | tile):
        wide = [dim for dim, size in (chosen.tile | tile).items() if size > 1]
        raise MappingError(kernel, f"a tile has at most {MAX_RANK} dims above 1, this one has {', '.join(wide)}")
    order = tuple(wanted.get("order", chosen.order))
    if sorted(order) != sorted(dims):
        raise MappingError(kernel, f"order {list(order)!r} must name each of its dims once: {_extents(dims)}")
    return replace(chosen, tile=chosen.tile | tile, order=order, reason="user")


def _extents(dims: dict[str, int]) -> str:
    return ", ".join(f"{dim} ({extent})" for dim, extent in dims.items())
