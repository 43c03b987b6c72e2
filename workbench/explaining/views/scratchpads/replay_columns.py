"""One launch as binary columns, for a picture that is drawn elsewhere and moves from cycle to cycle.

Cycles count from the launch's begin. All that `moments.Moment` says of a cycle follows from them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from workbench.explaining.views.scratchpads.launch_replay import Place, Replay
from workbench.explaining.views.scratchpads.scratchpad import WORDS
from workbench.explaining.views.scratchpads.scratchpad_layout import bytes_text, heights_of
from workbench.explaining.views.scratchpads.tile_grids import Grid, caption, size_of
from workbench.explaining.views.scratchpads.tiles import BY_INDEX, moved_text
from workbench.explaining.views.timelines.columns import Columns, packed

ROLES: Final = tuple(WORDS)


def replay_columns(replay: Replay) -> Columns:
    """All that is drawn of a launch."""
    kinds, tensors = sorted(set(replay.kinds)), list(dict.fromkeys(life.tensor for life in replay.lives))
    begin = replay.begin
    uses, visits = replay.uses, replay.visits
    columns: dict[str, npt.NDArray[Any]] = {
        "start": replay.start - begin,
        "until": replay.until - begin,
        "done": replay.done - begin,
        "kind": _numbers([kinds.index(kind) for kind in replay.kinds]),
        "changes": replay.changes - begin,
        "life_slot": _numbers(list(replay.slot_of_life)),
        "life_start": _numbers([life.start - begin for life in replay.lives]),
        "life_read": _numbers([life.read - begin for life in replay.lives]),
        "life_end": _numbers([life.end - begin for life in replay.lives]),
        "life_tensor": _numbers([tensors.index(life.tensor) for life in replay.lives]),
        "life_role": _numbers([ROLES.index(life.role) for life in replay.lives]),
        "use_instruction": uses.instruction,
        "use_slot": uses.slot,
        "use_life": uses.life,
        "use_access": uses.access,
        "visit_instruction": visits.instruction,
        "visit_place": visits.place,
        "visit_access": visits.access,
        "visit_is_move": visits.is_move,
        "visit_touch": visits.touch,
        **_places(replay.places),
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
            _grid(grid, moved_text(told)) for grid, told in zip(replay.grids, replay.tiling.tensors, strict=True)
        ],
        "note": f"PyTorch computes {replay.kernel} on the host: it uses no scratchpad." if replay.is_host else "",
        **_slots(replay),
    }
    return packed(header, columns)


def _numbers(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def _places(places: tuple[Place, ...]) -> dict[str, npt.NDArray[Any]]:
    """`place_first` and `place_moves` are 0 where nothing is moved."""
    return {
        "place_grid": _numbers([place.grid for place in places]),
        "place_top": _numbers([place.top for place in places]),
        "place_left": _numbers([place.left for place in places]),
        "place_bottom": _numbers([place.bottom for place in places]),
        "place_right": _numbers([place.right for place in places]),
        "place_first": _numbers([place.tile.first if place.tile else 0 for place in places]),
        "place_moves": _numbers([place.tile.visits if place.tile else 0 for place in places]),
    }


def _slots(replay: Replay) -> dict[str, Any]:
    """Slots with the heights between which they are drawn, counted from their core's address 0 upwards."""
    cores = sorted({slot.core for slot in replay.slots})
    told, panels = list[dict[str, Any]](), list[dict[str, Any]]()
    for core in cores:
        here = [slot for slot in replay.slots if slot.core == core]
        heights, height = heights_of([(slot.address, slot.address + slot.bytes) for slot in here], len(cores))
        panels.append({"core": core, "height": height})
        for slot, (low, high) in zip(here, heights, strict=True):
            place = {"core": core, "buffer": slot.buffer, "number": slot.number, "slot": slot.slot}
            size = {"address": slot.address, "bytes": slot.bytes, "size": bytes_text(slot.bytes)}
            told.append({**place, **size, "low": low, "high": high})
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
