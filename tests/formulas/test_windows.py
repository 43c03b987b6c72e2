"""Convolutions, pools and norms: numbers, invariants, replay and bytes, on a large machine and a small one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from simulator.machine.machine_file import load_machine
from simulator.tileprogram.program import Opcode
from tests.agreement import in_trace_order
from tests.blocks import depthwise_separable
from tests.flow import Flow, count, flow, moved
from tests.simulated_records import simulate
from tests.window_programs import CASES
from workbench.models.resnet import BasicBlock, Bottleneck, resnet18
from workbench.models.seeded import with_statistics
from workbench.models.shipped.lenet import lenet

MACHINES = ("tpu-v3", "edge-8x8")


def without_the_host(function: Callable[..., Any], x: torch.Tensor, machine: str) -> Flow:
    made = flow(function, (x,), machine=machine)
    assert {node.route for node in made.lowered.nodes} <= {"automatic", "view", "builder"}
    return made


@pytest.mark.parametrize("places", [1, 2, 3])
def test_tiles_that_begin_within_the_padding(places: int):
    x = torch.randn(1, 4, 12)
    made = flow(nn.Conv1d(4, 4, 5, padding=4), [x], machine="edge-8x8", mapping={"*": {"tile": {"ow": places}}})
    made.assert_matches_eager(x)
    in_trace_order(made, (x,), 1e-4)


@pytest.mark.test_all(but=3)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_numbers_invariants_and_replay(name: str, machine: str):
    make, shape = CASES[name]
    torch.manual_seed(0)
    function = make()
    if isinstance(function, nn.Module):
        function = with_statistics(function)
    x, fresh = torch.randn(shape), torch.randn(shape)
    made = without_the_host(function, x, machine)
    made.assert_matches_eager(fresh)
    in_trace_order(made, (fresh,), 1e-4)


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: BasicBlock(16, 16), (1, 16, 12, 12)),
        (lambda: BasicBlock(16, 24, 2), (2, 16, 11, 13)),
        (lambda: Bottleneck(16, 8, 32, 2), (1, 16, 14, 14)),
        (depthwise_separable, (1, 16, 14, 14)),
        (lenet, (1, 1, 28, 28)),
    ],
)
def test_blocks(make: Callable[[], nn.Module], shape: tuple[int, ...], machine: str):
    torch.manual_seed(0)
    x = torch.randn(shape)
    made = without_the_host(with_statistics(make()), x, machine)
    made.assert_matches_eager(x)
    simulate(made.lowered, made.scheduled, made.machine).invariants()


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats(dtype: torch.dtype):
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(6, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2))
    x = torch.randn(1, 6, 13, 11).to(dtype)
    journey = wb.trace(with_statistics(block).to(dtype), x, machine="edge-8x8")
    assert journey.check(stage="rendered").ok
    assert journey.check().ok


@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8, torch.uint8])
def test_largest_whole_numbers(dtype: torch.dtype):
    """Padding is less than any of them, and bytes above 127 are no negative numbers."""
    bounds = torch.iinfo(dtype)
    x = torch.randint(max(bounds.min, -(2**20)), min(bounds.max, 2**20), (1, 2, 9, 7), dtype=dtype)
    x[0, 0] = bounds.min
    made = flow(nn.MaxPool2d(3, 2, 1), (x,), machine="edge-8x8")
    assert torch.equal(made.run(x), F.max_pool2d(x, 3, 2, 1))


@pytest.mark.test_all
@pytest.mark.sweep
def test_a_whole_residual_network(whole_sweep: bool):
    """On a small picture; whole, on one of the size that it is made for."""
    torch.manual_seed(0)
    size, least = (224, 0.95) if whole_sweep else (64, 0.94)  # of fewer places the weights take a little longer
    x = torch.randn(1, 3, size, size)
    journey = wb.trace(with_statistics(resnet18()), x, machine="edge-8x8", on_missing="error")
    assert journey.check().ok
    convolutions = [kernel for kernel in journey.scheduled.kernels if "conv2d" in kernel.name]
    assert len(convolutions) < 20  # those of identical blocks are one kernel
    busy = journey.simulated.by_kernel.systolic_busy.sum()
    assert least * journey.simulated.cycles < busy <= journey.simulated.cycles  # an array of 8 x 8 is what it waits for


def test_a_block_stores_each_result_once():
    """Convolution, batch norm, residual and relu are one kernel: the result's bytes and nothing else are written."""
    torch.manual_seed(0)
    made = flow(with_statistics(BasicBlock(16, 16)), (torch.randn(1, 16, 12, 12),), machine="edge-8x8")
    convolutions = [kernel for kernel in made.lowered.kernels if "conv2d" in kernel.name]
    assert [kernel.kind for kernel in convolutions] == ["contraction"] * 2
    assert [len(kernel.nodes) for kernel in convolutions] == [4, 5]  # with factor, summand and relu; and the residual
    for kernel in made.scheduled.kernels:
        if "conv2d" in kernel.kernel:
            written = {name: size for name, size in moved(kernel.program).items() if name.endswith("!")}
            assert list(written.values()) == [16 * 12 * 12 * 4]


