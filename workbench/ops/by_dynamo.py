"""Capture through Dynamo, which reads the function's bytecode: closures and data structures are understood."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any, cast

import torch
import torch._dynamo as dynamo
from torch.export.graph_signature import InputKind

from workbench import errors
from workbench.ops.blame import user_errors
from workbench.ops.calls import Target
from workbench.ops.capturing import Capturing, no_tensor_work, record_of, refuse_replaced
from workbench.ops.functional import functional
from workbench.ops.places import place_text
from workbench.ops.record import Recorded


def by_dynamo(trace: Capturing) -> Recorded:
    graphs: list[tuple[torch.fx.GraphModule, tuple[torch.Tensor, ...], list[torch.Tensor]]] = []

    def keep(gm: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
        fakes = cast("list[torch.fx.Node]", gm.graph.output_node().args[0])

        def run(*given: torch.Tensor) -> list[torch.Tensor]:
            """Stands in for the graph: results without data, which show where each ends up in what is returned."""
            _refuse_numbers(trace.name, gm)
            _refuse_gradients(trace.name, gm)
            results = [_stand_in(node.meta["example_value"]) for node in fakes]
            graphs.append((gm, given, results))
            return results

        return run

    # Dynamo keeps what it compiled by code object and stops after a few; a fresh one makes each trace the first.
    fresh = types.FunctionType(_call.__code__.replace(), _call.__globals__, _call.__name__)
    static = cast(Any, dynamo.config).patch(automatic_dynamic_shapes=False, specialize_float=True)
    with static, user_errors(trace.name):
        compiled = cast("Target", cast(Any, torch).compile(fresh, backend=keep, fullgraph=True, dynamic=False))
        returned = compiled(trace.target, trace.inputs, trace.kwargs)
    refuse_replaced(trace)
    if not graphs:
        raise no_tensor_work(trace.name)
    gm, given, results = graphs[0]
    with user_errors(trace.name):
        exported = torch.export.export(gm, given, strict=False)
        program = functional(trace.name, exported)
    tree, found = trace.flatten(returned)
    by_id = {id(result): number for number, result in enumerate(results)}
    leaves = [by_id[id(tensor)] if id(tensor) in by_id else trace.slot_of(tensor, path) for path, tensor in found]
    users = iter(given)
    tensors = {
        spec.arg.name: next(users) if spec.kind is InputKind.USER_INPUT else program.constants[str(spec.target)]
        for spec in program.graph_signature.input_specs
    }
    return record_of(trace, exported, program, "dynamo", cast("dict[str, torch.Tensor]", tensors), leaves, tree)


def _call(target: Target, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    return target(*args, **kwargs)


def _stand_in(fake: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")


def _refuse_numbers(name: str, gm: torch.fx.GraphModule) -> None:
    """Numbers that only the data decides: there is none in a stand-in."""
    for node in gm.graph.nodes:
        if node.op == "call_method" and node.target == "item":
            place = place_text(node.meta.get("stack_trace"))
            raise errors.GraphBreak(name, f"{node.name} is a number that depends on the data", place)


def _refuse_gradients(name: str, gm: torch.fx.GraphModule) -> None:
    """`torch.func.grad` and its like, which Dynamo takes into the graph."""
    nodes = itertools.dropwhile(lambda node: node.name != "_grad_increment_nesting", gm.graph.nodes)
    places = [place_text(node.meta.get("stack_trace")) for node in nodes]
    if places:
        raise errors.GradientsInside(name, "torch.func.grad", next(filter(None, places), ""))
