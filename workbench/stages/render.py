"""Rendering: every kernel of the lowered graph as verified MLIR, linalg on tensors with the kernel ABI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from workbench.errors import RegistrationGone
from workbench.ir import HOST, Absorbed, Kernel, KernelGraph, KernelModule, LoweredNode
from workbench.mlir.building import Build
from workbench.mlir.context import print_module
from workbench.mlir.importer import Imported, Part, assemble_kernel, import_kernel
from workbench.mlir.origins import origins_in
from workbench.ops.fx import kernel_graph_module
from workbench.ops.registry import DEFAULT, Registrations
from workbench.ops.schema import arguments, tensor_arguments
from workbench.progress import counted


def render(lowered: KernelGraph, registrations: Registrations | None = None) -> tuple[KernelModule, ...]:
    """One module per kernel, in launch order; steps on the host have none.

    It reads nothing but the record and, for nodes on the builder route, the registered builders.
    """
    known = registrations if registrations is not None else DEFAULT.now()
    kernels = [kernel for kernel in lowered.kernels if kernel.kind != HOST]
    return tuple(_render(lowered, kernel, known) for kernel in counted(kernels))


def _render(lowered: KernelGraph, kernel: Kernel, registrations: Registrations) -> KernelModule:
    arguments = tuple(lowered.types[value] for value in (*kernel.inputs, *kernel.outputs))
    if any(lowered.node(name).route == "builder" for name in kernel.nodes):
        inputs = {value: lowered.types[value] for value in kernel.inputs}
        outputs = {value: lowered.types[value] for value in kernel.outputs}
        module = assemble_kernel(kernel.name, inputs, outputs, list(_parts(lowered, kernel, registrations)))
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


def _imported(lowered: KernelGraph, kernel: Kernel, nodes: Sequence[LoweredNode], start: int, end: int) -> Imported:
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
    captured = {each.name: each for each in lowered.captured.nodes}.get(item.parent)
    whole = captured if captured is not None and captured.op == node.op else node
    return Build(
        node=node.name,
        overload=node.op,
        place=node.origin.place,
        owner=found.owner.place,
        builder=found.value,
        arguments=arguments(node),
        tensors=tensor_arguments(node.op),
        types=lowered.types,
        results=whole.results if set(node.results) <= set(whole.results) else node.results,
        wanted=node.results[0],
        origin=origin,
    )
