"""Buffers lie as the tensors that are copied into them: the same numbers, in order."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.mlir.bindings import named
from workbench.mlir.context import new_context
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.running import jit
from workbench.running.buffer_order import order_buffers


def orders(module_and_input: tuple[nn.Module, torch.Tensor], *, calls: bool = True) -> list[list[list[int]]]:
    """The order of axes on both sides of each copy between a tensor of several axes and a buffer."""
    module, given = module_and_input
    found: list[list[list[int]]] = []
    for kernel in wb.trace(module, given).scheduled.kernels:
        parsed = verify_scheduled(kernel.mlir, kernel.name, new_context(torch_dialect=True))
        jit._one_memory_space(parsed)
        order_buffers(parsed, calls=calls)
        assert parsed.operation.verify()
        copies = named(parsed, "linalg.copy")
        found += [
            [order(each.type.get_strides_and_offset()[0], each.type.shape) for each in op.operands] for op in copies
        ]
    return [each for each in found if len(each[0]) > 1]


def order(strides: list[int], shape: list[int]) -> list[int]:
    """The axes that are stepped along, that with the longest steps first."""
    return sorted((axis for axis in range(len(strides)) if shape[axis] != 1), key=lambda axis: -strides[axis])


MODULES: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "weights that lie transposed": (nn.Linear(96, 160), torch.randn(40, 96)),
    "channels last": (
        nn.Conv2d(8, 24, 3, padding=1).to(memory_format=torch.channels_last),
        torch.randn(1, 8, 12, 14).contiguous(memory_format=torch.channels_last),
    ),
    "channels first": (nn.Conv2d(8, 24, 3, padding=1), torch.randn(2, 8, 12, 14)),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", MODULES)
def test_both_sides_of_each_copy_are_walked_in_the_same_order(name: str) -> None:
    found = orders(MODULES[name])
    assert found
    for source, target in found:
        assert source == target


def test_factors_of_a_product_that_stays_loops_stay_as_they_are() -> None:
    found = orders(MODULES["weights that lie transposed"], calls=False)
    assert any(source != target for source, target in found)


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", MODULES)
def test_the_numbers_stay(name: str, machine: str) -> None:
    module, given = MODULES[name]
    assert wb.trace(module, given, machine=machine).check().ok


def test_a_buffer_stays_where_a_view_of_it_would_change_its_shape() -> None:
    """Weights of one channel and one row: two axes of one element, of which a view drops the second."""
    tile = {"b": 9, "oc": 1, "oh": 6, "ow": 10, "ic": 3, "kh": 1, "kw": 2}
    journey = wb.trace(
        partial(F.conv2d, padding=1),
        torch.randn(9, 7, 7, 9),
        torch.randn(3, 7, 2, 2),
        machine=wb.machine("edge-8x8", scratchpad_bytes_per_lane=16384),
        mapping={"*": {"tile": tile, "order": ["ow", "ic", "oh", "b", "oc", "kw", "kh"], "buffers": 2}},
    )
    assert journey.check().ok


def test_a_buffer_that_is_reshaped_stays_as_it_is() -> None:
    text = """
    func.func @k(%in: memref<4x6xf32, strided<[1, 4]>>, %out: memref<24xf32, strided<[1]>>) {
      %a = memref.alloc() : memref<4x6xf32, 1>
      linalg.copy ins(%in : memref<4x6xf32, strided<[1, 4]>>) outs(%a : memref<4x6xf32, 1>)
      %flat = memref.collapse_shape %a [[0, 1]] : memref<4x6xf32, 1> into memref<24xf32, 1>
      linalg.copy ins(%flat : memref<24xf32, 1>) outs(%out : memref<24xf32, strided<[1]>>)
      memref.dealloc %a : memref<4x6xf32, 1>
      return
    }"""
    x, out = torch.randn(6, 4).t(), torch.empty(24)
    jit.compile_scheduled(text, "k")([x, out])
    assert torch.equal(out, x.reshape(-1))
