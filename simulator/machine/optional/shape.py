"""The hooks of a kind of optional hardware that are called when a machine is made and read.

The other half of its description, for simulations, is a `Feature`: simulator/optional/feature.py. It stands apart
because machines are below all that simulates them. Each hook may be left out.
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
    """The cores of a machine by kind: for each kind a machine of such cores, its clock as a part of the machine's, and
    the numbers of its cores."""

    def __call__(self, machine: M, /) -> list[tuple[M, Fraction, list[int]]]: ...


def alike(machine: M) -> list[tuple[M, Fraction, list[int]]]:
    """The one kind of cores of a machine whose cores are all alike."""
    return [(machine, Fraction(1), list(range(machine.core.count)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """The hooks that describe the cores of a machine."""

    kinds: KindsOfCores
    macs_per_cycle: Callable[[MachineRecord], list[Fraction]]
    """For each core, the products that its arrays add up in a cycle of the machine's clock, at best."""
    fewest_lanes: Callable[[MachineRecord], int]
    """Lanes of each core's vector unit, or of that with the fewest."""
    shares: Callable[[MachineRecord], tuple[int, ...]]
    """The core of each share of the work that is spread over all cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Figures that may be given as a list of tables."""

    key: str
    """The key of the list."""
    figures: tuple[str, ...]
    """The flat names of the figures that it stands for."""
    read: Callable[[str, Sequence[object]], Mapping[str, Figure]]
    """These figures, for a machine of this name and a list with flat names."""
    read_file: Callable[[str, str, object], Mapping[str, Figure]]
    """The same from a machine file: the file, the machine's name, and what stands there under the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Links between the parts of a memory, beside those of the interconnect."""

    stations: Callable[[MachineRecord, int, int, bool], list[str]]
    """The places on the way from a queue to a channel, or back."""
    is_own: Callable[[str, str], bool]
    """Whether a link between two places is one of these."""
    bytes_per_cycle: Callable[[MachineRecord], int]
    hop_cycles: Callable[[MachineRecord], int]
    """The latency that one of these links adds, there and back together."""
    most_hops: Callable[[MachineRecord], int]
    """Links on any way, at most."""
    longest_cycles: Callable[[MachineRecord], int]
    """The latency that these links add to the longest way from one part to another, there and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The hooks of one kind of optional hardware for machines."""

    mistakes: Callable[[MachineRecord], Iterator[str]] = lambda machine: iter(())
    """Says which figures do not fit together."""
    cores: Cores | None = None
    """Its cores, which are alike otherwise. One kind of optional hardware can have them."""
    listed: Listed | None = None
    memory_parts: Callable[[MachineRecord], int] = lambda machine: 1
    """Counts the parts of the memory, with equally many channels each; 1 is a memory in one part."""
    links: Links | None = None
    """The links between these parts, on a machine that has several."""
