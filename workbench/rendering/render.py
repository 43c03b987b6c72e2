"""Renders every kernel of the lowered graph as verified MLIR: linalg on tensors with the kernel ABI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from workbench.ground.environment.disk_store import Store
from workbench.ground.environment.progress import counted
from workbench.ground.errors import RegistrationGone
from workbench.ground.faults.trial import TRIALS
from workbench.ir import HOST, Absorbed, Hook, Kernel, KernelGraph, KernelModule, LoweredNode, Node, TensorType
from workbench.ir.same_structure import lent, structure, whole_results
from workbench.mlir.context import print_module
from workbench.mlir.location_ids import origins_in
from workbench.operators.aten.import_trial import import_trial
from workbench.operators.aten.proven import kernel_proven
from workbench.operators.aten.registry import DEFAULT, Registrations
from workbench.rendering.module_store import kept_or_made
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
    store: Store | None = None,
) -> tuple[KernelModule, ...]:
    """One module per kernel, in launch order; steps on the host have none. Modules of templates have no text yet.

    Rendering reads only the record and the builders. Kernels of the same structure differ only in names, so the text of
    the first is copied to the others. Modules in `made`, by structure, and in `store` are not made again.
    """
    known = registrations if registrations is not None else DEFAULT.now()
    nodes = {item.node.name: item for item in lowered.nodes}
    first = dict(made)
    modules: list[KernelModule] = []
    for kernel in counted([kernel for kernel in lowered.kernels if kernel.kind != HOST]):
        alike = structure(lowered, kernel, nodes)
        if alike not in first:
            make = KernelRendering(lowered, kernel, known).module
            first[alike] = kept_or_made(store, [nodes[name] for name in kernel.nodes], known, alike, make)
        modules.append(lent(first[alike], kernel))
    return tuple(modules)


@dataclass(frozen=True)
class KernelRendering:
    """Renders a kernel of a graph, or a part of a kernel."""

    lowered: KernelGraph
    kernel: Kernel
    registrations: Registrations

    @cached_property
    def nodes(self) -> list[LoweredNode]:
        return [self.lowered.node(name) for name in self.kernel.nodes]

    def module(self) -> KernelModule:
        lowered, kernel = self.lowered, self.kernel
        arguments = tuple(lowered.types[value] for value in (*kernel.inputs, *kernel.outputs))
        routes = {item.route for item in self.nodes}
        if "template" in routes:  # a template's text depends on the machine: `write_templates.py` writes it
            hooks = tuple(self._hooks(lowered.made_by_template(kernel.nodes)))
            return KernelModule(kernel.name, "", "", arguments, kernel.nodes, (), True, hooks)
        if "builder" in routes:
            inputs = {value: lowered.types[value] for value in kernel.inputs}
            outputs = {value: lowered.types[value] for value in kernel.outputs}
            makers = {value: number for number, item in enumerate(self.nodes) for value in item.node.results}
            module = assemble_kernel(kernel.name, inputs, outputs, list(self._parts()), makers)
        else:
            module = import_kernel(self.graph(), kernel.name, arguments)
        located = print_module(module, locations=True)
        present = origins_in(module)
        absorbed = tuple(
            Absorbed(item.node.name, f"the importer folded it into the ops around it ({item.node.op})")
            for number, item in enumerate(self.nodes)
            if number not in present
        )
        return KernelModule(kernel.name, print_module(module), located, arguments, kernel.nodes, absorbed)

    def graph(self, first: int = 0) -> torch.fx.GraphModule:
        """The graph for torch-mlir. If nodes are not known to be safe, a worker process imports them first."""
        if not kernel_proven(self.lowered, self.kernel, self.registrations):
            nodes = [item.node for item in self.nodes]
            TRIALS.pass_or_raise(import_trial(self.kernel.name, nodes, self.lowered.types, self.kernel.outputs))
        return kernel_graph_module(self.lowered, self.kernel, first)

    def _hooks(self, anchor: int) -> Iterator[Hook]:
        """The hooks of a template's kernel: the pointwise nodes before each input, and those after the template."""
        nodes = [item.node for item in self.nodes]
        maker = {value: place for place, node in enumerate(nodes) for value in node.results}
        for value in nodes[anchor].operands:
            chain: list[int] = []
            while value in maker:
                chain.insert(0, maker[value])
                value = nodes[maker[value]].operands[0]
            if chain:
                yield self._hook(chain, value, self.kernel.inputs.index(value))
        after = [place for place in range(anchor + 1, len(nodes)) if place not in _before(nodes, maker, anchor)]
        if after:
            yield self._hook(after, nodes[anchor].results[0], -1)

    def _hook(self, places: Sequence[int], source: str, place: int) -> Hook:
        """The hook of some nodes. A pointwise op's body does not depend on the shape, so one dim is imported."""
        types, nodes = self.lowered.types, [self.nodes[each].node for each in places]
        result = nodes[-1].results[0]
        values = [value for node in nodes for value in (*node.operands, *node.results)]
        flat = {value: TensorType((7,), types[value].dtype, (1,)) for value in values}
        names = tuple(node.name for node in nodes)
        part = replace(
            self,
            lowered=replace(self.lowered, types={**types, **flat}),
            kernel=replace(self.kernel, nodes=names, inputs=(source,), outputs=(result,)),
        )
        module = import_kernel(part.graph(), self.kernel.name, [flat[source], flat[result]])
        return pointwise_hook(module, place, places[-1])

    def _parts(self) -> Iterator[Part]:
        """The kernel's parts in order: each builder's node is one, and each run of nodes between them is one."""
        nodes, start = self.nodes, 0
        while start < len(nodes):
            end = start + 1
            if nodes[start].route == "builder":
                yield self._built(nodes[start], start)
            else:
                while end < len(nodes) and nodes[end].route != "builder":
                    end += 1
                yield self._imported(start, end)
            start = end

    def _imported(self, start: int, end: int) -> Imported:
        """The part with the nodes from `start` up to `end`, as one graph."""
        here = [item.node for item in self.nodes[start:end]]
        made = [value for node in here for value in node.results]
        later = {value for item in self.nodes[end:] for value in item.node.operands} | set(self.kernel.outputs)
        inputs = tuple(dict.fromkeys(value for node in here for value in node.operands if value not in made))
        outputs = tuple(value for value in made if value in later)
        part = replace(self.kernel, nodes=tuple(node.name for node in here), inputs=inputs, outputs=outputs)
        return Imported(replace(self, kernel=part).graph(first=start), inputs, outputs)

    def _built(self, item: LoweredNode, origin: int) -> Build:
        node = item.node
        found = self.registrations.find(node.op, "builder", item.dialect)
        if found is None or found.dialect != item.dialect:
            raise RegistrationGone(
                f"{node.name} was lowered for a builder of {node.op} in {item.dialect!r}, but no such builder is "
                "registered now. Register it again, or lower again"
            )
        return Build(node, found, self.lowered.types, whole_results(self.lowered, item), origin)


def _before(nodes: Sequence[Node], maker: dict[str, int], anchor: int) -> set[int]:
    found: set[int] = set()
    ahead = [maker[value] for value in nodes[anchor].operands if value in maker]
    while ahead:
        place = ahead.pop()
        found.add(place)
        ahead += [maker[value] for value in nodes[place].operands if value in maker]
    return found
