"""Numbers in an ATen call are rounded once, before the loop, and cost nothing in it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from simulator.tileprogram.program import OpClass
from tests.flow import flow


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_no_constant_is_converted_for_every_element(dtype: torch.dtype):
    made = flow(lambda x: torch.clamp(x + 0.7, 0.3, 0.9), [torch.linspace(-9, 9, 64).to(dtype)])
    (module,) = made.rendered
    assert "f64" not in module.mlir
    (kernel,) = made.scheduled.kernels
    assert sum(op.class_counts[OpClass.CONVERT] for op in kernel.program.ops) == 0


def test_the_rounded_constant_is_the_nearest_number():
    made = flow(lambda x: x + 0.1, [torch.zeros(4)])
    assert torch.equal(made.run(torch.zeros(4)), torch.full((4,), 0.1))


def test_layer_norm_and_gelu_compute_in_one_type():
    made = flow(lambda x: F.layer_norm(F.gelu(x, approximate="tanh"), (8,)), [torch.randn(4, 8)])
    assert all("f64" not in module.mlir for module in made.rendered)
