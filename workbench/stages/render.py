"""Rendering: every kernel of the lowered graph as verified MLIR, linalg on tensors with the kernel ABI."""

from __future__ import annotations

from workbench.ir import Absorbed, Kernel, KernelGraph, KernelModule
from workbench.mlir.context import print_module
from workbench.mlir.importer import import_kernel
from workbench.mlir.origins import origins_in
from workbench.ops.fx import kernel_graph_module
from workbench.progress import counted


def render(lowered: KernelGraph) -> tuple[KernelModule, ...]:
    """One module per kernel, in launch order. The record is all it reads."""
    return tuple(_render(lowered, kernel) for kernel in counted(lowered.kernels))


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
