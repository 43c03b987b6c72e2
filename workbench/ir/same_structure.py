"""Kernels that differ only in names: the text of the first is copied to the others."""

from __future__ import annotations

import json
from dataclasses import replace

from workbench.ir import Absorbed, Kernel, KernelGraph, KernelModule, LoweredNode, codec
from workbench.ir.kernel_identity import renamed
from workbench.ir.rewrites import last_graph
from workbench.ir.value_names import with_names


def structure(lowered: KernelGraph, kernel: Kernel, nodes: dict[str, LoweredNode]) -> str:
    """All data from which a kernel is rendered, with numbered values: equal for kernels that differ only in names."""
    numbers = {value: str(number) for number, value in enumerate(kernel.inputs)}
    calls: list[object] = []
    for name in kernel.nodes:
        item = nodes[name]
        numbers |= {value: str(len(numbers) + place) for place, value in enumerate(item.node.results)}
        args = [codec.encode(with_names(arg, numbers), tagged=True) for arg in item.node.args]
        kwargs = {
            key: codec.encode(with_names(arg, numbers), tagged=True) for key, arg in sorted(item.node.kwargs.items())
        }
        whole = whole_results(lowered, item)
        calls.append([item.node.op, item.route, item.dialect, whole.index(item.node.results[0]), args, kwargs])
    types = [codec.encode(lowered.types[value]) for value in numbers]
    return json.dumps([calls, types, [numbers[value] for value in (*kernel.inputs, *kernel.outputs)]])


def lent(made: KernelModule, kernel: Kernel) -> KernelModule:
    """Returns the module of a kernel of the same structure as this kernel's own module."""
    place = dict(zip(made.origins, kernel.nodes, strict=True))
    return replace(
        made,
        kernel=kernel.name,
        mlir=renamed(made.mlir, made.kernel, kernel.name),
        located=renamed(made.located, made.kernel, kernel.name),
        origins=kernel.nodes,
        absorbed=tuple(Absorbed(place[gone.node], gone.reason) for gone in made.absorbed),
    )


def whole_results(lowered: KernelGraph, item: LoweredNode) -> tuple[str, ...]:
    """All results of the node of which a lowered node makes only a part; its own results if it makes all."""
    own = set(item.node.results)
    for node in last_graph(lowered.rewrites, lowered.captured).nodes:
        if node.op == item.node.op and len(node.results) > len(own) and own < set(node.results):
            return node.results
    return item.node.results
