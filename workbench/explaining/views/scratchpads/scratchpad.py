"""The scratchpad over time: which tensor lay in which slot of which buffer, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simulator import Trace
from simulator.analysis.lifetimes import Lifetime, in_program_order, lifetimes, lifetimes_of
from simulator.did_you_mean import did_you_mean, sentences
from simulator.tileprogram.program import Access, Space, TileProgram
from simulator.tileprogram.slot_fillings import Fillings
from simulator.units.gather import INDEXED
from workbench.explaining.views.graphs.titles import user_names
from workbench.ground.basics.table import Table
from workbench.ground.errors import BadOption
from workbench.ir import Kernel, KernelGraph, ScheduledProgram

LOADED: Final = "loaded"
STORED: Final = "stored"
BOTH: Final = "loaded, stored"
INSIDE: Final = "stays inside"
WORDS: Final = {
    LOADED: "loaded from DRAM",
    STORED: "stored to DRAM",
    BOTH: "loaded and stored",
    INSIDE: "stays in the scratchpad",
}
FADED: Final = "faded: being filled, not read yet"
BEYOND: Final = "beyond the scratchpad"
NOTHING: Final = "the scratchpad was empty"

COLUMNS: Final = (
    "kernel", "launch", "core", "buffer", "tensor", "slot", "start", "read", "end", "bytes", "address", "role",
)  # fmt: skip
"""The fields of `Held`."""

CYCLES: Final = "cycles"
INSTRUCTIONS: Final = "instructions"


@dataclass(frozen=True, slots=True)
class Held:
    """One stretch of time in which a slot holds something."""

    kernel: str
    launch: int
    core: int
    buffer: str
    tensor: str
    slot: int
    start: int
    """The time at which the slot begins to be filled."""
    read: int
    """The time at which the slot is read for the first time."""
    end: int
    """The time from which on the slot's contents are not needed any more."""
    address: int
    bytes: int
    role: str
    """LOADED from DRAM, STORED there, BOTH, or INSIDE."""


@dataclass(frozen=True, slots=True)
class Band:
    """One launch on the axis of time."""

    kernel: str
    name: str
    """Name of the graph's kernel that the launch runs."""
    launch: int
    begin: int
    end: int


@dataclass(frozen=True)
class Occupancy:
    """The contents of the scratchpads over time, in a run or a program that does not fit."""

    held: tuple[Held, ...]
    bands: tuple[Band, ...]
    capacity: int
    """Bytes of a core's scratchpad."""
    unit: str = CYCLES
    """The unit of time."""

    @property
    def peak(self) -> int:
        """The number of bytes up to the highest address in use."""
        return max((held.address + held.bytes for held in self.held), default=0)

    @property
    def beyond(self) -> int:
        """Bytes that do not fit."""
        return max(0, self.peak - self.capacity)

    @property
    def begin(self) -> int:
        return min((band.begin for band in self.bands), default=0)

    @property
    def end(self) -> int:
        return max((band.end for band in self.bands), default=0)

    def of(self, which: str | int) -> Occupancy:
        """The occupancy of one launch: by its number, or the first launch of a kernel by the kernel's name."""
        found = [band for band in self.bands if which in (band.launch, band.name)]
        found = found or [band for band in self.bands if which == band.kernel]
        if not found:
            raise BadOption(self._unknown(which))
        launch = found[0].launch
        return replace(self, held=tuple(held for held in self.held if held.launch == launch), bands=(found[0],))

    def _unknown(self, which: str | int) -> str:
        if isinstance(which, int):
            launches = ", ".join(str(band.launch) for band in self.bands) or "none"
            return f"of({which}): there is no launch of a kernel {which}; the launches are {launches}"
        names = list(dict.fromkeys(band.name for band in self.bands))
        what = f"of({which!r}): no kernel has that name{did_you_mean(which, names)}"
        return sentences(what, f"The kernels are {', '.join(names)}" if names else "No kernel ran")


def occupancy(trace: Trace, scheduled: ScheduledProgram, lowered: KernelGraph) -> Occupancy:
    """The occupancy of every launch of a run, with the user's names of tensors."""
    names, launches = user_names(lowered), scheduled.launches.launches
    tensors = dict[str, _Tensors]()
    held = list[Held]()
    for launch, launched, (filled, lives) in zip(launches, trace.launches, lifetimes(trace), strict=True):
        program = launched.program
        if launch.kernel not in tensors:
            tensors[launch.kernel] = _Tensors(launch.kernel, program, filled)
        arguments = [names.get(value, value) for value in launch.arguments]
        held += [tensors[launch.kernel].held(life, arguments, launch.origins) for life in lives]
    return Occupancy(tuple(held), bands(trace, scheduled), trace.machine.scratchpad_bytes)


def bands(trace: Trace, scheduled: ScheduledProgram) -> tuple[Band, ...]:
    """The launches of a run, without the steps on the host."""
    launches, hosts = scheduled.launches.launches, {step.kernel for step in scheduled.hosts}
    return tuple(
        Band(kernel, launches[number].name, number, begin, end)
        for number, (kernel, begin, end) in enumerate(trace.kernel_spans)
        if launches[number].kernel not in hosts
    )


def held_by_launch(
    trace: Trace, scheduled: ScheduledProgram, lowered: KernelGraph, number: int
) -> tuple[Fillings, list[Lifetime], list[Held]]:
    """The occupancy of one launch: the fillings of its program, their lifetimes, and each of these with its tensor."""
    names, launch = user_names(lowered), scheduled.launches.launches[number]
    filled, lives = lifetimes_of(trace, number)
    tensors = _Tensors(launch.kernel, trace.launches[number].program, filled)
    arguments = [names.get(value, value) for value in launch.arguments]
    return filled, lives, [tensors.held(life, arguments, launch.origins) for life in lives]


