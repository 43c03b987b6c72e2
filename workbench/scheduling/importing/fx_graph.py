"""One kernel of the record as an `fx.GraphModule`, which the torch importer reads.

The graph is built from the record alone, so a kernel of a loaded file imports like a new one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from workbench.ground.torch_inside.fake_tensors import FakeTensorMode
from workbench.ir import Kernel, KernelGraph, Node, TensorType
from workbench.operators.tensors.element_types import to_dtype
from workbench.operators.tensors.torch_literals import from_arg, to_overload


def kernel_graph_module(lowered: KernelGraph, kernel: Kernel, first: int = 0) -> torch.fx.GraphModule:
    """The graph of `kernel`. The id of a node is its index in `kernel.nodes`, counted from `first`."""
    nodes = [lowered.node(name).node for name in kernel.nodes]
    return graph_module(nodes, lowered.types, kernel.inputs, kernel.outputs, kernel.name, first)


def graph_module(
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    inputs: Sequence[str],
    outputs: Sequence[str],
    name: str,
    first: int = 0,
) -> torch.fx.GraphModule:
    """The graph of these nodes: `inputs` are its placeholders, `outputs` its output tuple, both in ABI order.

    Each node's `stack_trace` names the file `aten:<id>`, where `id` is the node's index, counted from `first`. The
    importer makes a location from that file, by which an op of the imported module can be traced back to its node.
    """
    graph = torch.fx.Graph()
    values: dict[str, torch.fx.Node] = {}
    with FakeTensorMode():
        for index, value in enumerate(inputs):
            values[value] = graph.placeholder(f"in{index}")
            values[value].meta["val"] = _fake(types[value])
        for index, node in enumerate(nodes, first):
            _add(graph, node, index, values, types)
    graph.output(tuple(values[value] for value in outputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph, class_name=name)


def _add(
    graph: torch.fx.Graph, node: Node, index: int, values: dict[str, torch.fx.Node], types: Mapping[str, TensorType]
) -> None:
    args = tuple(from_arg(arg, values.__getitem__) for arg in node.args)
    kwargs = {name: from_arg(arg, values.__getitem__) for name, arg in node.kwargs.items()}
    made = graph.call_function(to_overload(node.op), cast("tuple[Any, ...]", args), cast("dict[str, Any]", kwargs))
    made.meta["stack_trace"] = f'File "aten:{index}", line 1, in k'
    fakes = [_fake(types[value]) for value in node.results]
    made.meta["val"] = fakes[0] if len(fakes) == 1 else tuple(fakes)
    if len(fakes) == 1:
        values[node.results[0]] = made
        return
    for place, (value, fake) in enumerate(zip(node.results, fakes, strict=True)):
        picked = graph.call_function(operator.getitem, (made, place))
        picked.meta["val"], picked.meta["stack_trace"] = fake, made.meta["stack_trace"]
        values[value] = picked


def _fake(type_: TensorType) -> torch.Tensor:
    return torch.empty(type_.shape, dtype=to_dtype(type_.dtype))
