"""The machine: the checked parts of machine_record.py, and values derived from them.

A machine is a frozen record of parts; machine_file.py reads the shipped machines and users' files. `m.vector.lanes`
reads a figure; `m.vector_lanes`, its flat name, reads the same figure. `m.provenance` has the origin of each figure, so
that a reader of a result can see which figures are published, which fitted and which guessed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Any

from simulator.did_you_mean import did_you_mean, labelled
from simulator.errors import MachineError
from simulator.machine.dram_file import Memory, is_file, load_memory, wrong_controls
from simulator.machine.figure_places import FLAT_NAMES, PARTS, PLACES, Figure, fields_from, figure, figures
from simulator.machine.figures import check_figure
from simulator.machine.machine_record import MachineRecord, cycles_of, per_cycle, rounded
from simulator.machine.mesh_places import places
from simulator.machine.optional import shape_table as optional
from simulator.machine.provenance import OVERRIDE, Provenance
from simulator.machine.tile_form import Tile, tile_of

Override = Figure | Sequence[Mapping[str, Figure]]

_MOST_UNITS, _MOST_HOPS = 2**14, 2**20
"""The most units of a machine, and the most links on all ways between units and memory together."""


@dataclass(frozen=True, kw_only=True)  # with slots, assigning to a flat name would raise a wrong error
class Machine(MachineRecord):
    """One NPU: its figures, checked, and values derived from them."""

    own_memory: Memory | None = None
    """The contents that the file of `dram_timing` had when the machine was made; None for a shipped memory. A machine
    keeps the contents, since the file may be edited later, or missing where a saved machine is opened."""

    def __post_init__(self) -> None:
        for mistake in self._mistakes():
            raise MachineError(f"machine {self.name!r}: {mistake}")

    def _mistakes(self) -> Iterator[str]:
        """Yields the mistakes in the figures; checks the types first, since later checks compute with the figures."""
        for part, record in {**PARTS, "provenance": Provenance}.items():
            if not isinstance(getattr(self, part), record):
                yield f"{part} = {getattr(self, part)!r:.60}: expected a {record.__name__}"
        for name, value in figures(self).items():
            check_figure(f"machine {self.name!r}: {name}", name, PLACES[name].kind, value)
        if not self.clock_khz:
            yield f"clock_mhz = {self.clock_mhz}: expected at least 0.001, a kilohertz"
        yield from _too_large(self)
        if self.vector.bits_per_lane % 8:
            yield f"{self.vector.bits_per_lane} bits per lane are not whole bytes"
        if not self.dram_bytes_per_cycle:
            yield "dram_bytes_per_second is less than a byte in 10,000 cycles"
        if (sets := self.array.preload_depth) > 2:
            more = "no more than one set can move while another is in use"
            yield f"systolic_preload_depth = {sets}: expected 1 or 2; {more}"
        if self.dram.kind == "banked" and (self.own_memory or not is_file(self.dram.timing)):
            self.banked_memory()
        if self.network.kind == "mesh":
            places(self, "mesh_queues")
            places(self, "mesh_channels")
        yield from optional.mistakes(self)
        if self.scratchpad_bytes < self.vector_bytes:
            yield f"the scratchpad ({self.scratchpad_bytes} bytes) holds no vector"

    @property
    def scratchpad_bytes(self) -> int:
        """Bytes of the scratchpad of each core, or of the smallest one if cores differ."""
        return self.scratchpad.bytes_per_lane * optional.CORES.fewest_lanes(self)

    @property
    def kinds_of_cores(self) -> list[tuple[Machine, Fraction, list[int]]]:
        """The kinds of cores: for each a machine of such cores, its clock as a part of the machine's, and its cores."""
        return optional.CORES.kinds(self)

    @property
    def shares(self) -> tuple[int, ...]:
        """For each share of the work that is spread over all cores, the core that gets it."""
        return optional.CORES.shares(self)

    @property
    def peak_macs_per_cycle(self) -> Fraction:
        """Products that all cores together add up in a cycle of the machine's clock, at best."""
        return sum(optional.CORES.macs_per_cycle(self), Fraction(0))

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector over all lanes."""
        return self.vector.lanes * self.vector.bits_per_lane // 8

    @property
    def dram_bytes_per_cycle(self) -> Fraction:
        return per_cycle(self, self.dram.bytes_per_second)

    @property
    def bus_bytes_per_cycle(self) -> Fraction:
        """Bytes per cycle that long streams get from the memory, or from the ports of a simple interconnect to it."""
        sustained = rounded(self.dram_bytes_per_cycle * Fraction(str(self.dram.stream_share)))
        if self.network.kind != "simple" or self.dram.kind != "simple":
            return sustained
        return min(sustained, Fraction(self.network.ports * self.dram.request_bytes))

    @property
    def dram_latency_cycles(self) -> int:
        """Cycles from a request's leaving the DMA queue until its data is there: interconnect and memory together."""
        return self.network.latency_cycles + cycles_of(self, self.dram.latency_ns)

    @property
    def way_to_banks_cycles(self) -> int:
        """Cycles of the way from a transfer's begin to its first request at a banked memory, and of the way back.

        This is the latency of the interconnect and the memory, without the part that the simulated banks take.
        """
        memory = self.named_memory
        by_banks = (memory.activate_to_read + memory.read_latency + memory.burst) * memory.clock_ps / 1000
        return self.network.latency_cycles + cycles_of(self, max(0.0, self.dram.latency_ns - by_banks))

    @property
    def dram_block(self) -> Tile | None:
        """The block of rows and columns in which tensors lie in DRAM; None if they lie row after row."""
        return tile_of(self.dram.tile)

    @property
    def has_links(self) -> bool:
        """True if the interconnect is simulated link by link: see topology.py."""
        return self.network.kind != "simple" or self.memory_parts > 1

    @property
    def memory_parts(self) -> int:
        """Number of parts of the memory, which have equally many channels and equal bandwidth."""
        return optional.memory_parts(self)

    @property
    def across_cycles(self) -> int:
        """The latency of the longest way from one part of the memory to another, there and back; 0 with one part."""
        between = optional.links(self)
        return between.longest_cycles(self) if between is not None else 0

    @property
    def named_memory(self) -> Memory:
        """The memory of `dram_timing`, unchanged: `own_memory` or a shipped memory.

        No user's file is read here, because a machine from an untrusted file would then choose which file is read.
        """
        if self.own_memory is None and is_file(self.dram.timing):
            raise MachineError(
                f"machine {self.name!r} is from a file that does not hold its memory, dram_timing = "
                f"{self.dram.timing!r:.80}; if you have that memory file, machine.with_(dram_timing=...) reads it"
            )
        return self.own_memory or load_memory(self.dram.timing)

    @property
    def dram_clock_ratio(self) -> Fraction:
        """Cycles of a banked memory's clock in one cycle of the machine's clock."""
        return self.dram_bytes_per_cycle / (self.dram.channels * self.named_memory.bytes_per_cycle)

    def dram_slowdown(self, run: int, apart: int) -> float:
        """The factor by which opening rows lengthens a transfer whose runs of `run` bytes begin `apart` bytes apart.

        While a row serves the requests that lie in it, the next row opens. A simple memory has no rows: 1.
        """
        if _whole("run", run) < 1 or _whole("apart", apart) < 0:
            raise MachineError(f"dram_slowdown({run}, {apart}): runs of 1 byte or more begin 0 bytes apart or more")
        if self.dram.kind == "simple" or not apart:
            return 1.0  # there are no rows, or all runs are one and lie in a row that is open
        memory = self.named_memory
        requests = max(1.0, memory.columns * run / apart)
        return max(1.0, memory.activate_to_activate / (memory.burst * requests))

    def check_dram(self) -> None:
        """Raises for mistakes in the figures of banks, even if the memory is simple.

        The request size is not checked, since requests of a simple memory may have any size.
        """
        memory, dram = self.named_memory, self.dram
        for mistake in self._mistakes_of_banks(memory):
            raise MachineError(f"machine {self.name!r}: {mistake}")
        controls = {"dram_address": dram.address, "dram_hash": dram.hash, "dram_refresh": dram.refresh}
        for mistake in wrong_controls(controls, memory.bank_refresh):
            raise MachineError(f"machine {self.name!r} with {memory.name}: {mistake}")

    def _mistakes_of_banks(self, memory: Memory) -> Iterator[str]:
        dram, name = self.dram, memory.name
        if memory.standard != dram.standard:
            yield f"{name} is {memory.standard}, not dram_standard = {dram.standard!r}{self._goes_with(memory)}"
        if dram.channels & (dram.channels - 1):
            yield f"dram_channels = {dram.channels}: expected a power of two"
        if memory.refresh * dram.refresh_rate >= memory.refresh_interval:
            yield f"dram_refresh_rate = {dram.refresh_rate}: {name} would be refreshed all the time"

    def _goes_with(self, memory: Memory) -> str:
        """The end of a message: the figures that the machine would need for this memory."""
        needed: dict[str, Figure] = {"dram_standard": memory.standard}
        if self.dram.kind == "banked":
            needed["dram_request_bytes"] = memory.request_bytes
        told = (f"{name} = {value!r}" for name, value in needed.items() if figure(self, name) != value)
        return f"; it goes with {' and '.join(told)}"

    def banked_memory(self) -> Memory:
        """One channel of the memory with the machine's settings, at the clock that gives the machine's bandwidth."""
        memory, where = self.named_memory, f"machine {self.name!r} with banked memory"
        if memory.request_bytes != self.dram.request_bytes:
            raise MachineError(
                f"{where}: a request of {memory.name} is {memory.request_bytes} bytes, not the "
                f"dram_request_bytes = {self.dram.request_bytes}{self._goes_with(memory)}"
            )
        memory = dataclasses.replace(
            memory,
            address=self.dram.address,
            channel_hash=self.dram.hash,
            refreshes=self.dram.refresh,
            refresh_interval=memory.refresh_interval // self.dram.refresh_rate,
            queue_entries=self.dram.queue_entries or memory.queue_entries,
        )
        memory = memory.at_clock(Fraction(10**9, self.clock_khz) / self.dram_clock_ratio)
        between, needed = memory.between_refreshes
        if between < needed:
            hint = "; expected dram_refresh = 'all'" if self.dram.refresh == "each" else ""
            raise MachineError(
                f"{where}: with {self.dram.bytes_per_second} bytes a second the memory's clock is so slow that "
                f"{between} cycles lie between two refreshes, of which {needed} are gone{hint}"
            )
        return memory

    def vector_elements(self, element_bytes: int) -> int:
        """Elements in one vector over all lanes."""
        return self.vector.lanes * self.lane_elements(element_bytes)

    def lane_elements(self, element_bytes: int) -> int:
        """Elements in one lane of a vector; an element wider than the lane takes a vector of its own."""
        if _whole("element_bytes", element_bytes) < 1:
            raise MachineError(f"element_bytes={element_bytes!r}: an element has 1 byte or more")
        return max(1, self.vector.bits_per_lane // (8 * element_bytes))

    def pad_to_lanes(self, size: int) -> int:
        """`size` bytes, rounded up to whole vectors over all lanes: the size of a scratchpad slot."""
        return -(-_whole("size", size) // self.vector_bytes) * self.vector_bytes

    def microseconds(self, cycles: int) -> float:
        return _whole("cycles", cycles) / self.clock_mhz

    def with_(self, **overrides: Override) -> Machine:
        """Returns this machine with some figures replaced; their source is then `override`.

        A figure such as `cores` may be a list of tables, one for each core. With `dram_timing`, its memory file is
        read; without it the memory stays unchanged.
        """
        replaced = _with_lists(self.name, overrides)
        for key in replaced:
            if key not in PLACES:
                raise MachineError(f"machine {self.name!r} has no figure {key!r}{_instead(key)}")
        told = {**self.figures(), **replaced}
        provenance = self.provenance.replaced(replaced)
        if "dram_timing" in replaced:
            return machine_from(told, provenance, anew=True)
        return machine_from(told, provenance, memory=self.own_memory, anew=True, reads=False)

    def figures(self) -> dict[str, Figure]:
        """Every figure by its flat name, in the order of the record."""
        return figures(self)

    @property
    def overrides(self) -> dict[str, Figure]:
        """The figures that `with_` or `load_machine` replaced."""
        replaced = {name for name, source in self.sources if source == OVERRIDE}
        return {name: figure for name, figure in self.figures().items() if name in replaced and name != "name"}

    @property
    def label(self) -> str:
        """The name to show, with replaced figures: `tpu-v3 (vector_lanes=64)`."""
        return labelled(self.name, self.overrides)

    def __repr__(self) -> str:
        return f"Machine({self.label!r})"

    if not TYPE_CHECKING:  # our own code reads the parts, of which types are known; flat names are for people

        def __getattr__(self, name: str) -> Figure:
            """A figure by its flat name."""
            if name in PLACES:
                return figure(self, name)
            if hasattr(type(self), name):  # a property raised AttributeError in its own code: raise that error again
                return object.__getattribute__(self, name)
            near = did_you_mean(name, (each for each in dir(self) if not each.startswith("_")))
            raise AttributeError(f"a machine has no {name!r}{near}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *PLACES})


def _too_large(machine: MachineRecord) -> Iterator[str]:
    """Yields a message if a machine has more units, or more links on the ways to its memory, than the limits above."""
    each = machine.dma.queues + machine.array.count + 2
    if machine.core.count * each > _MOST_UNITS:
        units = f"{each} units each (dma_queues, systolic_arrays, vector and scalar unit)"
        yield f"cores = {machine.core.count} with {units}: expected at most {_MOST_UNITS:,} units together"
    ways = machine.core.count * (machine.dma.queues + 1) * machine.dram.channels
    network, links = machine.network, optional.links(machine)
    hops = network.mesh_columns + network.mesh_rows if network.kind == "mesh" else 3
    if network.kind != "mesh" and links is not None:
        hops = links.most_hops(machine)
    if (network.kind != "simple" or links is not None) and ways * hops > _MOST_HOPS:
        on_all = f"{ways:,} ways from dma_queues of all cores to dram_channels, of up to {hops} links each"
        yield f"{on_all}: expected at most {_MOST_HOPS:,} links on all ways together"


def _with_lists(machine: str, overrides: Mapping[str, Override]) -> dict[str, Any]:
    """Overrides as figures: a list of tables becomes the figures for which it stands."""
    replaced = dict[str, Any](overrides)
    for listed in optional.LISTED:
        given = overrides.get(listed.key)
        if isinstance(given, str) or not isinstance(given, Sequence):
            continue
        read = listed.read(machine, given)
        for name in listed.figures:
            if name != listed.key and name in overrides:
                raise MachineError(
                    f"machine {machine!r}: {listed.key} = [...] and {name} say the same; expected one of both"
                )
        replaced |= read
    return replaced


def _instead(key: str) -> str:
    """The end of a message: the keys that `with_` takes in place of a key that is no flat name."""
    if key in PARTS:
        flat = ", ".join(name for (part, _), name in FLAT_NAMES.items() if part == key)
        return (
            f": it is a part. Its figures go by their flat names, {flat}; a whole record goes by "
            f"dataclasses.replace(machine, {key}=...)"
        )
    return did_you_mean(key, PLACES)


def machine_from(
    figures: Mapping[str, Figure],
    provenance: Provenance,
    *,
    memory: Memory | None = None,
    anew: bool = False,
    reads: bool = True,
) -> Machine:
    """Makes the machine with these figures, provenance and own memory.

    If `anew`, checks the memory; if `reads` as well, loads the memory file of `dram_timing` when `memory` is None.
    """
    fields = fields_from(figures)
    timing = figures["dram_timing"]
    if anew and reads and memory is None and isinstance(timing, str) and is_file(timing):
        memory = load_memory(timing)
    machine = Machine(**fields, provenance=provenance, own_memory=memory)
    if anew:
        machine.check_dram()
    return machine


def _whole(name: str, given: int) -> int:
    """Returns `given` if it is a whole number, Python's or numpy's; raises for anything else."""
    if not isinstance(given, Integral):
        raise MachineError(f"{name}={given!r:.60}: expected a whole number")
    return given
