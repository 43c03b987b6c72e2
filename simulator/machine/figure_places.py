"""The table of a machine's figures: for each flat name, the part and the field that hold the figure.

The table is made from the records alone. Overrides, knobs, tables, traces and caches use flat names; code and machine
files use the parts.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError
from simulator.machine.machine_record import MachineRecord

Figure = int | float | str

M = TypeVar("M", bound=MachineRecord)

_PLAIN = ("name", "clock_mhz")
"""Figures of the machine as a whole."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a figure: its part and its field."""

    part: str
    """The name of the part; "" for a figure of the machine as a whole."""
    field: str
    kind: str
    """The figure's type, as the record annotates it."""
    may_be_zero: bool = False
    may_be_empty: bool = False
    """`may_be_zero` is for numbers, `may_be_empty` for texts; the field's metadata sets them."""
    most: int = 0
    """The largest value of a figure that counts things which tables and pictures list; 0 for other figures."""
    choices: tuple[str, ...] = ()
    """All values of a text, if they are few."""
    form: str = ""
    """The form of the values in words, if the type does not say it all."""

    @property
    def written(self) -> str:
        """The figure's name in a machine file."""
        return f"[{self.part}] {self.field}" if self.part else self.field


def _parts() -> dict[str, type[Any]]:
    hints = typing.get_type_hints(MachineRecord)
    names = [field.name for field in dataclasses.fields(MachineRecord)]
    return {name: hints[name] for name in names if name not in (*_PLAIN, "provenance")}


PARTS: Mapping[str, type[Any]] = _parts()
"""The record of each part, by its name."""


def _places() -> dict[str, Place]:
    found = {field.name: field for field in dataclasses.fields(MachineRecord)}
    places = {name: Place("", name, str(found[name].type)) for name in _PLAIN}
    for part, record in PARTS.items():
        for field in dataclasses.fields(record):
            flat, values = field.metadata.get("flat") or field.name, field.metadata.get("values", {})
            places[flat] = Place(part, field.name, str(field.type), **values)
    return places


PLACES: Mapping[str, Place] = _places()
"""Flat name -> place, in the order of the record."""

FLAT_NAMES: Mapping[tuple[str, str], str] = {(place.part, place.field): name for name, place in PLACES.items()}
"""(part, field) -> flat name."""


_READ: Mapping[str, attrgetter[Figure]] = {
    name: attrgetter(f"{place.part}.{place.field}" if place.part else place.field) for name, place in PLACES.items()
}
"""Flat name -> the function that reads the figure from a machine."""


def figure_names() -> tuple[str, ...]:
    """Flat names of all figures of a machine."""
    return tuple(PLACES)


def figure(machine: MachineRecord, name: str) -> Figure:
    """A figure by its flat name."""
    return _READ[name](machine)


def figures(machine: MachineRecord) -> dict[str, Figure]:
    """Every figure by its flat name, in the order of the record."""
    return {name: read(machine) for name, read in _READ.items()}


def fields_from(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """Makes the fields of a machine's record, with its parts, from all figures by flat names."""
    told = figures.get("name")
    for name in figures:
        if name not in PLACES:
            raise MachineError(f"machine {told!r}: unknown figure {name!r}{did_you_mean(str(name), PLACES)}")
    missing = [name for name in PLACES if name not in figures]
    if missing:
        raise MachineError(f"machine {told!r} lacks {', '.join(missing)}")
    by_part = _grouped(figures)
    return by_part.pop("", {}) | {part: PARTS[part](**given) for part, given in by_part.items()}


def with_figures(machine: M, changed: Mapping[str, Figure]) -> M:
    """Returns the same machine, or other record of figures, with some figures replaced."""
    by_part = _grouped(changed)
    own = by_part.pop("", {})
    parts = {part: dataclasses.replace(getattr(machine, part), **given) for part, given in by_part.items()}
    return dataclasses.replace(machine, **own, **parts)


def _grouped(figures: Mapping[str, Figure]) -> dict[str, dict[str, Any]]:
    """Groups figures by flat names into part -> field -> value."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in figures.items():
        place = PLACES[name]
        if place.kind == "int" and isinstance(value, float) and value.is_integer():
            value = int(value)  # people write 480e9 for a whole number
        found.setdefault(place.part, {})[place.field] = value
    return found