def test_each_byte_of_a_convolution_moves_as_the_mapping_says():
    """Input tiles once with their halo and without the padding, weights once, results once."""
    convolution = nn.Conv2d(8, 16, 3, padding=1, bias=False).eval()
    mapping = {"*": {"tile": {"oc": 16, "oh": 4, "ow": 10, "ic": 8}}}
    made = flow(convolution, (torch.randn(1, 8, 10, 10),), machine="edge-8x8", mapping=mapping)
    (kernel,) = made.scheduled.kernels
    assert kernel.dims == {"oc": 16, "oh": 10, "ow": 10, "ic": 8, "kh": 3, "kw": 3}
    rows = 5 + 6 + 3  # of 10 in tiles of 4, 4 and 2: one more above and below, but for the image's own border
    assert moved(kernel.program) == {"arg0": 8 * rows * 10 * 4, "arg1": 16 * 8 * 9 * 4, "arg2!": 16 * 100 * 4}
    assert count(kernel.program, Opcode.MATMUL) == 3 * 9
    assert count(kernel.program, Opcode.LOAD) == 3 + 1
    assert count(kernel.program, Opcode.STORE) == 3


PLACES: dict[str, tuple[Callable[[torch.Tensor], Any], tuple[int, ...]]] = {
    "rows": (lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (2, 3, 9)),
    "images": (lambda x: F.max_pool2d(x, (3, 2), 2, 1, dilation=(1, 2), return_indices=True), (1, 2, 7, 6)),
    "one image": (lambda x: F.max_pool2d(x, 2, ceil_mode=True, return_indices=True), (2, 5, 7)),
    "volumes": (lambda x: F.max_pool3d(x, 2, 1, 1, return_indices=True), (1, 2, 3, 4, 3)),
    "of a wanted shape, rows": (lambda x: F.adaptive_max_pool1d(x, 4, return_indices=True), (2, 3, 9)),
    "of a wanted shape, images": (lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), (1, 2, 7, 6)),
    "of a wanted shape, even": (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (2, 6, 4)),
    "of a wanted shape, volumes": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2), return_indices=True), (2, 3, 4, 3)),
}


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_pools_find_the_places_of_their_largest_numbers(name: str, dtype: torch.dtype):
    """Few numbers, so that many are alike, some NaN and some windows of infinities: the same one as in PyTorch."""
    function, shape = PLACES[name]
    x = torch.randint(0, 4, shape).to(dtype)
    x = torch.where(torch.rand(shape) < 0.05, torch.nan, torch.where(torch.rand(shape) < 0.4, -torch.inf, x))
    journey = wb.trace(function, x)
    assert "host" not in {node.route for node in journey.lowered.record.nodes}
    for mine, theirs in zip(journey.run(x), function(x), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


COLUMNS: dict[str, tuple[Callable[[torch.Tensor], Any], tuple[int, ...]]] = {
    "unfold": (lambda x: F.unfold(x, (3, 2), dilation=(2, 1), padding=(1, 2), stride=(3, 2)), (2, 3, 9, 8)),
    "unfold one image": (lambda x: F.unfold(x, 2), (3, 4, 5)),
    "fold": (lambda x: F.fold(x, (9, 8), (3, 2), dilation=(2, 1), padding=(1, 2), stride=(3, 2)), (2, 18, 18)),
    "fold one image": (lambda x: F.fold(x, (5, 6), (2, 3), stride=2), (12, 4)),
    "max_unpool": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(5, 7)),
        (3, 5, 7),
    ),
}


