"""The figures that a machine file sets, by their flat names, with their provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import MachineError
from simulator.machine.figure_places import Figure
from simulator.machine.provenance import Provenance

Table = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FileFigures:
    """The figures of a file, and the provenance of these alone."""

    figures: Mapping[str, Figure]
    provenance: Provenance
    base: str | None = None
    """The shipped machine from which the file takes all other figures."""
    written: Mapping[str, str] = field(default_factory=dict[str, str])
    """Flat name -> the file's name of a figure, if that is another."""


@dataclass(frozen=True, slots=True)
class Origins:
    """The provenance in one table of a file, by the figures' names in the table."""

    assumed: tuple[str, ...]
    fitted: Mapping[str, str]
    sources: Mapping[str, str]

    def kinds(self, name: str) -> list[str]:
        """The kinds of provenance, of the three, that the table gives a figure."""
        held = (("`assumed`", self.assumed), ("[fitted]", self.fitted), ("[sources]", self.sources))
        return [kind for kind, names in held if name in names]

    def named(self) -> Iterable[tuple[str, str]]:
        """(kind, figure) of all entries."""
        for name in dict.fromkeys((*self.assumed, *self.fitted, *self.sources)):
            for kind in self.kinds(name):
                yield kind, name


def origins_in(where: str, assumed: object, fitted: object, sources: object) -> Origins:
    """Reads the provenance in one table from TOML; `where` names the file and the table in messages."""
    if not isinstance(assumed, list) or not all(isinstance(each, str) for each in cast("list[object]", assumed)):
        raise MachineError(f"{where}: assumed = {assumed!r:.60}: expected a list of names of figures")
    tables = dict[str, dict[str, str]]()
    for kind, given in (("fitted", fitted), ("sources", sources)):
        texts = cast("dict[str, object]", given) if isinstance(given, dict) else {"": given}
        for name, text in texts.items():
            if not name or not isinstance(text, str) or not text.strip():
                what = f"{where}: {kind}: {name} = {text!r:.60}" if name else f"{where}: {kind} = {text!r:.60}"
                raise MachineError(f"{what}: expected a table with a text for each figure, that says where it is from")
        tables[kind] = cast("dict[str, str]", texts)
    return Origins(tuple(cast("list[str]", assumed)), tables["fitted"], tables["sources"])


def check_named(where: str, origins: Origins, set_here: Iterable[str]) -> None:
    """Raises if a file gives the provenance of a figure that it does not set."""
    known = tuple(set_here)
    for kind, name in origins.named():
        if name not in known:
            what = f"{where}: {kind} names {name!r}, which is not set there{did_you_mean(name, known)}"
            raise MachineError(sentences(what, "A figure from elsewhere keeps the source it has there"))


def figure_of(told: str, value: object) -> Figure:
    """Returns `value` if it is a number or a text; `told` names the file and the figure in the error."""
    if not isinstance(value, int | float | str):
        raise MachineError(f"{told} = {value!r} is neither a number nor a text")
    return value
