"""Rendering reads the record alone: a graph loaded where its model does not exist renders to the same MLIR."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.flow import capture
from tests.programs import PROGRAMS
from workbench.ir import AtenGraph
from workbench.lowering.lower import lower
from workbench.mlir.context import parse
from workbench.rendering.render import render

RENDER_A_FILE = """
import sys
from workbench.ir import AtenGraph
from workbench.lowering.lower import lower
from workbench.rendering.render import render

assert not any(name.split(".")[0] == "tests" for name in sys.modules), "the model's code is here"
for path in sys.argv[1:]:
    graph = AtenGraph.from_json(open(path).read())
    for module in render(lower(graph)):
        print(module.located)
"""


@pytest.mark.test_all
def test_a_record_renders_alike_in_a_process_without_the_model(tmp_path: Path):
    expected, paths = [], []
    for name in ("softmax_ragged", "matmul_bias_gelu", "ffn_residual", "both_transposed"):
        program = PROGRAMS[name]
        graph = capture(program.build(), program.inputs(), program.kwargs()).graph
        path = tmp_path / f"{name}.json"
        path.write_text(graph.to_json())
        paths.append(str(path))
        expected += [module.located for module in render(lower(graph))]
    root = Path(__file__).parents[2]
    script = tmp_path / "render_a_file.py"
    script.write_text(RENDER_A_FILE)
    found = subprocess.run(
        [sys.executable, str(script), *paths],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "".join(text + "\n" for text in expected)


@pytest.mark.parametrize("name", ["layernorm", "mlp", "results_in_dict", "mean_two_dims"])
def test_modules_parse_and_every_node_is_named_or_absorbed(name: str):
    program = PROGRAMS[name]
    lowered = lower(AtenGraph.from_json(capture(program.build(), program.inputs(), program.kwargs()).graph.to_json()))
    for kernel, module in zip(lowered.kernels, render(lowered), strict=True):
        assert str(parse(module.mlir)) == module.mlir
        absorbed = {item.node for item in module.absorbed}
        for number, node in enumerate(kernel.nodes):
            assert (f'"aten:{number}"' in module.located) != (node in absorbed)


def test_arguments_are_memrefs_with_the_strides_of_the_tensors():
    graph = capture(lambda a, b: a.t() @ b.t(), (torch.randn(61, 129), torch.randn(56, 61))).graph
    (module,) = render(lower(graph))
    assert "memref<129x61xf32, strided<[1, 129]>>" in module.mlir
    assert "memref<61x56xf32, strided<[1, 61]>>" in module.mlir
    assert "linalg.transpose" not in module.mlir
