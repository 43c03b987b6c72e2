"""The mapping that a template chooses itself, checked: a user wrote its `dims`, `tile` and `buffers`."""

from __future__ import annotations

import traceback
from collections.abc import Mapping as Dict
from dataclasses import replace
from numbers import Integral
from typing import cast

from simulator.did_you_mean import did_you_mean
from simulator.machine.machine import Machine
from workbench.ground.environment.call_sites import cell_name, is_users
from workbench.ground.environment.owners import Owner
from workbench.ground.errors import TemplateOutputError
from workbench.ir import Mapping
from workbench.scheduling.kernels.template import Template


def own_mapping(template: Template, machine: Machine) -> Mapping:
    """The template's default mapping; an exception or a nonsensical answer of its methods is an error that names it."""
    name, place = type(template).__name__, Owner.of(type(template)).place
    try:
        made = template.mapping(machine)
        mistake = _mistake_in(made, template.dims())
    except TemplateOutputError:
        raise
    except (Exception, SystemExit) as error:  # of the template's methods
        reason = f"its default mapping cannot be made: {type(error).__name__}: {error}{_users_line(error)}"
        raise TemplateOutputError(name, place, reason) from error
    if mistake:
        raise TemplateOutputError(name, place, mistake)
    # With plain numbers, as records have them, in place of NumPy's.
    return replace(made, tile={dim: int(size) for dim, size in made.tile.items()}, buffers=int(made.buffers))


def _users_line(error: BaseException) -> str:
    """The user's first line: that of the method."""
    frames = (frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename))
    first = next(frames, None)
    return f", at {cell_name(first.filename)}:{first.lineno} in {first.name}" if first else ""


def _mistake_in(made: object, dims: Dict[str, int]) -> str:
    if not isinstance(made, Mapping):
        return f"mapping() returned {made!r:.60}; expected a Mapping"
    tile, buffers = cast("object", made.tile), cast("object", made.buffers)
    if not isinstance(tile, Dict):
        return f"tile() returned {tile!r:.60}; expected the tile of each dim, as in {dict(dims)}"
    for dim, size in cast("Dict[str, object]", tile).items():
        if dim not in dims:
            known = f"its dims are {', '.join(dims) or 'none'}"
            return f"tile() returned {tile!r:.80}: there is no dim {dim!r}{did_you_mean(str(dim), dims)}; {known}"
        if not _is_count(size, min(1, dims[dim])):
            return f"tile() returned {tile!r:.80}: the tile of {dim} is {size!r:.30}; expected a whole number from 1"
    return "" if _is_count(buffers, 1) else f"buffers() returned {buffers!r:.60}; expected a whole number from 1"


def _is_count(given: object, least: int) -> bool:
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= least
