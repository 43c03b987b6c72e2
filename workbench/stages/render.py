"""Rendering: every kernel of the lowered graph as verified MLIR, linalg on tensors with the kernel ABI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from workbench.errors import RegistrationGone
from workbench.ir import HOST, Absorbed, Kernel, KernelGraph, KernelModule, LoweredNode, Ref, Sequence, codec
from workbench.ir.graph import Arg
from workbench.mlir.building import Build
from workbench.mlir.context import print_module
from workbench.mlir.identity import renamed
from workbench.mlir.importer import Imported, Part, assemble_kernel, import_kernel
from workbench.mlir.origins import origins_in
from workbench.ops.fx import kernel_graph_module
from workbench.ops.registry import DEFAULT, Registrations
from workbench.ops.schema import arguments, tensor_arguments
from workbench.progress import counted


def render(lowered: KernelGraph, registrations: Registrations | None = None) -> tuple[KernelModule, ...]:
    """One module per kernel, in launch order; steps on the host have none.

    The record is all it reads, beside the registered builders for nodes on that route. Kernels of the same structure
    differ in names only, so the first of them is imported and lends its text.
    """
    known = registrations if registrations is not None else DEFAULT.now()
    nodes = {item.node.name: item for item in lowered.nodes}
    first: dict[str, KernelModule] = {}
    modules: list[KernelModule] = []
    for kernel in counted([kernel for kernel in lowered.kernels if kernel.kind != HOST]):
        structure = _structure(lowered, kernel, nodes)
        if structure not in first:
            first[structure] = _render(lowered, kernel, known)
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
        whole = _whole_results(lowered, item)
        calls.append([item.node.op, item.route, item.dialect, whole.index(item.node.results[0]), args, kwargs])
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


def _render(lowered: KernelGraph, kernel: Kernel, registrations: Registrations) -> KernelModule:
    arguments = tuple(lowered.types[value] for value in (*kernel.inputs, *kernel.outputs))
    if any(lowered.node(name).route == "builder" for name in kernel.nodes):
        inputs = {value: lowered.types[value] for value in kernel.inputs}
        outputs = {value: lowered.types[value] for value in kernel.outputs}
        places = enumerate(kernel.nodes)
        makers = {value: number for number, name in places for value in lowered.node(name).node.results}
        parts = list(_parts(lowered, kernel, registrations))
        module = assemble_kernel(kernel.name, inputs, outputs, parts, makers)
    else:
        module = import_kernel(kernel_graph_module(lowered, kernel), kernel.name, arguments)
    located = print_module(module, locations=True)
    present = origins_in(module)
    absorbed = tuple(
        Absorbed(name, f"the importer folded it into the ops around it ({lowered.node(name).node.op})")
        for number, name in enumerate(kernel.nodes)
        if number not in present
    )
    return KernelModule(kernel.name, print_module(module), located, arguments, kernel.nodes, absorbed)


def _parts(lowered: KernelGraph, kernel: Kernel, registrations: Registrations) -> Iterator[Part]:
    """The kernel in order: each node that a builder makes, and the runs of nodes between them, imported together."""
    nodes = [lowered.node(name) for name in kernel.nodes]
    start = 0
    while start < len(nodes):
        end = start + 1
        if nodes[start].route == "builder":
            yield _built(lowered, nodes[start], start, registrations)
        else:
            while end < len(nodes) and nodes[end].route != "builder":
                end += 1
            yield _imported(lowered, kernel, nodes, start, end)
        start = end


def _imported(lowered: KernelGraph, kernel: Kernel, nodes: list[LoweredNode], start: int, end: int) -> Imported:
    """Nodes `start` to `end` as a graph of their own."""
    here = [item.node for item in nodes[start:end]]
    made = [value for node in here for value in node.results]
    later = {value for item in nodes[end:] for value in item.node.operands} | set(kernel.outputs)
    inputs = tuple(dict.fromkeys(value for node in here for value in node.operands if value not in made))
    outputs = tuple(value for value in made if value in later)
    part = replace(kernel, nodes=tuple(node.name for node in here), inputs=inputs, outputs=outputs)
    return Imported(kernel_graph_module(lowered, part, first=start), inputs, outputs)


def _built(lowered: KernelGraph, item: LoweredNode, origin: int, registrations: Registrations) -> Build:
    node = item.node
    found = registrations.find(node.op, "builder", item.dialect)
    if found is None or found.dialect != item.dialect:
        raise RegistrationGone(
            f"{node.name} was lowered for a builder of {node.op} in {item.dialect!r}, and none is registered now. "
            f"Register it again, or lower again"
        )
    return Build(
        node=node.name,
        overload=node.op,
        place=node.origin.place,
        owner=found.owner.place,
        builder=found.value,
        arguments=arguments(node),
        tensors=tensor_arguments(node.op),
        types=lowered.types,
        results=_whole_results(lowered, item),
        wanted=node.results[0],
        origin=origin,
    )


def _whole_results(lowered: KernelGraph, item: LoweredNode) -> tuple[str, ...]:
    """All results of the captured node that a lowered node makes one of; its own when that is all."""
    captured = next((node for node in lowered.captured.nodes if node.name == item.parent), item.node)
    return captured.results if set(item.node.results) < set(captured.results) else item.node.results
