"""The host route: nodes that no kernel makes, computed by PyTorch from the record, and what that costs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch.utils.flop_counter import FlopCounterMode

from workbench.ir import BREAK, HOST, HostStep, Kernel, KernelGraph, Node, TensorType
from workbench.ops.execute import run_nodes
from workbench.ops.formulas.builder import meta_tensor
from workbench.ops.literals import call
from workbench.ops.registry import Registrations
from workbench.torch_types import to_dtype

HostFunction = Callable[[Sequence[torch.Tensor]], None]
"""Called like a kernel, with inputs and outputs in ABI order; writes the outputs."""


def functions(lowered: KernelGraph, registrations: Registrations) -> dict[str, HostFunction]:
    """What runs each kernel of kind host, by the kernel's name."""
    hosted = [kernel for kernel in lowered.kernels if kernel.kind == HOST]
    return {kernel.name: partial(_run, lowered.node(kernel.nodes[0]).node, kernel, registrations) for kernel in hosted}


def _run(node: Node, kernel: Kernel, registrations: Registrations, tensors: Sequence[torch.Tensor]) -> None:
    given = dict(zip(kernel.inputs, tensors, strict=False))
    made = run_nodes([node], given, registrations)
    for value, out in zip(kernel.outputs, tensors[len(kernel.inputs) :], strict=True):
        out.copy_(made[value])


def steps(lowered: KernelGraph) -> tuple[HostStep, ...]:
    """The cost of each kernel of kind host: every tensor it reads goes to the host, every one it makes comes back."""
    return tuple(_step(lowered, kernel) for kernel in lowered.kernels if kernel.kind == HOST)


def _step(lowered: KernelGraph, kernel: Kernel) -> HostStep:
    node, types = lowered.node(kernel.nodes[0]).node, lowered.types
    bytes_in, bytes_out = (sum(_bytes(types[value]) for value in values) for values in (kernel.inputs, kernel.outputs))
    return HostStep(kernel.name, node.op, bytes_in, bytes_out, flops(node, types))


def _bytes(kind: TensorType) -> int:
    return kind.numel * to_dtype(kind.dtype).itemsize


def flops(node: Node, types: Mapping[str, TensorType]) -> int:
    """Operations of one node: PyTorch's own formula for products, convolutions and attention; for what has none, one
    for each element of its largest tensor."""
    if node.op == BREAK:  # what Python computes there is nobody's to say
        return 0
    overrides = {"device": "meta"} if "device" in node.kwargs else {}
    with FlopCounterMode(display=False) as counter, contextlib.suppress(NotImplementedError):  # it may have no meta
        call(node, lambda value: meta_tensor(types[value]), **overrides)
    counted = counter.get_total_flops()
    return counted or max(types[value].numel for value in (*node.operands, *node.results))


def break_texts(lowered: KernelGraph, breaks: Sequence[str]) -> list[str]:
    """A line for each place at which Python runs between graphs; `breaks` are the places with their reasons."""
    counts = Counter(breaks)
    times = {told: f" ({count}x)" if count > 1 else "" for told, count in counts.items()}
    name = lowered.captured.name
    return [f"{name}: a graph break, so Python runs on the host: {told}{times[told]}" for told in counts]


def warning_text(lowered: KernelGraph) -> str:
    """One line naming the ops that run on the host; empty when there are none."""
    nodes = [lowered.node(kernel.nodes[0]).node for kernel in lowered.kernels if kernel.kind == HOST]
    nodes = [node for node in nodes if node.op != BREAK]
    if not nodes:
        return ""
    counts = Counter(node.op for node in nodes)
    places = {node.op: node.origin.place for node in reversed(nodes)}
    named = ", ".join(f"{op} ({count}x, {places[op]})" for op, count in counts.items())
    return f"{lowered.captured.name}: no route to the NPU, so PyTorch computes on the host: {named}"
