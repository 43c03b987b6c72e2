"""Groups the kernels of several journeys by the captured nodes that they compute, so that kernels of different fusions
meet."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from simulator import Trace
from workbench.explaining.views.graphs.spent import dram_bytes
from workbench.explaining.views.graphs.titles import Titles, common_module
from workbench.ground.basics.common_parts import Keys, merged
from workbench.ground.basics.mlir_diff import canonical
from workbench.ir import KernelGraph, Launch, Node, ScheduledProgram


@dataclass(frozen=True, eq=False)
class Run:
    """One journey of a comparison, simulated."""

    name: str
    lowered: KernelGraph
    scheduled: ScheduledProgram
    trace: Trace
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """The options besides the machine."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.lowered.captured.nodes

    @property
    def launches(self) -> tuple[Launch, ...]:
        return self.scheduled.launches.launches

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def computed_by(self, launch: Launch) -> tuple[str, ...]:
        """The captured nodes that a launch computes, including nodes that became one with others."""
        return tuple(dict.fromkeys(name for origin in launch.origins for name in self.lowered.together(origin)))

    def microseconds(self, cycles: int) -> float:
        return self.trace.machine.microseconds(cycles)

    @cached_property
    def spans(self) -> list[tuple[str, int, int]]:
        """(kernel, begin, end) of each launch."""
        return self.trace.kernel_spans

    @cached_property
    def moved(self) -> list[int]:
        """Bytes of DRAM that each launch reads and writes."""
        return dram_bytes(self.trace).sum(1).tolist()

    @cached_property
    def launching(self) -> int:
        """Cycles of the makespan outside of all kernels: launches begin in them."""
        return self.trace.makespan - sum(end - begin for _, begin, end in self.spans)

    @cached_property
    def code(self) -> dict[str, Hashable]:
        """Scheduled kernel -> its program, independent of names."""
        hosts = {step.kernel: step.what for step in self.scheduled.hosts}
        return {kernel.kernel: canonical(kernel.mlir) for kernel in self.scheduled.kernels} | hosts


@dataclass(frozen=True)
class Part:
    """One journey's part of a group: empty if it has no launches."""

    launches: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ()
    """Names of the graph's kernels, one for each launch."""
    cycles: int = 0
    """Cycles from begin to end of its kernels."""
    bytes: int = 0
    """Bytes moved from and to DRAM."""
    code: tuple[Hashable, ...] = ()


@dataclass(frozen=True)
class Group:
    """The smallest set of captured nodes that is the work of whole kernels in every journey."""

    title: str
    module: str
    """The innermost `nn.Module` that contains all the nodes; empty for the whole program."""
    nodes: frozenset[int]
    """Nodes by their numbers among all nodes of all journeys."""
    parts: tuple[Part, ...]
    """One part for each journey."""

    @property
    def identical(self) -> bool:
        """True if every journey does the same, in as many cycles and with as many bytes."""
        return len({(part.cycles, part.bytes, part.code) for part in self.parts}) == 1


