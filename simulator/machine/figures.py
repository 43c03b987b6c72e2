"""Checks a single figure of a machine: its type and its allowed values."""

from __future__ import annotations

import math

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError
from simulator.machine.figure_places import PLACES, Figure
from simulator.machine.mesh_places import check_places
from simulator.machine.parts import PLACES_FORM, TILE_FORM
from simulator.machine.tile_form import check_tile

_LARGEST, _LARGEST_RATE = 2**40, 2**60


def choices_of(name: str, kind: str) -> tuple[Figure, ...]:
    """All values that a figure can have, if they are few, else (); `kind` as in `check_figure`."""
    return (False, True) if kind == "bool" else PLACES[name].choices


def range_of(name: str, kind: str) -> str:
    """The values that `check_figure` accepts, in words."""
    if choices := choices_of(name, kind):
        return f"one of {', '.join(map(str, choices))}" if kind == "str" else "true or false"
    if kind == "str" or PLACES[name].form:
        return PLACES[name].form or "a text"
    least = "0" if PLACES[name].may_be_zero else "1" if kind == "int" else "more than 0"
    if not PLACES[name].most:  # the largest value is far beyond any machine
        return least if least == "more than 0" else f"{least} or more"
    return f"{least} to {most_of(name):,}"


def most_of(name: str) -> int:
    """The largest value of a figure that is a number."""
    return PLACES[name].most or (_LARGEST_RATE if name.endswith("_per_second") else _LARGEST)


def check_figure(told: str, name: str, kind: str, value: object) -> None:
    """Raises for a value that a figure cannot have; `kind` is the figure's type, as the machine's record annotates it.

    `told` names the machine and the figure in messages, as the user called it.
    """
    where = f"{told} = {value!r}"
    if kind == "str":
        if not isinstance(value, str) or not (value or PLACES[name].may_be_empty):
            raise MachineError(f"{where}: expected {PLACES[name].form or 'a text'}")
        if PLACES[name].form == PLACES_FORM:
            check_places(where, value)
        if PLACES[name].form == TILE_FORM:
            check_tile(where, value)
        choices = PLACES[name].choices
        if choices and value not in choices:
            near = did_you_mean(value, choices)
            raise MachineError(f"{where}{near or ':'} {'E' if near else 'e'}xpected one of {', '.join(choices)}")
        return
    if kind == "bool":
        if not isinstance(value, bool):
            raise MachineError(f"{where}: expected true or false")
        return
    allowed = (int,) if kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise MachineError(f"{where}: expected {'a whole number' if kind == 'int' else 'a number'}")
    if PLACES[name].most and value > PLACES[name].most:
        raise MachineError(f"{where}: expected at most {PLACES[name].most:,}")
    if value > most_of(name):
        raise MachineError(f"{where}: expected at most {most_of(name):,}, so that sums of many stay exact")
    if not math.isfinite(value) or value < 0 or (value == 0 and not PLACES[name].may_be_zero):
        raise MachineError(f"{where}: expected {'zero or more' if PLACES[name].may_be_zero else 'more than zero'}")
