"""Specialises a graph that Dynamo made to one call: fixes its numbers, and finds out if autograd is concerned.

Dynamo passes numbers beside the tensors: sizes that it keeps symbolic, and floats as tensors that the graph reads at
its beginning. A record has neither, so the graph is specialised to the numbers of a call. The same run on stand-ins
without data shows whether a result requires gradients, and whether a change in place makes an input part of autograd's
graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx

from workbench.ground import errors
from workbench.ground.torch_inside.fake_tensors import FakeTensorMode
from workbench.operators.tensors.tensor_memory import span

_NUMBERS = (bool, int, float, torch.Size)


@dataclass(frozen=True)
class Specialised:
    """A graph from tensors to tensors, for one kind of call of Dynamo's graph."""

    module: fx.GraphModule
    results: tuple[int | Number, ...]
    """The results of Dynamo's graph: the place of a tensor among `module`'s results, or a number itself."""
    gradients: bool
    """True if PyTorch's result requires gradients, or if a change in place makes an input part of autograd's graph."""

    def whole(self, tensors: Sequence[torch.Tensor]) -> list[object]:
        """Returns all results of Dynamo's graph; `tensors` are the results of `module`."""
        return [each.value if isinstance(each, Number) else tensors[each] for each in self.results]


@dataclass(frozen=True)
class Number:
    """A result that is no tensor: a size, a number computed from sizes, None."""

    value: object


def specialise(module: fx.GraphModule, given: Sequence[object]) -> Specialised:
    """Returns the graph for calls like this one. Raises PyTorch's error if the call depends on more than shapes and
    numbers."""
    walk = _Walk(module, given)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.inference_mode(False):
            stand_ins = [_stand_in(each) if isinstance(each, torch.Tensor) else each for each in given]
        histories = [_history(each) for each in stand_ins if isinstance(each, torch.Tensor)]
        walk.run(*stand_ins, enable_io_processing=False)
        after = [_history(each) for each in stand_ins if isinstance(each, torch.Tensor)]
    graph, results = _without_numbers(module, walk.values)
    made = [walk.values[each] for each in _results(module) if isinstance(each, fx.Node)]
    return Specialised(
        fx.GraphModule(module, graph),
        results,
        histories != after or any(each.requires_grad for each in made if isinstance(each, torch.Tensor)),
    )


def floats(module: fx.GraphModule, given: Sequence[object]) -> dict[fx.Node, float]:
    """The numbers that Dynamo passes as tensors and that the graph reads first, by the nodes that read them."""
    found: dict[fx.Node, float] = {}
    for node, value in zip(module.graph.find_nodes(op="placeholder"), given, strict=True):
        first = next(iter(node.users), None)
        if isinstance(value, torch.Tensor) and first and (first.op, first.target) == ("call_method", "item"):
            found[first] = value.item()
    return found


class _Walk(fx.Interpreter):
    """Computes the graph on stand-ins and keeps the value of every node."""

    def __init__(self, module: fx.GraphModule, given: Sequence[object]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[fx.Node, object] = {}
        self._floats = floats(module, given)

    def run_node(self, n: fx.Node) -> object:
        made = self.values[n] = self._floats[n] if n in self._floats else cast("object", super().run_node(n))
        return made

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> object:
        """Returns a stand-in for a tensor that the graph holds, such as an optimizer's: a change in place must not
        reach it."""
        held = cast("object", super().get_attr(target, args, kwargs))
        return _stand_in(held) if isinstance(held, torch.Tensor) else held


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without data that autograd treats like this one: a leaf is a leaf, and others have a history."""
    if tensor.layout is not torch.strided:
        raise errors.CaptureFailed(f"a graph takes a tensor of the layout {tensor.layout}, which is not strided")
    flat = torch.empty(span(tensor) + int(tensor.storage_offset()), dtype=tensor.dtype, device=tensor.device)
    with torch.enable_grad():
        if tensor.requires_grad and not tensor.is_leaf:
            flat.add_(torch.zeros((), dtype=tensor.dtype, requires_grad=True))
            return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).requires_grad_(tensor.requires_grad)


def _history(tensor: torch.Tensor) -> tuple[bool, object]:
    return tensor.requires_grad, tensor.grad_fn


def _results(module: fx.GraphModule) -> list[object]:
    return list(cast("Sequence[object]", module.graph.output_node().args[0]))


def _without_numbers(
    module: fx.GraphModule, values: dict[fx.Node, object]
) -> tuple[fx.Graph, tuple[int | Number, ...]]:
    """Returns the graph with every number written where it is used, and the results as in `Specialised.results`."""
    graph, made = fx.Graph(), dict[fx.Node, Any]()
    results: list[int | Number] = []
    tensors: list[fx.Node] = []
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        value = values[node]
        if isinstance(value, _NUMBERS) and node.op in ("placeholder", "call_function", "call_method"):
            made[node] = value
        else:
            made[node] = graph.node_copy(node, made.__getitem__)
    for result in _results(module):
        found = made[result] if isinstance(result, fx.Node) else result
        if isinstance(found, fx.Node) and isinstance(values[cast("fx.Node", result)], torch.Tensor):
            results.append(len(tensors))
            tensors.append(found)
        elif found is None or isinstance(found, _NUMBERS):
            results.append(Number(found))
        else:
            raise errors.CaptureFailed(
                f"a graph returns {type(found).__name__}, which is neither a tensor nor a number"
            )
    graph.output(tuple(tensors))
    return graph, tuple(results)
