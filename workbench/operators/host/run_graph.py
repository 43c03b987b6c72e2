"""Runs a record with PyTorch, for `check(stage="captured")` and for nodes on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from workbench.ground.errors import ExecutorFailed, ExecutorResult, WorkbenchError
from workbench.ir import AtenGraph, Node
from workbench.operators.aten.overload_schema import inputs_and_attributes
from workbench.operators.aten.registry import Registration, Registrations
from workbench.operators.aten.run_node import call

NO_REGISTRATIONS = Registrations()


class InputCountMismatch(WorkbenchError):
    """A record was given fewer or more tensors than it has inputs."""


@dataclass(frozen=True)
class Executed:
    """The result of running a record: its output leaves, and the contents of its mutated inputs afterwards."""

    outputs: list[torch.Tensor]
    mutated: dict[str, torch.Tensor]
    """Input value -> its contents after the call. The inputs themselves stay unchanged."""


def run_nodes(
    nodes: Iterable[Node], values: dict[str, torch.Tensor], registrations: Registrations = NO_REGISTRATIONS
) -> dict[str, torch.Tensor]:
    """`values` with the results of `nodes` added, computed in order.

    A node is computed by its overload's registered executor if there is one, else by the overload itself.
    """
    known = dict(values)
    with torch.no_grad():
        for node in nodes:
            executor = registrations.find(node.op, "executor")
            result = _by_executor(node, executor, known) if executor else call(node, known.__getitem__)
            known.update(zip(node.results, result, strict=True))
    return known


def executor_text(node: Node, executor: Registration) -> str:
    """Names a node's executor for messages, with the places of the executor and of the call."""
    return f"the executor of {node.op} at {executor.owner.place}, for {node.name} at {node.origin.place},"


def _by_executor(node: Node, executor: Registration, known: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """A node's results from its registered executor, which returns a list with one tensor for each result."""
    inputs, attributes = inputs_and_attributes(node, known.__getitem__)
    who = executor_text(node, executor)
    try:
        result = executor.value(inputs, attributes)
    except (Exception, SystemExit) as error:  # an error of the executor's own code
        raise ExecutorFailed(f"{who} raised {type(error).__name__}: {error}") from error
    if not isinstance(result, (list, tuple)):
        raise ExecutorResult(f"{who} returned {type(result).__name__}; expected a list of tensors, one for each result")
    found = list(cast("list[object]", result))
    if len(found) != len(node.results) or not all(isinstance(item, torch.Tensor) for item in found):
        raise ExecutorResult(
            f"{who} returned a list of {', '.join(type(item).__name__ for item in found) or 'nothing'}; expected "
            f"{len(node.results)} tensor(s), one for each result"
        )
    return cast("list[torch.Tensor]", found)


def execute(
    graph: AtenGraph, values: Sequence[torch.Tensor], registrations: Registrations = NO_REGISTRATIONS
) -> Executed:
    """Runs the whole record on `values`, one tensor for each of `graph.inputs`."""
    if len(values) != len(graph.inputs):
        names = ", ".join(given.path for given in graph.inputs)
        raise InputCountMismatch(f"{graph.name} takes {len(graph.inputs)} tensors ({names}), {len(values)} were given")
    given = {slot.value: value for slot, value in zip(graph.inputs, values, strict=True)}
    known = run_nodes(graph.nodes, given, registrations)
    return Executed([known[name] for name in graph.outputs], {m.target: known[m.value] for m in graph.mutations})


def execute_in_place(
    graph: AtenGraph, values: Sequence[torch.Tensor], registrations: Registrations = NO_REGISTRATIONS
) -> list[torch.Tensor]:
    """Runs the whole record, writes its changes into the inputs, and returns the output leaves."""
    result = execute(graph, values, registrations)
    given = {slot.value: value for slot, value in zip(graph.inputs, values, strict=True)}
    for name, value in result.mutated.items():
        given[name].copy_(value)
    return result.outputs