def of_program(program: TileProgram, capacity: int, kernel: Kernel, lowered: KernelGraph) -> Occupancy:
    """The occupancy of a kernel's program, in program order, without a run."""
    names, nodes = user_names(lowered), {item.node.name: item.node.origin.node for item in lowered.nodes}
    arguments = [names.get(value, value) for value in (*kernel.inputs, *kernel.outputs)]
    origins = [nodes.get(name, name) for name in program.origin_names]
    filled, lives = in_program_order(program)
    tensors = _Tensors(kernel.name, program, filled)
    held = (tensors.held(life, arguments, origins) for life in lives)
    band = Band(kernel.name, kernel.name, 0, 0, len(program))
    return Occupancy(tuple(held), (band,), capacity, INSTRUCTIONS)


class _Tensors:
    """The kernel's arguments that each filling of a program comes from and goes to."""

    def __init__(self, kernel: str, program: TileProgram, filled: Fillings) -> None:
        self.kernel, self.program = kernel, program
        self.loaded: dict[int, dict[int, None]] = {}
        self.stored: dict[int, dict[int, None]] = {}
        owner = program.owners()
        for outside in np.flatnonzero(program.space == Space.DRAM).tolist():
            for operand in moved_with(program, int(owner[outside])):
                filling, argument = int(filled.of_operand[operand]), int(program.target[outside])
                if program.access[operand] & Access.WRITE and program.access[outside] & Access.READ:
                    self.loaded.setdefault(filling, {})[argument] = None
                if program.access[operand] & Access.READ and program.access[outside] & Access.WRITE:
                    self.stored.setdefault(filling, {})[argument] = None
        newest, made_by = np.full(len(program), -1), np.full(len(filled), -1)
        np.maximum.at(newest, np.repeat(np.arange(len(program)), np.diff(program.origin_start)), program.origin)
        writes = np.flatnonzero((filled.of_operand >= 0) & ((program.access & Access.WRITE) != 0))
        np.maximum.at(made_by, filled.of_operand[writes], newest[owner[writes]])
        self.made_by: list[int] = made_by.tolist()

    def held(self, life: Lifetime, arguments: Sequence[str], origins: Sequence[str]) -> Held:
        """A lifetime with the name of its tensor, from the launch's arguments or from the nodes behind its origins."""
        buffer, (tensor, role) = self.program.buffers[life.buffer], self._of(life.fillings, arguments, origins)
        place = self.kernel, life.launch, buffer.core, buffer.name, tensor, life.slot
        address = buffer.offset + life.slot * buffer.slot_bytes
        return Held(*place, life.start, life.read, life.end, address, buffer.slot_bytes, role)

    def _of(self, numbers: Sequence[int], arguments: Sequence[str], origins: Sequence[str]) -> tuple[str, str]:
        """The name of the tensor that these fillings hold, and its role."""
        loaded, stored = (
            dict.fromkeys(arguments[each] for number in numbers for each in found.get(number, ()))
            for found in (self.loaded, self.stored)
        )
        if loaded or stored:
            role = BOTH if loaded and stored else LOADED if loaded else STORED
            return ", ".join([*loaded, *(name for name in stored if name not in loaded)]), role
        origin = max(self.made_by[number] for number in numbers)
        return (origins[origin] if origin >= 0 else ""), INSIDE


def moved_with(program: TileProgram, row: int) -> list[int]:
    """The scratchpad operands of an instruction whose contents it moves from or to DRAM."""
    first, last = int(program.operand_start[row]), int(program.operand_start[row + 1])
    if program.opcode[row] in INDEXED:
        indexed = program.ops[int(program.op[row])].indexed
        first += len(indexed.index_dims) if indexed else 0  # indices only say where
    return operands_in(program, Space.SCRATCHPAD, first, last)


def operands_in(program: TileProgram, space: Space, first: int, last: int) -> list[int]:
    """The operands from `first` up to `last` that lie in a space."""
    wanted = int(space)
    return [first + place for place, each in enumerate(program.space[first:last].tolist()) if each == wanted]


def scratchpad_table(view: Occupancy) -> Table:
    """One row a stretch of time in which a slot holds something, by launch, buffer, slot and time."""
    rows = [tuple(getattr(held, column) for column in COLUMNS) for held in view.held]
    columns = COLUMNS
    if view.unit == INSTRUCTIONS:
        ends = (held.address + held.bytes for held in view.held)
        rows = [(*row, max(0, end - view.capacity)) for row, end in zip(rows, ends, strict=True)]
        columns = (*COLUMNS, "bytes_beyond")
    return Table(columns, tuple(rows), f"{NOTHING}: no kernel ran")


def tensors_of_buffers(view: Occupancy) -> dict[str, str]:
    """Buffer -> the tensors that it holds, in the order in which they come there."""
    found = dict[str, dict[str, None]]()
    for held in sorted(view.held, key=lambda each: each.start):
        found.setdefault(held.buffer, {})[held.tensor] = None
    return {buffer: ", ".join(filter(None, names)) for buffer, names in found.items()}


def scratchpad_text(view: Occupancy) -> str:
    """The bytes in use, those that do not fit, and every stretch of time."""
    table = scratchpad_table(view)
    return "\n".join([summary(view), *([table.text()] if table.rows else [])])


def summary(view: Occupancy) -> str:
    """The most bytes of the scratchpad in use; or those that are missing."""
    if view.beyond:
        return f"{view.peak:,} bytes are needed, the scratchpad has {view.capacity:,}: {view.beyond:,} too many"
    share = view.peak / max(view.capacity, 1)
    return f"at most {view.peak:,} of {view.capacity:,} bytes of the scratchpad ({share:.0%})"
