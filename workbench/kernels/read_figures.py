"""The machine figures that a template reads: with the same ones it writes the same text.

A journey that was saved may be scheduled for another machine where the template is not registered. Then its text stays
as it is, and these figures show whether the template might have written another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from simulator.machine.machine import Machine


def noting(machine: Machine) -> tuple[Machine, dict[str, str]]:
    """The same machine, and the figures that were read of it so far, by name; what follows from figures reads these."""
    names = [field.name for field in dataclasses.fields(machine)]
    read: dict[str, str] = {}

    class Noting(Machine):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            if name == "__class__":  # equal to a machine of the same figures, which is asked for its class
                return Machine
            value: object = object.__getattribute__(self, name)
            if name in names:
                read[name] = repr(value)
            return value

    noted = object.__new__(Noting)
    for name in names:
        object.__setattr__(noted, name, getattr(machine, name))
    return noted, read


def others(read: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """The figures that were read with another value than this machine has, each with the machine's."""
    now = {name: repr(getattr(machine, name, "not there")) for name in read}
    return {name: value for name, value in now.items() if value != read[name]}