@dataclass(frozen=True, eq=False)
class Matching:
    """The captured nodes that several journeys share, and the kernels grouped by them."""

    runs: tuple[Run, ...]

    @cached_property
    def rows(self) -> list[tuple[int | None, ...]]:
        """One entry a node of all journeys: its place in the graph of each journey, None where a journey lacks the
        node.

        Nodes match if op, module and types are the same; the rest may match in another module, or with other types,
        since names shift when a function is edited. Nodes still left match if they are of the same module. Matched
        nodes always have the same order in all journeys.
        """
        same = self.runs[0].lowered.captured
        if all(run.lowered.captured is same for run in self.runs):
            return [(place,) * len(self.runs) for place in range(len(same.nodes))]
        return merged([_keys(run) for run in self.runs])

    @cached_property
    def numbers(self) -> tuple[Mapping[str, int], ...]:
        """For each journey: captured node -> its place in `rows`."""
        return tuple(
            {run.nodes[place].name: number for number, row in enumerate(self.rows) if (place := row[at]) is not None}
            for at, run in enumerate(self.runs)
        )

    @property
    def shared(self) -> int:
        """Nodes that all journeys have, with the same op."""
        return sum(
            len({None if place is None else run.nodes[place].op for run, place in zip(self.runs, row, strict=True)})
            == 1
            for row in self.rows
            if None not in row
        )

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order of their nodes; every launch is in one group."""
        union = Union(len(self.rows) + 1)
        linked = [
            [self.linking(at, run.computed_by(each)) for each in run.launches] for at, run in enumerate(self.runs)
        ]
        for numbers in itertools.chain.from_iterable(linked):
            union.join(numbers)
        members: dict[int, list[list[int]]] = {}
        for at, launches in enumerate(linked):
            for launch, numbers in enumerate(launches):
                members.setdefault(union.root(numbers[0]), [[] for _ in self.runs])[at].append(launch)
        return tuple(self._group(members[root]) for root in sorted(members))

    def linking(self, at: int, names: Sequence[str]) -> list[int]:
        """The numbers of a journey's nodes by which kernels are grouped. A node without operands, which is computed
        again wherever it is read, counts only if there are no others; without any node the number is the one after all
        nodes."""
        reading = [name for name in names if self.runs[at].by_name[name].operands]
        return [self.numbers[at][name] for name in dict.fromkeys(reading or names)] or [len(self.rows)]

    def groups_of(self, at: int, names: Sequence[str]) -> frozenset[int]:
        """The places of the groups that these nodes of a journey belong to."""
        numbers = set(self.linking(at, names)) if names else set[int]()
        return frozenset(place for place, group in enumerate(self.groups) if group.nodes & numbers)

    def _group(self, launches: Sequence[Sequence[int]]) -> Group:
        parts = tuple(_part(run, mine) for run, mine in zip(self.runs, launches, strict=True))
        of_run = [
            {name for launch in part.launches for name in run.computed_by(run.launches[launch])}
            for run, part in zip(self.runs, parts, strict=True)
        ]
        numbers = frozenset(self.numbers[at][name] for at, names in enumerate(of_run) for name in names)
        at = max(range(len(parts)), key=lambda at: (len(of_run[at]), len(parts[at].kernels), -at))  # with most nodes
        names = sorted(of_run[at], key=self.numbers[at].__getitem__)
        module = common_module([self.runs[at].by_name[name].origin.module for name in names])
        return Group(self._titles[at].together(names) or parts[at].kernels[0], module, numbers, parts)

    @cached_property
    def _titles(self) -> tuple[Titles, ...]:
        return tuple(Titles(run.lowered.captured) for run in self.runs)


def _part(run: Run, launches: Sequence[int]) -> Part:
    plan = run.launches
    return Part(
        tuple(launches),
        tuple(plan[launch].name for launch in launches),
        sum(run.spans[launch][2] - run.spans[launch][1] for launch in launches),
        sum(run.moved[launch] for launch in launches),
        tuple(run.code[plan[launch].kernel] for launch in launches),
    )


def _keys(run: Run) -> list[Keys]:
    """Lists of a key for each node, by which nodes of two journeys match; the surest list first."""
    types = run.lowered.captured.types
    kinds = [tuple((types[value].shape, types[value].dtype) for value in node.results) for node in run.nodes]
    whole = [(node.op, node.origin.module, kinds) for node, kinds in zip(run.nodes, kinds, strict=True)]
    modules = [node.origin.module or object() for node in run.nodes]  # a node of no module matches no other
    return [whole, [key[:2] for key in whole], [(key[0], key[2]) for key in whole], [key[0] for key in whole], modules]


class Union:
    """Sets of numbers that belong together; the smallest number stands for its set."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def root(self, number: int) -> int:
        while self._above[number] != number:
            self._above[number] = self._above[self._above[number]]
            number = self._above[number]
        return number

    def join(self, numbers: Iterable[int]) -> None:
        roots = sorted({self.root(number) for number in numbers})
        for root in roots[1:]:
            self._above[root] = roots[0]
