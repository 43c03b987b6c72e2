"""The host route: PyTorch computes nodes without kernels from the record; and the cost of these steps."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch.utils.flop_counter import FlopCounterMode

from workbench.ground.errors import AssertionFailed, ExecutorResult, HostFailed, HostResult, WorkbenchError
from workbench.ir import ASSERTIONS, BREAK, HOST, HostStep, Kernel, KernelGraph, Node, Ref, TensorType
from workbench.ir import Sequence as Items
from workbench.operators.aten.registry import Registration, Registrations
from workbench.operators.aten.run_node import call
from workbench.operators.formulas.formula_builder import meta_tensor
from workbench.operators.host.run_graph import executor_text, run_nodes
from workbench.operators.tensors.element_types import to_dtype
from workbench.operators.tensors.kernel_function import KernelFunction


def functions(lowered: KernelGraph, registrations: Registrations) -> dict[str, KernelFunction]:
    """The function that runs each kernel of kind host, by the kernel's name."""
    hosted = [kernel for kernel in lowered.kernels if kernel.kind == HOST]
    return {kernel.name: partial(_run, lowered.node(kernel.nodes[0]).node, kernel, registrations) for kernel in hosted}


def _run(node: Node, kernel: Kernel, registrations: Registrations, tensors: Sequence[torch.Tensor]) -> None:
    given = dict(zip(kernel.inputs, tensors, strict=False))
    try:
        result = run_nodes([node], given, registrations)
    except WorkbenchError:
        raise
    except Exception as error:  # PyTorch cannot compute the op for these tensors
        if node.op in ASSERTIONS:
            raise AssertionFailed(f"an assertion at {node.origin.place} does not hold: {error}") from None
        raise HostFailed(
            f"{_called(node)} has no kernel, and PyTorch cannot compute it on the host: "
            f"{error}. The same call fails in PyTorch alone: convert its operands, or keep it out of the traced "
            "function"
        ) from error
    for value, out in zip(kernel.outputs, tensors[len(kernel.inputs) :], strict=True):
        _refuse_unlike(node, result[value], out, registrations.find(node.op, "executor"))
        out.copy_(result[value])


def _refuse_unlike(node: Node, result: torch.Tensor, out: torch.Tensor, executor: Registration | None) -> None:
    """Raises for a result of another type or shape than the record's: a copy would convert it silently."""
    alike = (result.shape, result.dtype) == (out.shape, out.dtype)
    if alike and not (result.is_quantized and result.qscheme() != out.qscheme()):
        return
    kinds = [f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}" for each in (result, out)]
    if result.is_quantized and alike:
        kinds = [f"{kind}, {each.qscheme()}" for kind, each in zip(kinds, (result, out), strict=True)]
    if executor is not None:
        raise ExecutorResult(
            f"{executor_text(node, executor)} returned {kinds[0]}; expected {kinds[1]}, as the call was captured: "
            "convert the result in the executor"
        )
    raise HostResult(
        f"{_called(node)} made {kinds[0]} on the host, and was captured as {kinds[1]}: "
        "PyTorch gives its result another type without data than with data. Keep this call out of the traced "
        "function, or convert its operands so that both types agree"
    )


def _called(node: Node) -> str:
    """Names a node's op and line for messages; also the op of that line if the node is a part of it or was written by a
    graph pass."""
    what = f"{node.op} for {node.origin.op}" if node.op != node.origin.op else node.op
    return f"{what} at {node.origin.place}"


def steps(lowered: KernelGraph) -> tuple[HostStep, ...]:
    """The cost of each kernel of kind host: every operand goes to the host, every result comes back."""
    return tuple(_step(lowered, kernel) for kernel in lowered.kernels if kernel.kind == HOST)


def _step(lowered: KernelGraph, kernel: Kernel) -> HostStep:
    node, types = lowered.node(kernel.nodes[0]).node, lowered.types
    bytes_in, bytes_out = (sum(_bytes(types[value]) for value in values) for values in (kernel.inputs, kernel.outputs))
    work = tuple(each for each in lowered.captured.host_work if each.node == node.name)
    operations = sum(each.flops for each in work) if node.op == BREAK else flops(node, types)
    return HostStep(kernel.name, node.op, bytes_in, bytes_out, operations, work)


def _bytes(kind: TensorType) -> int:
    return kind.numel * to_dtype(kind.dtype).itemsize


def flops(node: Node, types: Mapping[str, TensorType]) -> int:
    """The number of operations of one node: by PyTorch's own formula for products, convolutions and attention; else one
    for each element of the node's largest tensor."""
    if node.bodies:
        return _flops_of_graphs(node, types)
    if not node.operands:  # it only creates tensors, and PyTorch's counter would create them
        return max(types[value].numel for value in node.results)
    overrides = {"device": "meta"} if "device" in node.kwargs else {}
    with FlopCounterMode(display=False) as counter, contextlib.suppress(NotImplementedError):  # no meta kernel
        call(node, lambda value: meta_tensor(types[value]), **overrides)
    counted = counter.get_total_flops()
    return counted or max(types[value].numel for value in (*node.operands, *node.results))


def _flops_of_graphs(node: Node, types: Mapping[str, TensorType]) -> int:
    """The number of operations of the graphs that a node runs: for branches the larger one, for a counted loop all
    iterations, for a loop that data ends one iteration; for attention its two products, and the work on each score."""
    once = [sum(flops(each, body.types) for each in body.nodes) for body in node.bodies]
    kind = node.op.split(".")[1]
    if kind == "cond":
        return max(once)
    if kind == "flex_attention":
        query, key, value = (types[name].shape for name in node.operands[:3])
        scores = math.prod(query[:-1]) * key[-2]
        return scores * (2 * (query[-1] + value[-1]) + sum(once))
    looped = node.args[_COUNTED[kind]] if kind in _COUNTED else None
    over = [each for each in looped.items if isinstance(each, Ref)] if isinstance(looped, Items) else []
    return sum(once) * (types[over[0].value].shape[0] if over else 1)


_COUNTED = {"scan": 2, "map_impl": 1}
"""Loops over the leading axis of an argument, and the position of this argument."""


def break_texts(lowered: KernelGraph, breaks: Sequence[str]) -> list[str]:
    """Returns a line for each place at which Python runs between graphs; `breaks` are the places with their reasons."""
    return [
        f"{lowered.captured.name}: a graph break, so Python runs on the host: {place}{f' ({count}x)' * (count > 1)}"
        for place, count in Counter(breaks).items()
    ]


def warning_text(lowered: KernelGraph) -> str:
    """One line that names the ops that run on the host; empty if there are none."""
    nodes = [lowered.node(kernel.nodes[0]).node for kernel in lowered.kernels if kernel.kind == HOST]
    nodes = [node for node in nodes if node.op != BREAK]
    if not nodes:
        return ""
    counts = Counter(node.op for node in nodes)
    places = {node.op: node.origin.place for node in reversed(nodes)}
    named = ", ".join(f"{op} ({count}x, {places[op]})" for op, count in counts.items())
    return f"{lowered.captured.name}: no route to the NPU, so PyTorch computes on the host: {named}"
