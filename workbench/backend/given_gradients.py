"""Gradients that AOTAutograd's function makes and PyTorch does not: zeros where none is given, and second ones.

It takes a result without a gradient for one whose gradient is zero. Then a parameter that only this result needs would
have a gradient of zeros, which momentum and weight decay go by, where PyTorch's has none.
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
    """A gradient that is the same for all of a result's gradients, such as the zeros of `sgn`, is made of those of the
    results that the input leads to."""
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
    """Returns, for each node, the union of `own` over all nodes that it is made of."""
    found: dict[fx.Node, frozenset[int]] = {}
    for node in graph.graph.nodes:
        found[node] = own.get(node, _NONE).union(*(found[each] for each in node.all_input_nodes))
    return found


def _leads_to(forward: fx.GraphModule) -> dict[object, frozenset[int]]:
    """Description of an input -> the places of the results that are made of it."""
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
    """Corrects the gradients that a call's backward pass will make; its graph is known when it has run. `before` are
    the nodes that the call was given with its tensors."""
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
    """True if hooks wait for the gradient that goes this way: autograd would call them with None. They get zeros, as
    from PyTorch's own compilers."""
    function, place = edge
    variable = getattr(function, "variable", None)  # of a leaf
    if variable is not None:
        return any(getattr(variable, name) for name in TENSOR_HOOKS)
    of_gradient, _ = TENSOR_HOOKS
    there = (tensor for each in given if (tensor := each()) is not None and getattr(tensor, of_gradient))
    return any(tensor.grad_fn is function and tensor.output_nr == place for tensor in there)


class _Once(torch.autograd.Function):
    """A gradient that has no gradient itself."""

    @staticmethod
    def forward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: object, *_: torch.Tensor) -> None:
        raise NoGradients(
            "gradients of gradients (second derivatives, create_graph=True)",
            "Compute them in PyTorch, or trace the whole step: wb.trace(step, ..., train=True)",
        )
