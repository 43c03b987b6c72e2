"""Removes gradients that AOTAutograd's function makes and PyTorch does not: zeros for missing gradients, and gradients
of gradients.

AOTAutograd treats a result without a gradient like a result whose gradient is zero. A parameter that only this result
needs would then have a gradient of zeros, by which momentum and weight decay change it; in PyTorch it has none.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import fx

from workbench.capturing.step_parts import nodes_behind
from workbench.ground.errors import NoGradients
from workbench.ground.torch_inside.module_inside import TENSOR_HOOKS

Needs = tuple[frozenset[int], ...]
"""For each gradient that a backward graph makes, the results of the forward graph whose gradients it is made of."""


def needs_of(forward: fx.GraphModule, backward: fx.GraphModule) -> Needs:
    """Returns, for each gradient of the backward graph, the results whose gradients it is made of. A gradient made of
    none of them, such as the zeros of `sgn`, gets the results that its input leads to."""
    made = cast("Sequence[object]", backward.graph.output_node().args[0])
    described = cast("Sequence[object]", backward.graph.output_node().meta["desc"])
    places = {of: place for place, of in enumerate(forward.graph.output_node().meta["desc"])}
    of_results = {
        node: frozenset({places[of]}) if of is not None else _NONE
        for node in backward.graph.find_nodes(op="placeholder")
        for of in [getattr(node.meta.get("desc"), "output", None)]
    }
    reached, leads_to = _reached(backward, of_results), _leads_to(forward)
    return tuple(
        (reached[each] or leads_to.get(getattr(of, "grad_of", None), _NONE)) if isinstance(each, fx.Node) else _NONE
        for each, of in zip(made, described, strict=True)
    )


_NONE = frozenset[int]()


def _reached(graph: fx.GraphModule, own: Mapping[fx.Node, frozenset[int]]) -> dict[fx.Node, frozenset[int]]:
    """Returns for each node the union of `own` over all nodes from which the node is computed."""
    found: dict[fx.Node, frozenset[int]] = {}
    for node in graph.graph.nodes:
        found[node] = own.get(node, _NONE).union(*(found[each] for each in node.all_input_nodes))
    return found


def _leads_to(forward: fx.GraphModule) -> dict[object, frozenset[int]]:
    """For each input's description the places of the results that are made of the input."""
    inputs = forward.graph.find_nodes(op="placeholder")
    reached = _reached(forward, {node: frozenset({place}) for place, node in enumerate(inputs)})
    results = cast("Sequence[object]", forward.graph.output_node().args[0])
    made_of = [reached[each] if isinstance(each, fx.Node) else _NONE for each in results]
    return {
        node.meta.get("desc"): frozenset(result for result, of in enumerate(made_of) if place in of)
        for place, node in enumerate(inputs)
    }


def watch_backward(
    results: Sequence[object], given: Sequence[torch.Tensor], before: Sequence[object], needs: Callable[[], Needs]
) -> None:
    """Corrects the gradients that a call's backward pass makes; `needs` is asked when that pass has run, since its
    graph is known only then. `before` are the autograd nodes of the tensors that the call was given."""
    # AOTAutograd's function in autograd's graph: nodes of views may lead from it to the results. A result may be a view
    # of what was given, which another compiled graph may have made.
    nodes = (each for each in nodes_behind(results, before) if each.name() == "CompiledFunctionBackward")
    if (node := next(nodes, None)) is None:
        return
    seen = [weakref.ref(each) for each in given if not each.is_leaf]

    def corrected(made: Sequence[torch.Tensor | None], incoming: Sequence[torch.Tensor | None]) -> tuple[Any, ...]:
        known = {place for place, each in enumerate(incoming) if each is not None}
        kept = [
            each if need & known or _has_hooks(edge, seen) else None
            for each, need, edge in zip(made, needs(), node.next_functions, strict=True)
        ]
        once = cast(Any, _Once).apply
        return tuple(once(each) if each is not None and each.requires_grad else each for each in kept)

    node.register_hook(corrected)


def _has_hooks(edge: tuple[Any, int], given: Sequence[weakref.ref[torch.Tensor]]) -> bool:
    """True if hooks wait for the gradient that goes this way: autograd would call these hooks with None. They get
    zeros, as from PyTorch's own compilers."""
    function, place = edge
    variable = getattr(function, "variable", None)  # of a leaf
    if variable is not None:
        return any(getattr(variable, name) for name in TENSOR_HOOKS)
    of_gradient, _ = TENSOR_HOOKS
    there = (tensor for each in given if (tensor := each()) is not None and getattr(tensor, of_gradient))
    return any(tensor.grad_fn is function and tensor.output_nr == place for tensor in there)


class _Once(torch.autograd.Function):
    """A gradient without a gradient of its own: a second derivative raises an error."""

    @staticmethod
    def forward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: object, *_: torch.Tensor) -> None:
        raise NoGradients(
            "gradients of gradients (second derivatives, create_graph=True)",
            "Compute them in PyTorch, or trace the whole step: wb.trace(step, ..., train=True)",
        )
