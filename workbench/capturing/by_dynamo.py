"""Capture through Dynamo, which reads the function's bytecode: closures and data structures are understood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from workbench.capturing.blame import exports_errors, user_errors
from workbench.capturing.capture_state import Capturing, given_tensors, no_tensor_work, record_of, refuse_replaced
from workbench.capturing.functional_graph import (
    autocast_is_left,
    functional,
    in_atens_words,
    refuse_gradients,
    unwrapped,
)
from workbench.capturing.kept_graphs import kept_graph
from workbench.capturing.read_conditions import Facts, Guards, Reading, calls_of
from workbench.capturing.record_nodes import Recorded, Slot
from workbench.capturing.user_call import Target, call_target, fresh
from workbench.ground import errors
from workbench.ground.environment.call_sites import place_text
from workbench.ground.torch_inside import pytrees as pytree
from workbench.ground.torch_inside.dynamo_once import no_other_compiler, static_graphs, unmeasured_guards
from workbench.ground.torch_inside.tensor_inside import memory_of
from workbench.ground.torch_inside.torch_export import export
from workbench.operators.tensors.tensor_memory import is_lazy, plain, refuse_unreadable


def read_by_dynamo(trace: Capturing) -> Reading:
    """Lets Dynamo read the function and make its one graph. Reads the function a second time, with aliases of its
    results in the graph, if views of inputs were made outside the graph."""
    reading = _read(trace, call_target)
    if not _views_outside(trace, reading.found):
        return reading
    reading = _read(trace, _call_and_alias)
    if outside := _views_outside(trace, reading.found):
        raise errors.CaptureFailed(
            f"{trace.name} returns a view of an input at result{', result'.join(outside)}, in a container of a "
            "class that a graph cannot hold. Return it in a tuple, list or dict, or give capture='export'"
        )
    return reading


def _read(trace: Capturing, through: Target) -> Reading:
    """Reads the function once, with new containers for its arguments. Returns its graph, and its results together with
    the tensors that it left in these containers."""
    graphs: list[tuple[torch.fx.GraphModule, tuple[torch.Tensor, ...], list[torch.Tensor]]] = []
    runs: list[Callable[..., list[torch.Tensor]]] = []

    def keep(gm: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
        unwrapped(gm)
        fakes = cast("list[torch.fx.Node]", gm.graph.output_node().args[0])

        def run(*given: torch.Tensor) -> list[torch.Tensor]:
            """Runs in place of the graph. Returns tensors without data, which `_leaves` finds again among the returned
            values."""
            _refuse_numbers(trace.name, gm)
            refuse_gradients(trace.name, gm)
            for node in fakes:
                refuse_unreadable(node.meta["example_value"], f"{node.name}, a result", trace.name)
            results = [_given_back(node, gm, given) for node in fakes]
            graphs.append((gm, given, results))
            return results

        runs.append(run)
        return lambda *given: runs[0](*given)  # Dynamo keeps this lambda with its guards: it must not hold the graph

    function = fresh(through)
    with static_graphs(**_HOOKS), unmeasured_guards(), no_other_compiler(), user_errors(trace.name):
        compiled = cast("Target", cast(Any, torch).compile(function, backend=keep, fullgraph=True, dynamic=False))
        args, kwargs = trace.arguments([slot.tensor for slot in trace.user])
        given = trace.given(args, kwargs)
        returned = compiled(trace.target, args, kwargs)
    runs.clear()
    refuse_replaced(trace)
    tree, found = trace.flatten(returned, given)
    if not graphs:
        raise no_tensor_work(trace.name, [*trace.user, *trace.held.tensors.values()])
    return Reading(*graphs[0], tree, found, Guards(function))


_HOOKS = {"skip_nnmodule_hook_guards": False}
"""The setting with which Dynamo adds guards for the hooks of modules."""


def facts_of_reading(trace: Capturing, reading: Reading) -> Facts:
    """Returns the facts in which two readings with different graphs differ."""
    slots = [trace.slot_of(tensor, "a constant") for tensor in reading.given]
    leaves: list[object] = [
        [each.kind, each.path] if isinstance(each, Slot) else each for each in _leaves(trace, reading)
    ]
    return [calls_of(reading.graph), [[each.kind, each.path] for each in slots], leaves, reading.tree]


def _leaves(trace: Capturing, reading: Reading) -> list[int | Slot]:
    """For each returned tensor: the number of the graph's result that it is, or its origin if it is not such a
    result."""
    by_id = {id(result): number for number, result in enumerate(reading.results)}
    return [by_id[id(tensor)] if id(tensor) in by_id else trace.slot_of(tensor, path) for path, tensor in reading.found]


def by_dynamo(trace: Capturing, reading: Reading) -> Recorded:
    """Returns the record of the graph that Dynamo made."""
    gm, given, tree = reading.graph, reading.given, reading.tree
    for tensor in given:
        trace.slot_of(tensor, "a tensor it holds")  # refuses a tensor that no graph can hold
    leaves = _leaves(trace, reading)
    kept = kept_graph(trace, gm, given, leaves, tree)
    if kept and (recorded := kept.get()):
        return recorded
    with exports_errors(trace.name), user_errors(trace.name), autocast_is_left():
        as_in_memory = tuple(plain(each) if is_lazy(each) else each for each in given)
        exported = export(in_atens_words(gm), as_in_memory)
        program = functional(trace.name, exported)
    recorded = record_of(trace, exported, program, "dynamo", given_tensors(program, gm, given), tree, leaves)
    if kept:
        kept.put(recorded)
    return recorded


def _call_and_alias(target: Target, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Calls the function and aliases its results in the graph. Dynamo would leave some of them to Python, such as
    `z.real` of an input."""
    return pytree.tree_map_only(torch.Tensor, torch.ops.aten.alias.default, target(*args, **kwargs))


def _views_outside(trace: Capturing, found: Sequence[tuple[str, torch.Tensor]]) -> list[str]:
    """Returns the paths of results that are views of inputs or held tensors but were made outside the graph: they would
    keep the data of the trace."""
    given = {memory_of(slot.tensor) for slot in trace.user if not slot.tensor.is_meta}
    given |= {memory_of(held.tensor) for held in trace.held.tensors.values() if not held.tensor.is_meta}
    return [
        path
        for path, tensor in found
        if not tensor.is_meta and memory_of(tensor) in given and trace.slot_of(tensor, "").kind == "constant"
    ]


def _given_back(node: torch.fx.Node, gm: torch.fx.GraphModule, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The given tensor if the result is that very tensor, changed in place; else a stand-in without data."""
    for placeholder, tensor in zip(gm.graph.find_nodes(op="placeholder"), given, strict=True):
        if placeholder.meta.get("example_value") is node.meta["example_value"]:
            return tensor
    fake = cast("torch.Tensor", node.meta["example_value"])
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")


def _refuse_numbers(name: str, gm: torch.fx.GraphModule) -> None:
    """Refuses numbers that depend on data, because a stand-in has no data."""
    for node in gm.graph.nodes:
        if node.op == "call_method" and node.target == "item":
            place = place_text(node.meta.get("stack_trace"))
            raise errors.GraphBreak(name, f"{node.name} is a number that depends on the data", place)
