"""Runs a record with PyTorch: what `check(stage="captured")` compares, and what later runs nodes on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from workbench.errors import WorkbenchError
from workbench.ir import AtenGraph, Node
from workbench.ops.literals import call


class InputCountMismatch(WorkbenchError):
    """A record was given fewer or more tensors than it has inputs."""


@dataclass(frozen=True)
class Executed:
    """What running a record gave: its output leaves, and what its mutated inputs hold afterwards."""

    outputs: list[torch.Tensor]
    mutated: dict[str, torch.Tensor]
    """Input value -> what it holds after the call. The inputs themselves are left as they were."""


def run_nodes(nodes: Iterable[Node], values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`values` with the results of `nodes` added, computed in order by the overloads their names say."""
    known = dict(values)
    with torch.no_grad():
        for node in nodes:
            known.update(zip(node.results, call(node, known.__getitem__), strict=True))
    return known


def execute(graph: AtenGraph, values: Sequence[torch.Tensor]) -> Executed:
    """Runs the whole record on `values`, one tensor for each of `graph.inputs`."""
    if len(values) != len(graph.inputs):
        names = ", ".join(given.path for given in graph.inputs)
        raise InputCountMismatch(f"{graph.name} takes {len(graph.inputs)} tensors ({names}), {len(values)} were given")
    given = {slot.value: value for slot, value in zip(graph.inputs, values, strict=True)}
    known = run_nodes(graph.nodes, given)
    return Executed([known[name] for name in graph.outputs], {m.target: known[m.value] for m in graph.mutations})
