"""Kinds of kernels, as mapping files name them: by ops, shapes and element types, independent of the model."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import HOST, Kernel, KernelGraph
from workbench.ir.same_structure import structure


@dataclass(frozen=True, slots=True)
class KernelKind:
    """A kernel of a graph, with the properties by which mapping files find it."""

    name: str
    ops: tuple[str, ...]
    """The ops of PyTorch that the kernel computes, in order: `aten.matmul.default`, `aten.gelu.default`."""
    arguments: tuple[str, ...]
    """The types of its inputs and outputs: `128x256xf32`."""
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of its inputs."""
    key: str
    """Equal for kernels that are rendered alike: they have the same dims, and take the same mapping."""
    partial: str = ""
    """An op of the kernel of which other kernels compute parts as well; '' if there is none."""

    def __str__(self) -> str:
        inputs = [list(shape) for shape in self.shapes]
        return f"ops {', '.join(map(short, self.ops))} of shapes {', '.join(map(str, inputs))}"


def short(op: str) -> str:
    """`matmul` of `aten.matmul.default`."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def kernel_kinds(lowered: KernelGraph) -> Iterator[KernelKind]:
    """The kinds of all kernels of a graph except steps on the host."""
    nodes = {item.node.name: item for item in lowered.nodes}
    captured = {node.name: node.op for node in lowered.captured.nodes}
    shared = Counter[str]()
    for kernel in lowered.kernels:
        shared.update({nodes[name].parent for name in kernel.nodes})
    for kernel in lowered.kernels:
        if kernel.kind == HOST:
            continue
        parents = dict.fromkeys(parent for name in kernel.nodes for parent in lowered.together(nodes[name].parent))
        ops = tuple(captured.get(parent, parent) for parent in parents)
        digest = hashlib.sha256(structure(lowered, kernel, nodes).encode()).hexdigest()
        inputs = tuple(lowered.types[value].shape for value in kernel.inputs)
        partial = next((captured.get(each, each) for each in parents if shared[each] > 1), "")
        yield KernelKind(kernel.name, ops, _types(lowered, kernel), inputs, digest, short(partial))


def _types(lowered: KernelGraph, kernel: Kernel) -> tuple[str, ...]:
    return tuple(str(lowered.types[value]) for value in (*kernel.inputs, *kernel.outputs))
