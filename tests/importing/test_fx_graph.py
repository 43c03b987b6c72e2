"""A kernel rebuilt from the record: the ABI's order, types without data, and node ids that reach the MLIR."""

from __future__ import annotations

import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch_mlir import fx as torch_mlir_fx

from tests.flow import capture
from tests.programs import PROGRAMS
from workbench.ir import KernelGraph
from workbench.lowering.lower import lower
from workbench.scheduling.importing.fx_graph import kernel_graph_module


def lowered(name: str) -> KernelGraph:
    program = PROGRAMS[name]
    return lower(capture(program.build(), program.inputs(), program.kwargs()).graph)


@pytest.mark.test_all(but=7)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kernel_of_the_corpus_becomes_linalg_with_its_nodes_as_locations(name: str) -> None:
    graph = KernelGraph.from_json(lowered(name).to_json())
    for kernel in graph.kernels:
        made = kernel_graph_module(graph, kernel)
        module = torch_mlir_fx.stateless_fx_import(made, output_type="linalg-on-tensors", model_name=kernel.name)
        text = module.operation.get_asm(enable_debug_info=True)
        ids = {int(found) for found in re.findall(r'"aten:(\d+)"', text)}
        assert ids == set(range(len(kernel.nodes)))


def test_placeholders_and_results_are_in_the_kernels_order() -> None:
    graph = lowered("matmul_bias_gelu")
    (kernel,) = graph.kernels
    made = kernel_graph_module(graph, kernel)
    shapes = [tuple(node.meta["val"].shape) for node in made.graph.find_nodes(op="placeholder")]
    assert shapes == [graph.types[value].shape for value in kernel.inputs]
    assert all(isinstance(node.meta["val"], FakeTensor) for node in made.graph.nodes if node.op != "output")
    inputs = [torch.randn(shape) for shape in shapes]
    (found,) = made(*inputs)
    torch.testing.assert_close(found, PROGRAMS["matmul_bias_gelu"].build()(*inputs), rtol=1e-4, atol=1e-4)
