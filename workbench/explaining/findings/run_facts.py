"""The facts that rules read: a simulated run, kernel by kernel, with the activities on its critical path."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import simulator
from simulator import Launched
from simulator.analysis.binding import MEMORY, Binding, binding_of, part_of
from simulator.analysis.critical_path import critical_path_of
from simulator.analysis.memory_use import memory_use_of
from simulator.tileprogram.program import Access, Opcode, Space
from simulator.units import systolic
from workbench.ir import HOST, KernelGraph, Literal, Node, ScheduledProgram, Sequence
from workbench.scheduling.planning.common_memory_plan import residents

if TYPE_CHECKING:
    import numpy.typing as npt

    from simulator import Machine, Trace
    from simulator.analysis.critical_path import Step
    from simulator.analysis.memory_use import MemoryUse
    from simulator.tileprogram.program import TileProgram
    from workbench.explaining.findings.finding_record import Remedy
    from workbench.ir import Launch, Origin, ScheduledKernel, TensorType
    from workbench.scheduling.user_mapping import UserMapping


def bytes_of(kind: TensorType) -> int:
    """Bytes of a tensor's elements."""
    return kind.numel * kind.element_bytes


def moved_bytes(program: TileProgram, argument: int) -> int:
    """Bytes of an argument that a launch's copies load and store."""
    copies = (program.space == Space.DRAM) & np.isin(program.opcode[program.owners()], [Opcode.LOAD, Opcode.STORE])
    here = copies & (program.target == argument)
    return int((program.shape[here].prod(1) * program.element_bytes[here]).sum())


def numbers_of(node: Node, place: int, usual: int) -> tuple[int, int]:
    """A convolution's argument for both axes of its images: at place 3 the stride, 4 the padding, 5 the dilation."""
    given = node.args[place] if place < len(node.args) else Literal("int", usual)
    items = given.items if isinstance(given, Sequence) else (given,)
    numbers = [int(str(item.value)) for item in items if isinstance(item, Literal)]
    return numbers[0], numbers[-1]


def channels_innermost(kind: TensorType) -> bool:
    """True if all channels of a pixel are adjacent."""
    return len(kind.shape) == 4 and kind.shape[1] > 1 and kind.strides[1] == 1


