"""What a rule looks at: a simulated run, kernel by kernel, with what its critical path was spent on."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.ir import HOST, KernelGraph, ScheduledProgram

if TYPE_CHECKING:
    import numpy.typing as npt

    from simulator import Machine, Trace
    from simulator.critical import Step
    from simulator.memory_use import MemoryUse
    from workbench.ir import Launch, ScheduledKernel, TensorType


def bytes_of(kind: TensorType) -> int:
    """Of a tensor's elements; the bits of one stand in the name of its type, and a boolean takes a byte."""
    bits = re.search(r"\d+", kind.dtype)
    return kind.numel * (int(bits[0]) // 8 if bits else 1)


@dataclass(frozen=True)
class KernelFacts:
    """All launches of one scheduled kernel together."""

    name: str
    scheduled: ScheduledKernel | None
    """None for a step on the host."""
    launches: tuple[Launch, ...]
    spans: npt.NDArray[np.int64]
    """Rows of `events`."""
    cycles: int
    """From begin to end of its launches."""
    path: Mapping[str, int]
    """Cycles of the critical path, by what they went on with; they add up to `cycles`."""
    on_path: Mapping[str, Mapping[int, int]]
    """The spans that did so, and how many of the cycles each."""

    def part(self, *what: str) -> int:
        """Cycles of the critical path that went on one of these."""
        return sum(self.path.get(each, 0) for each in what)

    def showing(self, *what: str) -> tuple[int, ...]:
        """The spans behind these cycles."""
        return tuple(sorted({span for each in what for span in self.on_path.get(each, ())}))

    def path_of(self, span: int, *what: str) -> int:
        """Cycles of the critical path that one span spent on one of these."""
        return sum(self.on_path.get(each, {}).get(span, 0) for each in what)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The captured nodes it works for, over all launches."""
        return tuple(dict.fromkeys(name for launch in self.launches for name in launch.origins))


@dataclass(frozen=True)
class Facts:
    """One run: the records it came from, and what follows from its trace. Everything is worked out once."""

    lowered: KernelGraph
    scheduled: ScheduledProgram
    trace: Trace

    @property
    def machine(self) -> Machine:
        return self.trace.machine

    @property
    def cycles(self) -> int:
        return self.trace.makespan

    @functools.cached_property
    def memory_use(self) -> MemoryUse:
        return self.trace.memory_use()

    @functools.cached_property
    def launching(self) -> int:
        """Cycles of the makespan in which a launch had not begun yet."""
        return sum(step.cycles for step in self._path if step.what == "launch" and step.span < 0)

    @functools.cached_property
    def _path(self) -> list[Step]:
        return self.trace.critical_path()

    @functools.cached_property
    def kernels(self) -> tuple[KernelFacts, ...]:
        """In the order of their first launches."""
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
        return tuple(
            KernelFacts(
                name,
                scheduled.get(name),
                tuple(launch for launch in launches if launch.kernel == name),
                np.flatnonzero(of_span == place),
                sum(path[name].values()),
                path[name],
                spans[name],
            )
            for name, place in number.items()
        )

    @property
    def computed(self) -> tuple[KernelFacts, ...]:
        """The kernels that run on the machine."""
        return tuple(kernel for kernel in self.kernels if kernel.scheduled is not None)

    @functools.cached_property
    def host_kernels(self) -> frozenset[str]:
        return frozenset(kernel.name for kernel in self.lowered.kernels if kernel.kind == HOST)
