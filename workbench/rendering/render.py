"""Rendering: every kernel of the lowered graph as verified MLIR, linalg on tensors with the kernel ABI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from workbench.ground.environment.progress import counted
from workbench.ground.errors import RegistrationGone
from workbench.ground.faults.trial import TRIALS
from workbench.ir import (
    HOST,
    Absorbed,
    Hook,
    Kernel,
    KernelGraph,
    KernelModule,
    LoweredNode,
    Node,
    TensorType,
)
from workbench.ir.same_structure import lent, structure, whole_results
from workbench.mlir.context import print_module
from workbench.mlir.location_ids import origins_in
from workbench.operators.aten.import_trial import import_trial
from workbench.operators.aten.overload_schema import arguments, tensor_arguments
from workbench.operators.aten.proven import kernel_proven
from workbench.operators.aten.registry import DEFAULT, Registrations
from workbench.rendering.module_store import ModuleStore, kept_or_made
from workbench.scheduling.importing.fx_graph import kernel_graph_module
from workbench.scheduling.importing.importer import Imported, Part, assemble_kernel, import_kernel
from workbench.scheduling.kernels.hooks import pointwise_hook
from workbench.scheduling.kernels.node_builder import Build

if TYPE_CHECKING:
    import torch


def by_structure(lowered: KernelGraph, modules: Sequence[KernelModule]) -> dict[str, KernelModule]:
    """Modules of a lowered graph, by the structure of their kernels."""
    nodes = {item.node.name: item for item in lowered.nodes}
    return {structure(lowered, lowered.kernel(module.kernel), nodes): module for module in modules}


def render(
    lowered: KernelGraph,
    registrations: Registrations | None = None,
    made: Mapping[str, KernelModule] = MappingProxyType({}),
    store: ModuleStore | None = None,
) -> tuple[KernelModule, ...]:
    """One module per kernel, in launch order; steps on the host have none. Those of templates have no text yet.

    It reads only the record and the builders. Kernels of the same structure differ only in names, so the text of the
    first is copied to the others, and that of one `made` before, by its structure, to all. One in `store` is not
    made again.
    """
    known = registrations if registrations is not None else DEFAULT.now()
    nodes = {item.node.name: item for item in lowered.nodes}
    first = dict(made)
    modules: list[KernelModule] = []
    for kernel in counted([kernel for kernel in lowered.kernels if kernel.kind != HOST]):
        alike = structure(lowered, kernel, nodes)
        if alike not in first:
            make = partial(_render, lowered, kernel, known)
            first[alike] = kept_or_made(store, [nodes[name] for name in kernel.nodes], known, alike, make)
        modules.append(lent(first[alike], kernel))
    return tuple(modules)


def _render(lowered: KernelGraph, kernel: Kernel, registrations: Registrations) -> KernelModule:
    arguments = tuple(lowered.types[value] for value in (*kernel.inputs, *kernel.outputs))
    if any(lowered.node(name).route == "template" for name in kernel.nodes):
        return _for_template(lowered, kernel, arguments, registrations)
    if any(lowered.node(name).route == "builder" for name in kernel.nodes):
        inputs = {value: lowered.types[value] for value in kernel.inputs}
        outputs = {value: lowered.types[value] for value in kernel.outputs}
        places = enumerate(kernel.nodes)
        makers = {value: number for number, name in places for value in lowered.node(name).node.results}
        parts = list(_parts(lowered, kernel, registrations))
        module = assemble_kernel(kernel.name, inputs, outputs, parts, makers)
    else:
        module = import_kernel(_graph(lowered, kernel, registrations), kernel.name, arguments)
    located = print_module(module, locations=True)
    present = origins_in(module)
    absorbed = tuple(
        Absorbed(name, f"the importer folded it into the ops around it ({lowered.node(name).node.op})")
        for number, name in enumerate(kernel.nodes)
        if number not in present
    )
    return KernelModule(kernel.name, print_module(module), located, arguments, kernel.nodes, absorbed)


def _for_template(
    lowered: KernelGraph, kernel: Kernel, arguments: tuple[TensorType, ...], registrations: Registrations
) -> KernelModule:
    """A template's kernel without its text, which depends on the machine: `write_templates.py` writes it."""
    hooks = tuple(_hooks(lowered, kernel, lowered.made_by_template(kernel.nodes), registrations))
    return KernelModule(kernel.name, "", "", arguments, kernel.nodes, (), True, hooks)


