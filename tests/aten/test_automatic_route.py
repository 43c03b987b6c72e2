"""Every overload the automatic route claims becomes linalg in a kernel of its own, and computes the right numbers."""

from __future__ import annotations

import pytest
import torch

from workbench.ir import AtenGraph, Input, Node, Origin, Ref, TensorType, Tree
from workbench.lowering.lower import lower
from workbench.operators.aten import automatic_route
from workbench.operators.formulas.formula_builder import infer
from workbench.operators.host.run_graph import execute
from workbench.operators.tensors.torch_literals import to_arg, to_overload
from workbench.rendering.render import render
from workbench.running.run_program import KernelCache, NativeProgram

AUTOMATIC = automatic_route.POINTWISE | automatic_route.REDUCTION | automatic_route.CONTRACTION | automatic_route.COPY

MATRIX = TensorType((4, 6), "f32", (6, 1))
BOOLEAN = TensorType((4, 6), "bool", (6, 1))
SPECIAL = {
    "aten._to_copy.default": ([], {"dtype": torch.float64}),
    "aten.pow.Tensor_Scalar": ([1.7], {}),
    "aten.clamp.default": ([-0.5, 0.5], {}),
    "aten.hardtanh.default": ([-1.0, 1.0], {}),
    "aten.sum.dim_IntList": ([[1], True], {}),
    "aten.amax.default": ([[0, 1], False], {}),
    "aten.amin.default": ([[0], False], {}),
    "aten.convolution.default": ([None, [2, 1], [1, 0], [1, 1], False, [0, 0], 1], {}),
}


def graph_of(op: str) -> AtenGraph:
    """One call of `op`: tensors for its tensor parameters, a number for each other one it must have."""
    inputs: list[TensorType] = []
    args: list[object] = []
    for parameter in to_overload(op)._schema.arguments:
        if "Tensor" in str(parameter.type) and not parameter.has_default_value():
            boolean = "logical" in op or "bitwise" in op or parameter.name == "condition"
            inputs.append(BOOLEAN if boolean else MATRIX)
            args.append(Ref(f"x{len(inputs) - 1}"))
        elif not parameter.has_default_value() and op not in SPECIAL:
            args.append(0.5)
    more, kwargs = SPECIAL.get(op, ([], {}))
    if op == "aten.mm.default":
        inputs[1] = TensorType((6, 4), "f32", (4, 1))
    if op == "aten.bmm.default":
        inputs = [TensorType((2, 4, 6), "f32", (24, 6, 1)), TensorType((2, 6, 4), "f32", (24, 4, 1))]
    if op == "aten.convolution.default":
        inputs = [TensorType((1, 2, 5, 5), "f32", (50, 25, 5, 1)), TensorType((3, 2, 3, 2), "f32", (12, 6, 2, 1))]
        args = args[:2]
    types = {f"x{i}": type_ for i, type_ in enumerate(inputs)}
    recorded = tuple(to_arg(arg) for arg in (*args, *more))
    node = Node("y", op, recorded, {k: to_arg(v) for k, v in kwargs.items()}, ("y",), Origin("y", op))
    types["y"] = infer(node, types)[0]
    given = tuple(Input(name, "user", name) for name in types if name != "y")
    return AtenGraph("f", given, (node,), ("y",), Tree("leaf"), types)


def operands(graph: AtenGraph, op: str) -> list[torch.Tensor]:
    """Random tensors of the graph's input types, positive where the op asks for it."""
    generator = torch.Generator().manual_seed(1)
    made: list[torch.Tensor] = []
    for given in graph.inputs:
        values = torch.randn(graph.types[given.value].shape, generator=generator)
        if graph.types[given.value].dtype == "bool":
            made.append(values > 0)
        else:
            made.append(values.abs() + 0.1 if any(name in op for name in ("log", "sqrt", "pow")) else values)
    return made


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize("op", sorted(AUTOMATIC))
def test_an_overload_of_the_automatic_route_computes_natively_what_pytorch_does(op: str) -> None:
    graph = graph_of(op)
    lowered = lower(graph)
    (module,) = render(lowered)
    assert "linalg." in module.mlir and "torch." not in module.mlir
    values = operands(graph, op)
    found = NativeProgram.from_rendered(lowered, (module,), KernelCache()).run(values)
    torch.testing.assert_close(found, execute(graph, values).outputs, rtol=1e-6, atol=1e-6)


def test_no_overload_is_in_two_classes() -> None:
    every = [
        *automatic_route.POINTWISE,
        *automatic_route.REDUCTION,
        *automatic_route.CONTRACTION,
        *automatic_route.COPY,
        *automatic_route.VIEW,
    ]
    assert len(every) == len(set(every))
    for op in every:
        to_overload(op)
