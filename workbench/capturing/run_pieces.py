"""Running a callable that is broken up: its graphs as a stage has them, and Python between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from workbench.capturing.graph_pieces import BrokenUp
from workbench.capturing.result_aliases import returned
from workbench.ir import AtenGraph, KernelGraph, TensorType
from workbench.operators.tensors import containers
from workbench.operators.tensors.torch_literals import to_type

Run = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""Computes a graph: from its inputs, which it may change, to its outputs."""


@dataclass(frozen=True)
class Parts:
    """A broken-up callable and its graphs."""

    broken: BrokenUp
    graphs: Mapping[int, AtenGraph]
    """By the number that each has; the names are those of the record of them all."""
    constants: Mapping[int, list[torch.Tensor]]
    """What each graph holds itself."""
    _others: dict[int, Run] = field(default_factory=dict[int, Run])
    """Graphs that data led to after the trace."""

    def run(
        self,
        part: Callable[[AtenGraph], Run],
        other: Callable[[torch.fx.GraphModule, tuple[object, ...]], Run],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        """Calls it. `part` computes a traced graph, `other` one that this data leads to and the traced data did not."""

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
    """The kernels of one graph, from the lowering of them all."""
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
    """The comparable parts of a call: its result, numbers included, and the tensors it may have changed.

    `result` is a pair of what it returned and of its arguments, into which it may have put something.
    """
    rows: list[tuple[str, torch.Tensor]] = []
    for path, leaf in containers.leaves(result):
        if isinstance(leaf, (torch.Tensor, bool, int, float)):
            told = f"result{path[3:]}" if path.startswith("[0]") else f"inputs{path[6:]}"
            rows.append((told, leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)))
    return [(name, tensor.detach().clone(), to_type(tensor)) for name, tensor in [*rows, *changed]]
