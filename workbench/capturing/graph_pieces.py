"""A callable that Dynamo cannot make one graph of: several graphs, with Python running between them.

The graphs of one call become one record. Between two graphs stands a node for the break: it reads the results of the
graph before, and makes the tensors that Python gives to the next graph. The node has no kernel and is a step on the
host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch

from workbench.capturing.between_graphs import BetweenGraphs, Stretch, addresses
from workbench.capturing.functional_graph import unwrapped
from workbench.capturing.graph_breaks import ended_by, in_words, quiet, told
from workbench.capturing.record_nodes import Namer, Slot
from workbench.capturing.result_aliases import returned
from workbench.capturing.user_call import Target, call_target, fresh
from workbench.ground.environment.call_sites import Place
from workbench.ground.torch_inside.dynamo_once import static_graphs
from workbench.ground.torch_inside.dynamo_reading import breaks_in_loops
from workbench.ground.torch_inside.torch_export import hooks_of_users_modules
from workbench.ir import BREAK, AtenGraph, HostWork, Input, KernelGraph, Mutation, Node, Origin, Ref, TensorType, Tree
from workbench.ir import Sequence as SequenceArg
from workbench.ir.value_names import with_names
from workbench.operators.tensors import containers
from workbench.operators.tensors.torch_literals import to_type

Runner = Callable[[int, torch.fx.GraphModule, tuple[object, ...]], Sequence[torch.Tensor]]
"""Runs a graph: takes the graph's number, the graph as Dynamo made it, and the arguments from Python."""


