"""What AOTAutograd's function makes of gradients that are not PyTorch's: none where none is given, and second ones.

It takes a result without a gradient for one whose gradient is zero. Then a parameter that only this result needs would
have a gradient of zeros, which momentum and weight decay go by, where PyTorch's has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import fx

from workbench.errors import NoGradients

Needs = tuple[frozenset[int], ...]
"""For each gradient that a backward graph makes, the results of the forward graph whose gradients it is made of."""


def needs_of(forward: fx.GraphModule, backward: fx.GraphModule) -> Needs:
    places = {of: place for place, of in enumerate(forward.graph.output_node().meta["desc"])}
    reached: dict[fx.Node, frozenset[int]] = {}
    for node in backward.graph.nodes:
        of = getattr(node.meta.get("desc"), "output", None) if node.op == "placeholder" else None
        own: frozenset[int] = frozenset() if of is None else frozenset({places[of]})
        reached[node] = own.union(*(reached[each] for each in node.all_input_nodes))
    made = cast("Sequence[object]", backward.graph.output_node().args[0])
    return tuple(reached[each] if isinstance(each, fx.Node) else frozenset() for each in made)


def watch_backward(results: Sequence[object], before: Sequence[object], needs: Callable[[], Needs]) -> None:
    """Corrects the gradients that a call's backward pass will make; its graph is known when it has run. `before` are
    the nodes that the call was given."""
    if (node := _function_of(results, before)) is None:
        return

    def corrected(made: Sequence[torch.Tensor | None], given: Sequence[torch.Tensor | None]) -> tuple[Any, ...]:
        known = {place for place, each in enumerate(given) if each is not None}
        kept = [each if need & known else None for each, need in zip(made, needs(), strict=True)]
        return tuple(_once(each) if each is not None and each.requires_grad else each for each in kept)

    node.register_hook(corrected)


def _function_of(results: Sequence[object], before: Sequence[object]) -> Any:
    """The node of AOTAutograd's function in autograd's graph, from which nodes of views may lead to the results."""
    return next((node for node in _nodes(results, before) if node.name() == "CompiledFunctionBackward"), None)


def _nodes(results: Sequence[object], before: Sequence[object]) -> Iterator[Any]:
    """The nodes that lie between the results and those of before: a result may be a view of what was given, which
    another compiled graph may have made."""
    seen = {id(node) for node in before}
    left: list[Any] = [each.grad_fn for each in results if isinstance(each, torch.Tensor)]
    while left:
        node = left.pop(0)
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            yield node
            left += [each for each, _ in node.next_functions]


class _Once(torch.autograd.Function):
    """A gradient that has no gradient itself."""

    @staticmethod
    def forward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: object, *_: torch.Tensor) -> None:
        raise NoGradients(
            "gradients (second derivatives, create_graph=True)",
            "Compute them in PyTorch, or trace the whole step: wb.trace(step, ..., train=True)",
        )


def _once(gradient: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, cast(Any, _Once).apply(gradient))
