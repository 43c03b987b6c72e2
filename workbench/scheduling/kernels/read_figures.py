"""Records the machine figures that a template reads: on machines with equal figures it writes the same text.

A saved journey may be scheduled for another machine in a session without the template. Then the text stays, and these
figures show if the template might have written another text for that machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from simulator.machine.figure_places import PLACES
from simulator.machine.machine import Machine

R = TypeVar("R")


def noting(machine: Machine) -> tuple[Machine, dict[str, str]]:
    """A copy of the machine that records reads, and the figures read so far, by flat name. A property of the machine
    reads the figures that it depends on."""
    read: dict[str, str] = {}
    of_part: dict[str, dict[str, str]] = {}
    for flat, place in PLACES.items():
        if flat == "name":
            continue  # another name makes no other text
        of_part.setdefault(place.part, {})[place.field] = flat
    values = {field.name: getattr(machine, field.name) for field in dataclasses.fields(machine)}
    values |= {part: _noting(values[part], names, read) for part, names in of_part.items() if part}
    return _noting(machine, of_part[""], read, values), read


def _noting(record: R, names: Mapping[str, str], read: dict[str, str], values: Mapping[str, object] | None = None) -> R:
    """A copy of a record, with other `values` if given, that enters each field that is read into `read`."""
    known: type[R] = type(record)

    class Noting(known):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            if name == "__class__":  # so that the copy equals the record: dataclasses compare classes
                return known
            value: object = object.__getattribute__(self, name)
            flat = names.get(name)
            if flat is not None and flat not in read:  # once: figures never change
                read[flat] = repr(value)
            return value

    noted = object.__new__(Noting)
    for field in dataclasses.fields(cast(Any, record)):
        value = getattr(record, field.name) if values is None else values[field.name]
        object.__setattr__(noted, field.name, value)
    return cast(R, noted)


def others(read: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """The read figures whose values differ on this machine, with this machine's values."""
    now = {name: repr(getattr(machine, name, "not there")) for name in read}
    return {name: value for name, value in now.items() if value != read[name]}