class BrokenUp:
    """The callable under Dynamo. A runner from the caller runs each graph; the Python between the graphs runs
    unchanged."""

    def __init__(self, target: Target) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self._target = target
        self._runner: Runner | None = None
        self._compiled = cast("Target", cast(Any, torch).compile(fresh(call_target), backend=self._keep, dynamic=False))

    def __call__(self, runner: Runner, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Calls the callable. Dynamo compiles the functions around a break separately and gives up after a few versions
        of a function, so its limits are raised here."""
        many = static_graphs(recompile_limit=1 << 20, accumulated_recompile_limit=1 << 20)
        before, self._runner = self._runner, runner
        try:
            with torch.no_grad(), many, quiet(), breaks_in_loops():
                return self._compiled(self._target, args, kwargs)
        finally:
            self._runner = before

    def _keep(self, gm: torch.fx.GraphModule, _: object) -> Callable[..., Sequence[torch.Tensor]]:
        number = len(self.graphs)
        self.graphs.append(unwrapped(gm))

        def run(*given: object) -> Sequence[torch.Tensor]:
            assert self._runner is not None, "graphs run while the callable is called"
            return self._runner(number, gm, given)

        return run


@dataclass(frozen=True)
class Call:
    """One run of one graph: its inputs from Python, and its outputs."""

    number: int
    gm: torch.fx.GraphModule
    given: tuple[object, ...]
    results: list[torch.Tensor]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [value for value in self.given if isinstance(value, torch.Tensor)]


def observed(
    broken: BrokenUp, args: tuple[object, ...], kwargs: Mapping[str, object], between: BetweenGraphs
) -> tuple[object, list[Call]]:
    """Calls the callable while PyTorch computes its graphs; returns its result, and the runs of its graphs in order.

    `between` notes the operators that Python calls outside of the graphs.
    """
    calls: list[Call] = []

    def run(number: int, gm: torch.fx.GraphModule, given: tuple[object, ...]) -> Sequence[torch.Tensor]:
        with between.graph(), hooks_of_users_modules(gm):
            results = list(cast("Sequence[torch.Tensor]", gm(*given)))
        calls.append(Call(number, gm, given, results))
        between.know(results)
        return results

    with between:
        return broken(run, args, kwargs), calls


@dataclass(frozen=True)
class Merged:
    """The record of a broken-up call."""

    graph: AtenGraph
    parts: dict[int, AtenGraph]
    """The graph of each number, with the value names that its first run has in the record."""
    slots: tuple[Slot, ...]
    """The record's inputs."""
    breaks: tuple[str, ...]


Graph = tuple[AtenGraph, list[torch.Tensor]]
"""A graph captured by itself, and its constants, which are its inputs after the tensors of the call."""


@dataclass
class _Merge:
    name: str
    slot_of: Callable[[torch.Tensor, str], Slot]
    slots: list[Slot]
    between: BetweenGraphs
    namer: Namer = field(default_factory=Namer)
    where: dict[int, str] = field(default_factory=dict[int, str])
    """The value that each tensor holds now, by the tensor's `id`."""
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    nodes: list[Node] = field(default_factory=list[Node])
    fixed: dict[int, str] = field(default_factory=dict[int, str])
    """The names of the inputs, by the `id` of their tensors."""
    host_work: list[HostWork] = field(default_factory=list[HostWork])
    at_host: set[str] = field(default_factory=set[str])
    """Inputs that Python has read or changed: the host has them from then on."""
    written: set[int] = field(default_factory=set[int])
    """The addresses of storages that Python has changed in place and that have not come back from the host since."""
    back: set[str] = field(default_factory=set[str])
    """The values of inputs that came back from the host after such a change."""

    def give(self, slot: Slot) -> None:
        name = self.namer(slot.path)
        self.where[id(slot.tensor)] = self.fixed[id(slot.tensor)] = name
        self.types[name] = to_type(slot.tensor, base_offset=int(slot.tensor.storage_offset()))

    def cross(self, stretch: Stretch, before: Sequence[str], tensors: Sequence[torch.Tensor], origin: Place) -> None:
        """Adds the node of the break before the graph that reads `tensors`. Computed tensors go to the host and come
        back. Inputs go there if operators between the graphs read them, and come back if these operators changed them
        in place."""
        self.written |= stretch.written
        back = {id(each) for each in tensors if id(each) in self.fixed and self.waits(each)}
        crossing = {id(each): each for each in tensors if id(each) not in self.fixed or self._changed(each)}
        crossing |= {id(each): each for each in tensors if id(each) in back}
        self.written -= addresses(crossing.values())
        fetched = {value for key in stretch.read if (value := self.where[key]) not in self.at_host}
        self.at_host |= fetched
        sent = (self.where[key] for key in crossing if key in self.where and key not in back)
        read = dict.fromkeys([*before, *sorted(fetched), *sent])
        name = self.namer("graph_break")
        new = [each for key, each in crossing.items() if key not in self.where]
        self.host_work += stretch.of_node(name, self.between.made_by_python(new), origin)
        results = tuple(f"{name}.{place}" for place in range(len(crossing)))
        for result, tensor in zip(results, crossing.values(), strict=True):
            self.types[result] = to_type(tensor, base_offset=int(tensor.storage_offset()))
            self.where[id(tensor)] = result
        self.back |= {self.where[key] for key in back}
        self.at_host |= self.back
        operands = SequenceArg(tuple(Ref(value) for value in read))
        self.nodes.append(Node(name, BREAK, (operands,), {}, results, Origin(name, BREAK, *origin)))

    def waits(self, tensor: torch.Tensor) -> bool:
        """Returns True if Python changed the tensor in place and the tensor has not come back since."""
        return not addresses([tensor]).isdisjoint(self.written)

    def _changed(self, tensor: torch.Tensor) -> bool:
        """Returns True if an input holds a graph's result."""
        return self.where[id(tensor)] not in (self.fixed[id(tensor)], *self.back)

    def add(self, call: Call, graph: AtenGraph, constants: Sequence[torch.Tensor]) -> AtenGraph:
        """Adds the nodes of a call to the record; returns the call's graph with the record's names."""
        names: dict[str, str] = {}
        for slot, tensor in zip(graph.inputs, [*call.tensors, *constants], strict=True):
            if id(tensor) not in self.where:
                self.slots.append(Slot("constant", f"{slot.path}_of_part", tensor))
                self.give(self.slots[-1])
            names[slot.value] = self.where[id(tensor)]
        inputs = tuple(Input(names[slot.value], slot.kind, slot.path) for slot in graph.inputs)
        nodes = tuple(self._node(node, names) for node in graph.nodes)
        self.nodes += nodes
        self.types |= {names[value]: kind for value, kind in graph.types.items() if names[value] not in self.types}
        targets = dict(zip((slot.value for slot in graph.inputs), [*call.tensors, *constants], strict=True))
        for change in graph.mutations:
            self.where[id(targets[change.target])] = names[change.value]
        self.where |= {id(result): names[value] for result, value in zip(call.results, graph.outputs, strict=True)}
        return replace(
            graph,
            name=f"part {call.number + 1} of {self.name}",
            inputs=inputs,
            nodes=nodes,
            outputs=tuple(names[value] for value in graph.outputs),
            types={names[value]: kind for value, kind in graph.types.items()},
            mutations=tuple(Mutation(names[each.target], names[each.value]) for each in graph.mutations),
            aliases=tuple(replace(each, base=names[each.base]) for each in graph.aliases),
            numbers=tuple(replace(each, value=names[each.value]) for each in graph.numbers),
        )

    def _node(self, node: Node, names: dict[str, str]) -> Node:
        name = self.namer(node.name)
        for result in node.results:
            names[result] = name + result.removeprefix(node.name)
        args = tuple(with_names(arg, names) for arg in node.args)
        kwargs = {key: with_names(arg, names) for key, arg in node.kwargs.items()}
        results = tuple(names[result] for result in node.results)
        return replace(
            node, name=name, args=args, kwargs=kwargs, results=results, origin=replace(node.origin, node=name)
        )


@dataclass(frozen=True)
class Whole:
    """The user's call that was broken up."""

    name: str
    called: Place
    """The user's line that asked for the capture."""
    user: Sequence[Slot]
    slot_of: Callable[[torch.Tensor, str], Slot]
    all_held: Sequence[torch.Tensor]
    found: Sequence[tuple[str, torch.Tensor]]
    """The returned tensors, each with its path in the result."""
    tree: Tree
    input_tree: Tree
    between: BetweenGraphs
    """The operators that PyTorch computed outside of the graphs."""


def merge(whole: Whole, calls: Sequence[Call], graphs: Mapping[int, Graph], *, first_break: str, last: bool) -> Merged:
    """Returns one record of the calls. `graphs` has each graph as captured by itself, `first_break` is the reason why
    there is not one graph.

    `last` is True if the reason lies in the Python after the last graph. Without any call, all inputs and held tensors
    go to Python.
    """
    user, slot_of, found, called = whole.user, whole.slot_of, whole.found, whole.called
    inside = {id(result) for call in calls for result in call.results} | {id(slot.tensor) for slot in user}
    held = {id(each): each for call in calls for each in call.tensors if id(each) not in inside}
    held |= {id(each): each for _, each in found if id(each) not in inside}
    if not calls:
        held |= {id(each): each for each in whole.all_held}
    slots = [slot for slot in (slot_of(each, "") for each in held.values()) if slot.kind != "constant"]
    kinds = ("parameter", "buffer", "closure")
    ordered = [*user, *sorted(slots, key=lambda slot: (kinds.index(slot.kind), slot.path))]
    work, stretches = _Merge(whole.name, slot_of, ordered, whole.between), whole.between.stretches
    for slot in ordered:
        work.give(slot)
    parts: dict[int, AtenGraph] = {}
    breaks: list[str] = []
    ended = ended_by(calls[-1].gm)[0] if calls else ""
    alone = not last and not any(ended_by(call.gm)[0] for call in calls)
    if calls and (alone or stretches[0].calls):
        breaks.append(first_break if alone else told("PyTorch computes before the first graph", *called))
        work.cross(stretches[0], [], calls[0].tensors, called)
    before: list[str] = [] if calls else list(work.fixed.values())
    for place, call in enumerate(calls):
        if place:
            reason, origin = ended_by(calls[place - 1].gm)
            breaks.append(told(in_words(reason) or "Python runs between two graphs", *origin))
            work.cross(stretches[place], before, call.tensors, origin)
        made = work.add(call, *graphs[call.number])
        parts.setdefault(call.number, made)
        before = list(made.outputs)
    work.written |= stretches[-1].written
    new = [each for _, each in found if id(each) not in work.where or work.waits(each)]
    left = bool(stretches[-1].calls) or bool(new)
    if ended or last or not calls or left:
        reason, origin = ended_by(calls[-1].gm) if calls else ("", called)
        if last or not calls:
            breaks.append(first_break)
        else:
            breaks.append(told(in_words(reason) or "Python runs after the last graph", *origin))
        work.cross(stretches[-1], before, new, origin)
    graph = AtenGraph(
        name=whole.name,
        inputs=tuple(Input(work.fixed[id(slot.tensor)], slot.kind, slot.path) for slot in work.slots),
        nodes=tuple(work.nodes),
        outputs=tuple(work.where[id(each)] for _, each in found),
        tree=whole.tree,
        types=work.types,
        mutations=tuple(Mutation(name, work.where[key]) for key, name in work.fixed.items() if work.where[key] != name),
        input_tree=whole.input_tree,
        numbers=tuple({each.value: each for part in parts.values() for each in part.numbers}.values()),
        host_work=tuple(work.host_work),
    )
    return Merged(graph, parts, tuple(work.slots), tuple(breaks))


Run = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""Computes a graph: from its inputs, which it may change, to its outputs."""


@dataclass(frozen=True)
class Parts:
    """A broken-up callable and its graphs."""

    broken: BrokenUp
    graphs: Mapping[int, AtenGraph]
    """The graphs by number, with the value names of the whole record."""
    constants: Mapping[int, list[torch.Tensor]]
    """The constants of each graph: its inputs after the tensors that it is called with."""
    _others: dict[int, Run] = field(default_factory=dict[int, Run])
    """Graphs that later data led to and the traced data did not."""

    def run(
        self,
        part: Callable[[AtenGraph], Run],
        other: Callable[[torch.fx.GraphModule, tuple[object, ...]], Run],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        """Calls the callable. `part` computes a traced graph, `other` a graph that only this data leads to."""

        def run(number: int, gm: torch.fx.GraphModule, given: tuple[object, ...]) -> Sequence[torch.Tensor]:
            tensors = [value for value in given if isinstance(value, torch.Tensor)]
            graph = self.graphs.get(number)
            if graph is None:
                if number not in self._others:
                    self._others[number] = other(gm, given)
                return self._others[number](tensors)
            values = [*tensors, *self.constants[number]]
            return returned(graph, values, part(graph)(values))

        return self.broken(run, args, kwargs)


def part_of(lowered: KernelGraph, graph: AtenGraph) -> KernelGraph:
    """Returns the part of a lowering that belongs to one of its graphs."""
    captured = {node.name for node in graph.nodes}
    nodes = tuple(item for item in lowered.nodes if item.parent in captured)
    names = {item.node.name for item in nodes}
    made = {value for item in nodes for value in item.node.results}
    kernels = tuple(kernel for kernel in lowered.kernels if names.issuperset(kernel.nodes))
    views = tuple(view for view in lowered.views if view.value in made)
    read = {slot.value for slot in graph.inputs} | made
    types = {value: kind for value, kind in lowered.types.items() if value in read}
    layouts = tuple(order for order in lowered.layouts if order.value in read)
    return KernelGraph(graph, nodes, kernels, views, types, (), layouts)


Leaf = tuple[str, torch.Tensor, TensorType]


def leaves(result: object, changed: Sequence[tuple[str, torch.Tensor]]) -> list[Leaf]:
    """Returns the tensors of a call to compare: those of its result, with numbers as tensors, and those that it may
    have changed.

    `result` is a pair: the returned value, and the call's arguments, in which the call may have left tensors.
    """
    rows: list[tuple[str, torch.Tensor]] = []
    for path, leaf in containers.leaves(result):
        if isinstance(leaf, (torch.Tensor, bool, int, float)):
            told = f"result{path[3:]}" if path.startswith("[0]") else f"inputs{path[6:]}"
            rows.append((told, leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)))
    return [(name, tensor.detach().clone(), to_type(tensor)) for name, tensor in [*rows, *changed]]
