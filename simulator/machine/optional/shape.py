"""`Shape`: the hooks of a kind of optional hardware that are called when a machine is made and read.

Its hooks for simulations are a `Feature`: simulator/optional/feature.py. The two are separate because code for machines
imports no code that simulates them. Each hook may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from simulator.machine.figure_places import Figure
from simulator.machine.machine_record import MachineRecord

M = TypeVar("M", bound=MachineRecord)


class KindsOfCores(Protocol):
    """Returns the cores of a machine by kind: for each kind a machine of such cores, its clock as a part of the
    machine's, and the numbers of its cores."""

    def __call__(self, machine: M, /) -> list[tuple[M, Fraction, list[int]]]: ...


def alike(machine: M) -> list[tuple[M, Fraction, list[int]]]:
    """The kinds of cores of a machine whose cores are all alike: a single one."""
    return [(machine, Fraction(1), list(range(machine.core.count)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """The hooks that describe the cores of a machine."""

    kinds: KindsOfCores
    macs_per_cycle: Callable[[MachineRecord], list[Fraction]]
    """Returns for each core the products that its arrays add up in a cycle of the machine's clock, at best."""
    fewest_lanes: Callable[[MachineRecord], int]
    """Returns the lanes of the core with the fewest lanes."""
    shares: Callable[[MachineRecord], tuple[int, ...]]
    """Returns the core of each share of the work that is spread over all cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Figures that may be given as a list of tables."""

    key: str
    """The key of the list in a machine file, and its name as an override."""
    figures: tuple[str, ...]
    """The flat names of the figures for which the list stands."""
    read: Callable[[str, Sequence[object]], Mapping[str, Figure]]
    """Returns these figures for a machine's name and a list of tables with flat names."""
    read_file: Callable[[str, str, object], Mapping[str, Figure]]
    """Returns these figures for a machine file, the machine's name, and the file's value under the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Links between the parts of a memory, beside those of the interconnect."""

    stations: Callable[[MachineRecord, int, int, bool], list[str]]
    """Returns the places on the way from a queue to a channel, or back."""
    is_own: Callable[[str, str], bool]
    """True if a link between two places is a link between parts of the memory."""
    bytes_per_cycle: Callable[[MachineRecord], int]
    hop_cycles: Callable[[MachineRecord], int]
    """Returns the latency that one of these links adds, there and back together."""
    most_hops: Callable[[MachineRecord], int]
    """Returns the most links on any way."""
    longest_cycles: Callable[[MachineRecord], int]
    """Returns the latency that these links add to the longest way from one part to another, there and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The hooks of one kind of optional hardware for machines."""

    mistakes: Callable[[MachineRecord], Iterator[str]] = lambda machine: iter(())
    """Yields a message for figures that do not fit together."""
    cores: Cores | None = None
    """The hooks for cores; None leaves all cores alike. Only one kind of optional hardware can have these hooks."""
    listed: Listed | None = None
    memory_parts: Callable[[MachineRecord], int] = lambda machine: 1
    """Returns the number of parts of the memory, which have equally many channels; 1 is a memory in one part."""
    links: Links | None = None
    """The hooks for the links between these parts, on a machine with several."""