def _hooks(lowered: KernelGraph, kernel: Kernel, anchor: int, registrations: Registrations) -> Iterator[Hook]:
    """The pointwise nodes before each input of a template, and those after it."""
    nodes = [lowered.node(name).node for name in kernel.nodes]
    maker = {value: place for place, node in enumerate(nodes) for value in node.results}
    for value in nodes[anchor].operands:
        chain: list[int] = []
        while value in maker:
            chain.insert(0, maker[value])
            value = nodes[maker[value]].operands[0]
        if chain:
            yield _hook(lowered, kernel, chain, value, kernel.inputs.index(value), registrations)
    after = [place for place in range(anchor + 1, len(nodes)) if place not in _before(nodes, maker, anchor)]
    if after:
        yield _hook(lowered, kernel, after, nodes[anchor].results[0], -1, registrations)


def _before(nodes: Sequence[Node], maker: dict[str, int], anchor: int) -> set[int]:
    found: set[int] = set()
    ahead = [maker[value] for value in nodes[anchor].operands if value in maker]
    while ahead:
        place = ahead.pop()
        found.add(place)
        ahead += [maker[value] for value in nodes[place].operands if value in maker]
    return found


def _hook(
    lowered: KernelGraph, kernel: Kernel, places: Sequence[int], source: str, place: int, registrations: Registrations
) -> Hook:
    """Some nodes of a kernel as one body. A pointwise op's body does not depend on the shape, so one dim is enough."""
    names = tuple(kernel.nodes[each] for each in places)
    result = lowered.node(names[-1]).node.results[0]
    flat = {
        value: TensorType((7,), lowered.types[value].dtype, (1,))
        for name in names
        for value in (*lowered.node(name).node.operands, *lowered.node(name).node.results)
    }
    part = replace(kernel, nodes=names, inputs=(source,), outputs=(result,))
    module = _graph(replace(lowered, types={**lowered.types, **flat}), part, registrations)
    return pointwise_hook(import_kernel(module, kernel.name, [flat[source], flat[result]]), place, places[-1])


def _parts(lowered: KernelGraph, kernel: Kernel, registrations: Registrations) -> Iterator[Part]:
    """The kernel in order: each node of a builder, and the runs of nodes between them, imported together."""
    nodes = [lowered.node(name) for name in kernel.nodes]
    start = 0
    while start < len(nodes):
        end = start + 1
        if nodes[start].route == "builder":
            yield _built(lowered, nodes[start], start, registrations)
        else:
            while end < len(nodes) and nodes[end].route != "builder":
                end += 1
            yield _imported(lowered, kernel, nodes, start, end, registrations)
        start = end


def _imported(
    lowered: KernelGraph,
    kernel: Kernel,
    nodes: list[LoweredNode],
    start: int,
    end: int,
    registrations: Registrations,
) -> Imported:
    """Nodes `start` to `end` as a graph of their own."""
    here = [item.node for item in nodes[start:end]]
    made = [value for node in here for value in node.results]
    later = {value for item in nodes[end:] for value in item.node.operands} | set(kernel.outputs)
    inputs = tuple(dict.fromkeys(value for node in here for value in node.operands if value not in made))
    outputs = tuple(value for value in made if value in later)
    part = replace(kernel, nodes=tuple(node.name for node in here), inputs=inputs, outputs=outputs)
    return Imported(_graph(lowered, part, registrations, first=start), inputs, outputs)


def _graph(lowered: KernelGraph, part: Kernel, registrations: Registrations, first: int = 0) -> torch.fx.GraphModule:
    """The graph for torch-mlir. A worker has already imported nodes that are not known to be safe."""
    if not kernel_proven(lowered, part, registrations):
        nodes = [lowered.node(name).node for name in part.nodes]
        TRIALS.pass_or_raise(import_trial(part.name, nodes, lowered.types, part.outputs))
    return kernel_graph_module(lowered, part, first)


def _built(lowered: KernelGraph, item: LoweredNode, origin: int, registrations: Registrations) -> Build:
    node = item.node
    found = registrations.find(node.op, "builder", item.dialect)
    if found is None or found.dialect != item.dialect:
        raise RegistrationGone(
            f"{node.name} was lowered for a builder of {node.op} in {item.dialect!r}, but no such builder is "
            "registered now. "
            f"Register it again, or lower again"
        )
    return Build(
        node=node.name,
        overload=node.op,
        place=node.origin.place,
        owner=found.owner.place,
        shipped=found.owner.is_shipped,
        builder=found.value,
        arguments=arguments(node),
        tensors=tensor_arguments(node.op),
        types=lowered.types,
        results=whole_results(lowered, item),
        wanted=node.results[0],
        origin=origin,
    )