@pytest.mark.test_all(but=2)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", COLUMNS)
def test_windows_as_columns_and_back(name: str):
    function, shape = COLUMNS[name]
    x = torch.randn(shape)
    journey = wb.trace(function, x)
    assert "host" not in {node.route for node in journey.lowered.record.nodes}
    torch.testing.assert_close(journey.run(x), function(x))


def test_rows_between_results_are_not_read():
    """A window of one point that moves in steps reads what it needs: a quarter."""
    made = flow(nn.Conv2d(8, 16, 1, stride=2, bias=False).eval(), (torch.randn(1, 8, 10, 10),))
    assert moved(made.scheduled.kernels[0].program)["arg0"] == 8 * 5 * 5 * 4


def test_a_convolution_is_one_chain_of_products():
    """Every window position adds to the same accumulator, which no fill has to clear."""
    made = flow(nn.Conv2d(8, 16, 3, bias=False).eval(), (torch.randn(1, 8, 10, 10),))
    (program,) = [kernel.program for kernel in made.scheduled.kernels]
    products = [program.instruction(i) for i in range(len(program)) if program.opcode[i] == Opcode.MATMUL]
    assert [product.accumulates for product in products].count(False) == len(products) // 9
    assert count(program, Opcode.VECTOR) == 0


LARGE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "many channels": (lambda: nn.Conv2d(16, 32, 3, padding=1), (1, 16, 40, 40)),
    "a large window": (lambda: nn.Conv2d(8, 4, 40), (1, 8, 41, 42)),
    "a large pool": (lambda: nn.MaxPool2d(12, 5), (1, 8, 60, 80)),
}


@pytest.mark.test_all(but=1)
@pytest.mark.sweep
@pytest.mark.parametrize("figure", [(4, 4, 16_384), (256, 256, 131_072)], ids=str)
@pytest.mark.parametrize("name", LARGE)
def test_every_machine_has_a_mapping(name: str, figure: tuple[int, int, int]):
    rows, lanes, per_lane = figure
    machine = load_machine("edge-8x8").with_(
        systolic_rows=rows, systolic_columns=rows, vector_lanes=lanes, scratchpad_bytes_per_lane=per_lane
    )
    make, shape = LARGE[name]
    x = torch.randn(shape)
    made = flow(make().eval(), (x,), machine=machine)
    made.assert_matches_eager(x)
    assert all(kernel.program.scratchpad_bytes <= machine.scratchpad_bytes for kernel in made.scheduled.kernels)


def test_one_image_for_all_of_a_batch_walked_a_piece_at_a_time():
    """In a loop over the batch, its stride of zero leaves the piece where it was, whatever the loop says."""
    image, weight = torch.randn(1, 3, 5, 3).expand(2, 3, 5, 3), torch.randn(3, 3, 2, 2)
    machine = wb.machine(
        "edge-8x8", systolic_rows=4, systolic_columns=4, vector_lanes=4, scratchpad_bytes_per_lane=16384
    )
    j = wb.trace(lambda x, w: F.conv2d(x, w, padding=1, dilation=2), image, weight, machine=machine)
    assert j.check().ok


@pytest.mark.parametrize("shape", [(4, 2, 2, 1), (4, 2, 2, 2), (2, 3, 5, 4)])
def test_a_pool_of_single_elements_is_a_copy_of_some(shape: tuple[int, ...]):
    x = torch.randn(shape)
    j = wb.trace(lambda x: F.max_pool2d(x, 1, 2), x, machine="edge-8x8")
    assert j.check().ok and torch.equal(j.run(x), x[..., ::2, ::2])
    assert j.simulated.cycles > 0