@dataclass(frozen=True)
class KernelFacts:
    """All launches of one scheduled kernel together."""

    name: str
    scheduled: ScheduledKernel | None
    """None for a step on the host."""
    launches: tuple[Launch, ...]
    spans: npt.NDArray[np.int64]
    """The kernel's rows of `events`."""
    cycles: int
    """Cycles from begin to end of the kernel's launches."""
    path: Mapping[str, int]
    """Cycles of the critical path, by activity; they add up to `cycles`."""
    on_path: Mapping[str, Mapping[int, int]]
    """Activity -> span -> the span's cycles of the critical path."""

    def part(self, *what: str) -> int:
        """Cycles of the critical path with one of these activities."""
        return sum(self.path.get(each, 0) for each in what)

    def showing(self, *what: str) -> tuple[int, ...]:
        """The spans with cycles of the critical path in one of these activities."""
        return tuple(sorted({span for each in what for span in self.on_path.get(each, ())}))

    @property
    def transfers(self) -> tuple[str, ...]:
        """The activities of the kernel's critical path in which bytes move, or wait for other bytes that move."""
        return tuple(what for what in self.path if part_of(what) == MEMORY and not what.endswith(" latency"))

    def path_of(self, span: int, *what: str) -> int:
        """One span's cycles of the critical path with one of these activities."""
        return sum(self.on_path.get(each, {}).get(span, 0) for each in what)

    def filled_lanes(self, lanes: int) -> float:
        """The share of lanes with work in the kernel's vector passes; 1 without passes."""
        if self.scheduled is None:
            return 1.0
        program = self.scheduled.program
        rows = np.flatnonzero((program.opcode == Opcode.VECTOR) & (program.lane >= 0))
        along = program.extent[rows, program.lane[rows].astype(np.int64)]
        points = program.extent[rows].prod(1)
        taken = points / np.maximum(along, 1) * -(-along // lanes) * lanes
        return float(points.sum() / taken.sum()) if len(rows) else 1.0

    @property
    def nodes(self) -> tuple[str, ...]:
        """The captured nodes that the kernel works for, over all launches."""
        return tuple(dict.fromkeys(name for launch in self.launches for name in launch.origins))


@dataclass(frozen=True)
class ComputedFacts(KernelFacts):
    """The facts of a kernel that runs on the machine, not on the host."""

    scheduled: ScheduledKernel


@dataclass(frozen=True)
class Facts:
    """One run: its records, and facts derived from its trace. Each is computed once."""

    lowered: KernelGraph
    scheduled: ScheduledProgram
    trace: Trace
    cycles_as_chosen: Callable[[], int | None] | None = None
    """Returns the run's cycles with the mappings that scheduling chooses, None if that fails. The field is None if the
    user gave no mapping."""
    module_at: Callable[[str], object | None] | None = None
    """Returns the module at a path of the traced callable, None if there is none. The field is None without the
    callable."""
    function: Callable[..., object] | None = None
    """The traced callable; None for a loaded journey, and for one that comes from `torch.compile`."""
    retiled: Callable[[ScheduledKernel, UserMapping], ScheduledKernel | None] | None = None
    """Returns a kernel scheduled with another mapping, None if that is impossible. The field is None without a
    journey."""
    cycles_anew: Callable[[Remedy], int | None] | None = None
    """Returns the cycles of a copy that is compiled and simulated with a remedy, None if that fails. The field is None
    without a journey."""

    @property
    def machine(self) -> Machine:
        return self.trace.machine

    @property
    def cycles(self) -> int:
        return self.trace.makespan

    def passes(self, kernel: ComputedFacts) -> int:
        """The most passes that a product of a kernel takes through the arrays: more than one for wide floats."""
        return self._passes[kernel.name]

    @functools.cached_property
    def _passes(self) -> dict[str, int]:
        return {
            each.name: int(systolic.passes(each.scheduled.program, self.machine).max(initial=1))
            for each in self.computed
        }

    def cycles_of(self, kernels: Collection[KernelFacts]) -> int:
        """Cycles of kernels, with their launch overhead."""
        begun = sum(len(kernel.launches) for kernel in kernels if kernel.scheduled)
        return sum(kernel.cycles for kernel in kernels) + begun * self.machine.core.launch_overhead_cycles

    @functools.cached_property
    def origins(self) -> Mapping[str, Origin]:
        """The origin of every node, by its name: of captured nodes, and of those they were lowered to."""
        lowered = {each.node.name: each.node.origin for each in self.lowered.nodes}
        return lowered | {node.name: node.origin for node in self.lowered.captured.nodes}

    @functools.cached_property
    def memory_use(self) -> MemoryUse:
        return memory_use_of(self.trace)

    @functools.cached_property
    def binding(self) -> Binding:
        return binding_of(self.trace, self._path)

    def base_of(self, value: str) -> str:
        """The tensor that a value is a view of; the value itself where it is none."""
        return self._bases.get(value, value)

    @functools.cached_property
    def _bases(self) -> dict[str, str]:
        return self.lowered.bases

    def named(self, value: str) -> str:
        """The user's name of a tensor, if it is an input; a view has its base's name."""
        base = self.base_of(value)
        return next((each.path for each in self.lowered.captured.inputs if each.value == base), base)

    def moved(self, kernel: str, value: str, way: Access) -> int:
        """Bytes that a kernel of the graph reads or writes in memory, of a value or of a view of it."""
        total = 0
        for place, launch in enumerate(self.scheduled.launches.launches):
            if launch.name != kernel or launch.kernel not in self._programs:
                continue
            program = self._programs[launch.kernel]
            wanted = [number for number, each in enumerate(launch.arguments) if self.base_of(each) == value]
            touches = (program.space == Space.DRAM) & np.isin(program.target, wanted) & (program.access & way > 0)
            owner = program.owners()
            base = self.trace.rows_of(place).start
            total += int(self.memory_use.asked[base + np.unique(owner[touches])].sum())
        return total

    @functools.cached_property
    def _programs(self) -> dict[str, TileProgram]:
        return {kernel.kernel: kernel.program for kernel in self.scheduled.kernels}

    def beyond_memory(self, kernel: KernelFacts) -> int:
        """Cycles of a kernel beyond those of its bytes alone: the possible saving without moving fewer bytes."""
        moved = int(self.memory_use.requested[kernel.spans].sum())
        return max(0, kernel.cycles - round(moved / float(self.machine.bus_bytes_per_cycle)))

    @functools.cached_property
    def launching(self) -> int:
        """Cycles of the makespan in which a launch had not begun yet."""
        return sum(step.cycles for step in self._path if step.what == "launch" and step.span < 0)

    @functools.cached_property
    def _path(self) -> list[Step]:
        return critical_path_of(self.trace)

    @functools.cached_property
    def kernels(self) -> tuple[KernelFacts, ...]:
        """The facts of all kernels, in the order of their first launches."""
        scheduled = {kernel.kernel: kernel for kernel in self.scheduled.kernels}
        launches = self.scheduled.launches.launches
        of_launch = [launch.kernel for launch in launches]
        path: dict[str, dict[str, int]] = {name: {} for name in of_launch}
        spans: dict[str, dict[str, dict[int, int]]] = {name: {} for name in of_launch}
        for step in self._path:
            if step.span >= 0:
                name = of_launch[step.launch]
                path[name][step.what] = path[name].get(step.what, 0) + step.cycles
                found = spans[name].setdefault(step.what, {})
                found[step.span] = found.get(step.span, 0) + step.cycles
        number = {name: place for place, name in enumerate(dict.fromkeys(of_launch))}
        of_span = np.array([number[name] for name in of_launch], np.int64)[self.trace.launch]
        found = list[KernelFacts]()
        for name, place in number.items():
            own = tuple(launch for launch in launches if launch.kernel == name)
            told = own, np.flatnonzero(of_span == place), sum(path[name].values()), path[name], spans[name]
            computed = scheduled.get(name)
            found.append(ComputedFacts(name, computed, *told) if computed else KernelFacts(name, None, *told))
        return tuple(found)

    @property
    def computed(self) -> tuple[ComputedFacts, ...]:
        """The kernels that run on the machine."""
        return tuple(kernel for kernel in self.kernels if isinstance(kernel, ComputedFacts))

    @property
    def path_origins(self) -> Iterator[tuple[Step, tuple[str, ...]]]:
        """The critical path, and the captured nodes that each of its instructions works for."""
        trace, launches = self.trace, self.scheduled.launches.launches
        for step in self._path:
            if step.span >= 0:
                own = trace.origin[trace.origin_start[step.span] : trace.origin_start[step.span + 1]]
                yield step, tuple(launches[step.launch].origins[place] for place in cast("list[int]", own.tolist()))

    def cycles_planned(self, plan: ScheduledProgram) -> int:
        """Cycles of the same kernels, with another plan of the common memory."""
        asked: dict[str, Any] = {**self.trace.asked, "residents": tuple(residents(plan, plan.residence))}
        return simulator.simulate(self.trace.launches, self.machine, **asked).makespan

    def cycles_on(self, machine: Machine) -> int:
        """Cycles of the same programs, on another machine."""
        trace = self.trace
        return simulator.simulate(trace.launches, machine, **trace.asked).makespan

    def cycles_with(self, kernel: KernelFacts, program: TileProgram) -> int:
        """Cycles of the whole run if a kernel had another program.

        A launch begins when the one before has ended, and leaves no state but in a memory with rows, links with queues
        and a common memory; without these, the cycles of the other launches stay the same.
        """
        trace = self.trace
        has_history = self.machine.dram.kind != "simple" or self.machine.has_links or trace.asked.get("residents")
        changed = [
            replace(each, program=program) if isinstance(each, Launched) and each.kernel == kernel.name else each
            for each in trace.launches
        ]
        if has_history:
            return simulator.simulate(changed, self.machine, **trace.asked).makespan
        alone = [replace(each, after=()) for each in changed if each.kernel == kernel.name]
        took = simulator.simulate(alone, self.machine).makespan - len(alone) * self.machine.core.launch_overhead_cycles
        return self.cycles - kernel.cycles + took

    @functools.cached_property
    def host_kernels(self) -> frozenset[str]:
        return frozenset(kernel.name for kernel in self.lowered.kernels if kernel.kind == HOST)
