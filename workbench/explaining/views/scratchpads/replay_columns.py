"""One launch as binary columns, for a picture that is drawn elsewhere and moves from cycle to cycle.

Cycles count from the launch's begin. All that `moments.Moment` says of a cycle follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from workbench.explaining.views.scratchpads.launch_replay import Replay
from workbench.explaining.views.scratchpads.scratchpad import WORDS
from workbench.explaining.views.scratchpads.scratchpad_picture import bytes_text, heights_of
from workbench.explaining.views.scratchpads.tile_grids import Grid, caption, size_of
from workbench.explaining.views.scratchpads.tiles import BY_INDEX, moved_text
from workbench.explaining.views.timelines.columns import Columns, packed

ROLES: Final = tuple(WORDS)


def replay_columns(replay: Replay) -> Columns:
    """The columns with all data that is drawn of a launch."""
    kinds, tensors = sorted(set(replay.kinds)), list(dict.fromkeys(life.tensor for life in replay.lives))
    begin, places = replay.begin, replay.places
    columns: dict[str, npt.NDArray[Any]] = {
        "start": replay.start - begin,
        "until": replay.until - begin,
        "done": replay.done - begin,
        "kind": _numbers([kinds.index(kind) for kind in replay.kinds]),
        "changes": replay.changes - begin,
        "life_slot": _numbers(list(replay.slot_of_life)),
        **{f"life_{name}": _each(replay.lives, name) - begin for name in ("start", "read", "end")},
        "life_tensor": _numbers([tensors.index(life.tensor) for life in replay.lives]),
        "life_role": _numbers([ROLES.index(life.role) for life in replay.lives]),
        **{f"use_{field.name}": getattr(replay.uses, field.name) for field in fields(replay.uses)},
        **{f"visit_{field.name}": getattr(replay.visits, field.name) for field in fields(replay.visits)},
        **{f"place_{name}": _each(places, name) for name in ("grid", "top", "left", "bottom", "right")},
        "place_first": _numbers([place.tile.first if place.tile else 0 for place in places]),  # 0: nothing is moved
        "place_moves": _numbers([place.tile.visits if place.tile else 0 for place in places]),
    }
    header = {
        "launch": replay.launch,
        "kernel": replay.kernel,
        "begin": begin,
        "end": replay.end,
        "first_span": replay.first_span,
        "kinds": kinds,
        "capacity": replay.capacity,
        "tensors": tensors,
        "roles": list(ROLES),
        "words": dict(WORDS),
        "grids": [
            _grid(grid, moved_text(moves)) for grid, moves in zip(replay.grids, replay.tiling.tensors, strict=True)
        ],
        "note": f"PyTorch computes {replay.kernel} on the host: it uses no scratchpad." if replay.is_host else "",
        **_slots(replay),
    }
    return packed(header, columns)


def _numbers(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def _each(records: Sequence[object], field: str) -> npt.NDArray[np.int64]:
    """One field of all records."""
    return _numbers([getattr(record, field) for record in records])


def _slots(replay: Replay) -> dict[str, Any]:
    """Slots with the heights between which they are drawn, counted from their core's address 0 upwards."""
    cores = sorted({slot.core for slot in replay.slots})
    told, panels = list[dict[str, Any]](), list[dict[str, Any]]()
    for core in cores:
        here = [slot for slot in replay.slots if slot.core == core]
        heights, height = heights_of([(slot.address, slot.address + slot.bytes) for slot in here], len(cores))
        panels.append({"core": core, "height": height})
        for slot, (low, high) in zip(here, heights, strict=True):
            told.append({**asdict(slot), "size": bytes_text(slot.bytes), "low": low, "high": high})
    return {"slots": told, "panels": panels}


def _grid(grid: Grid, moved: str) -> dict[str, Any]:
    width, height = size_of(grid)
    return {
        "tensor": grid.tensor,
        "access": grid.access,
        "axes": list(grid.axes),
        "rows": grid.rows,
        "columns": grid.columns,
        "width": width,
        "height": height,
        "caption": [*caption(grid), *([BY_INDEX] if grid.by_index else [])],
        "moved": moved,
    }
