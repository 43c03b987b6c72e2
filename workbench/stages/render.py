"""Rendering: every kernel of the lowered graph as verified MLIR, linalg on tensors with the kernel ABI."""

from __future__ import annotations

import json
from dataclasses import replace

from workbench.ir import Absorbed, Kernel, KernelGraph, KernelModule, LoweredNode, Ref, Sequence, codec
from workbench.ir.graph import Arg
from workbench.mlir.context import print_module
from workbench.mlir.identity import renamed
from workbench.mlir.importer import import_kernel
from workbench.mlir.origins import origins_in
from workbench.ops.fx import kernel_graph_module
from workbench.progress import counted


def render(lowered: KernelGraph) -> tuple[KernelModule, ...]:
    """One module per kernel, in launch order. The record is all it reads.

    Kernels of the same structure differ in names only, so the first of them is imported and lends its text.
    """
    nodes = {item.node.name: item for item in lowered.nodes}
    first: dict[str, KernelModule] = {}
    modules: list[KernelModule] = []
    for kernel in counted(lowered.kernels):
        structure = _structure(lowered, kernel, nodes)
        if structure not in first:
            first[structure] = _render(lowered, kernel)
        modules.append(_lent(first[structure], kernel))
    return tuple(modules)


def _structure(lowered: KernelGraph, kernel: Kernel, nodes: dict[str, LoweredNode]) -> str:
    """All that rendering a kernel reads, values numbered as they come: equal for kernels that differ in names only."""
    numbers = {value: str(number) for number, value in enumerate(kernel.inputs)}
    calls: list[object] = []
    for name in kernel.nodes:
        item = nodes[name]
        numbers |= {value: str(len(numbers) + place) for place, value in enumerate(item.node.results)}
        args = [codec.encode(_numbered(arg, numbers), tagged=True) for arg in item.node.args]
        kwargs = {
            key: codec.encode(_numbered(arg, numbers), tagged=True) for key, arg in sorted(item.node.kwargs.items())
        }
        calls.append([item.node.op, item.route, args, kwargs])
    types = [codec.encode(lowered.types[value]) for value in numbers]
    return json.dumps([calls, types, [numbers[value] for value in (*kernel.inputs, *kernel.outputs)]])


def _numbered(arg: Arg, numbers: dict[str, str]) -> Arg:
    if isinstance(arg, Ref):
        return Ref(numbers[arg.value])
    if isinstance(arg, Sequence):
        return Sequence(tuple(_numbered(item, numbers) for item in arg.items))
    return arg


def _lent(made: KernelModule, kernel: Kernel) -> KernelModule:
    """The module of a kernel of the same structure, as this kernel's own."""
    place = dict(zip(made.origins, kernel.nodes, strict=True))
    return replace(
        made,
        kernel=kernel.name,
        mlir=renamed(made.mlir, made.kernel, kernel.name),
        located=renamed(made.located, made.kernel, kernel.name),
        origins=kernel.nodes,
        absorbed=tuple(Absorbed(place[gone.node], gone.reason) for gone in made.absorbed),
    )


def _render(lowered: KernelGraph, kernel: Kernel) -> KernelModule:
    arguments = tuple(lowered.types[value] for value in (*kernel.inputs, *kernel.outputs))
    module = import_kernel(kernel_graph_module(lowered, kernel), kernel.name, arguments)
    located = print_module(module, locations=True)
    present = origins_in(module)
    absorbed = tuple(
        Absorbed(name, f"the importer folded it into the ops around it ({lowered.node(name).node.op})")
        for number, name in enumerate(kernel.nodes)
        if number not in present
    )
    return KernelModule(kernel.name, print_module(module), located, arguments, kernel.nodes, absorbed)
