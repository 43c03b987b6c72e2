"""Scheduling: numbers under many mappings, exact DRAM traffic, legality on every machine, and errors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.errors import DoesNotFit
from simulator.machine.machine_file import load_machine, machine_names
from simulator.tileprogram.program import Opcode
from tests.flow import Flow, capture, count, flow, moved
from workbench.ground.errors import MappingError
from workbench.lowering.lower import lower
from workbench.rendering.render import render
from workbench.scheduling import heuristic
from workbench.scheduling.pass_pipeline import reproduce
from workbench.scheduling.schedule import schedule

MATMUL = ["m", "n", "k"]


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def matmul_bias_gelu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(a @ b + bias)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


def tiled(function, inputs, *, machine="tpu-v3", **mapping) -> Flow:
    return flow(function, inputs, machine=machine, mapping={"*": mapping} if mapping else None)


# -- traffic ----------------------------------------------------------------------------------------------------------


def test_softmax_reads_and_writes_its_tensor_once():
    made = tiled(softmax, [torch.randn(512, 512)])
    assert moved(made.scheduled.kernels[0].program) == {"arg0": 512 * 512 * 4, "arg1!": 512 * 512 * 4}


def test_layernorm_loads_weight_and_bias_once():
    rows, columns = 96, 160
    layer = torch.nn.LayerNorm(columns)
    made = flow(layer, [torch.randn(rows, columns)], mapping={"*": {"tile": {"d0": 10}}})
    traffic = moved(made.scheduled.kernels[0].program)
    assert sum(traffic.values()) == (2 * rows * columns + 2 * columns) * 4


def test_tiled_matmul_reads_each_operand_once_per_tile_of_the_other():
    size = 512 * 512 * 4
    made = tiled(matmul, [torch.randn(512, 512)] * 2, tile=dict.fromkeys(MATMUL, 128), order=MATMUL)
    program = made.scheduled.kernels[0].program
    assert sum(moved(program).values()) == 4 * size + 4 * size + size
    assert moved(program)[f"arg{len(program.arguments) - 1}!"] == size
    assert count(program, Opcode.MATMUL) == 64


def test_what_a_loop_does_not_change_is_loaded_outside_it():
    """With k whole, a row panel of A serves every tile of n."""
    made = tiled(matmul, [torch.randn(64, 96), torch.randn(96, 64)], tile={"m": 16, "n": 16, "k": 96}, order=MATMUL)
    traffic = moved(made.scheduled.kernels[0].program)
    assert traffic["arg0"] == 64 * 96 * 4
    assert traffic["arg1"] == 4 * 96 * 64 * 4


def test_a_row_too_long_for_the_scratchpad_is_read_once_per_pass():
    """Maximum, sum and quotient each walk the row: three reads, one write, nothing in between stored."""
    made = tiled(softmax, [torch.randn(4, 200_000)], machine="edge-8x8")
    kernel = made.scheduled.kernels[0]
    size = 4 * 200_000 * 4
    assert moved(kernel.program) == {"arg0": 3 * size, "arg1!": size}
    assert "split" in kernel.mapping.reason


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_a_reduction_of_single_elements_is_a_copy():
    x = torch.randn(2, 1, 5, 8)
    made = tiled(lambda x: x.amin(1), [x])
    made.assert_matches_eager(x)
    (kernel,) = made.scheduled.kernels
    assert moved(kernel.program) == {"arg0": x.numel() * 4, "arg1!": x.numel() * 4}


@pytest.mark.test_all(but=6)
@pytest.mark.sweep
@pytest.mark.parametrize("order", ["mnk", "nmk"])
@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("tile", [(32, 16, 16), (50, 56, 61), (129, 20, 7), (1, 56, 61)])
def test_any_tile_order_and_slot_count_gives_the_same_numbers(order, buffers, tile):
    inputs = [torch.randn(129, 61), torch.randn(61, 56), torch.randn(56)]
    made = tiled(matmul_bias_gelu, inputs, tile=dict(zip("mnk", tile, strict=True)), order=list(order), buffers=buffers)
    made.assert_matches_eager(*inputs)


@pytest.mark.parametrize("tile", [{"d0": 7}, {"d0": 100, "d1": 20}, {"d0": 9, "d1": 33}, {"d1": 1}])
def test_a_reduction_may_be_split_by_the_user(tile):
    x = torch.randn(100, 77)
    tiled(softmax, [x], tile=tile).assert_matches_eager(x)


@pytest.mark.parametrize("tile", [{"d0": 5}, {"d1": 8}, {"d0": 3, "d1": 7}])
def test_a_whole_tensor_may_be_reduced_in_tiles(tile):
    x = torch.randn(37, 50)
    tiled(torch.sum, [x], tile=tile).assert_matches_eager(x)


@pytest.mark.test_all(but=12)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (matmul, [(1, 61), (61, 56)]),
        (matmul, [(33, 61), (61, 1)]),
        (matmul, [(1, 1), (1, 1)]),
        (lambda x: x.transpose(0, 1).contiguous(), [(40, 24)]),
        (lambda x, y: x + y, [(3, 1, 5, 1), (4, 1, 6)]),
        (lambda x, y: x * y, [(), (37,)]),
        (lambda x: torch.softmax(x, 0), [(1, 5)]),
        (lambda x: x.mean((0, 2), keepdim=True), [(4, 6, 8)]),
        (lambda x, y: x.t() + y, [(30, 20), (20, 30)]),
        (lambda a, b, c, d, e, f: a * b + c * d + e * f, [(2, 3, 2, 3, 2, 3)] * 6),
    ],
)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_unusual_shapes(function, shapes, machine):
    inputs = [torch.randn(shape) for shape in shapes]
    flow(function, inputs, machine=machine).assert_matches_eager(*inputs)


def test_a_batch_of_one_is_tiled_like_any_other():
    """The weight alone is four times the scratchpad: the product and its epilogue must share the tile loops."""
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(512, 520), torch.nn.ReLU())
    x = torch.randn(1, 512)
    made = flow(layer, [x], machine="edge-8x8")
    made.assert_matches_eager(x)
    program = made.scheduled.kernels[0].program
    assert count(program, Opcode.MATMUL) > 4
    weight, rest = 512 * 520 * 4, (512 + 520 + 520) * 4
    assert weight + rest <= sum(moved(program).values()) <= weight + 3 * rest  # each weight once, the row for few tiles


# -- the scheduled kernel as an artefact ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shapes", "machine"),
    [(softmax, [(4, 200_000)], "edge-8x8"), (matmul_bias_gelu, [(129, 61), (61, 56), (56,)], "tpu-v3")],
)
def test_every_step_of_the_pass_trace_can_be_reproduced(function, shapes, machine):
    made = flow(function, [torch.randn(shape) for shape in shapes], machine=machine)
    before = made.rendered[0].mlir
    names = []
    for step in made.scheduled.kernels[0].passes:
        assert reproduce(before, step.pipeline) == step.mlir, step.name
        names.append(step.name)
        before = step.mlir
    assert "tile and fuse" in names and "promote to scratchpad" in names
    assert before == made.scheduled.kernels[0].mlir


def test_the_schedule_is_the_script_that_ran():
    kernel = tiled(softmax, [torch.randn(100, 77)], tile={"d0": 32}).scheduled.kernels[0]
    assert "transform.structured.fuse" in kernel.schedule and "tile_sizes [32, 0]" in kernel.schedule
    attached = next(step for step in kernel.passes if step.name == "attach the schedule")
    assert "tile_sizes [32, 0]" in attached.mlir and "transform.named_sequence" in attached.mlir


def test_instructions_name_their_line_and_their_origins():
    made = tiled(softmax, [torch.randn(100, 77)], tile={"d0": 32})
    kernel = made.scheduled.kernels[0]
    lines = kernel.mlir.splitlines()
    for index in range(len(kernel.program)):
        instruction = kernel.program.instruction(index)
        info = kernel.program.ops[instruction.op]
        assert info.name in lines[info.line - 1]
        assert instruction.origins
    named = {kernel.program.origin_names[origin] for origin in kernel.program.origin.tolist()}
    assert {made.lowered.node(name).parent for name in named} == {"softmax"}


def test_dims_have_names():
    inputs = [torch.randn(2, 4, 8), torch.randn(2, 8, 6)]
    assert flow(torch.bmm, inputs).scheduled.kernels[0].dims == {"b": 2, "m": 4, "n": 6, "k": 8}
    assert flow(softmax, [torch.randn(100, 77)]).scheduled.kernels[0].dims == {"d0": 100, "d1": 77}


# -- legality and errors ----------------------------------------------------------------------------------------------


@pytest.mark.test_all(but=13)
@pytest.mark.parametrize("machine", machine_names())
@pytest.mark.parametrize("shapes", [((700, 900), (900, 800)), ((3, 5), (5, 2)), ((1, 4000), (4000, 1))])
def test_the_heuristic_fits_every_machine(machine, shapes):
    made = flow(matmul, [torch.randn(shape) for shape in shapes], machine=machine)
    assert made.scheduled.kernels[0].program.scratchpad_bytes <= made.machine.scratchpad_bytes


def test_a_users_mapping_that_does_not_fit_says_what_is_missing():
    with pytest.raises(DoesNotFit) as caught:
        tiled(matmul, [torch.randn(512, 512)] * 2, machine="edge-8x8", tile={"m": 512, "n": 512, "k": 512})
    machine = load_machine("edge-8x8")
    assert caught.value.capacity == machine.scratchpad_bytes < caught.value.demand
    assert caught.value.gap == caught.value.demand - caught.value.capacity
    assert sum(size for _, size in caught.value.buffers) == caught.value.demand


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            {"k9_none": {}},
            "mapping of kernel 'k9_none': no kernel has that name. The kernels are k0_matmul; '*'",
        ),
        ({"k0_matmull": {}}, "that name; did you mean 'k0_matmul'? The kernels are k0_matmul; '*' stands for all"),
        ({"*": {"tile": {"x": 4}}}, "its dims are m (64), n (64), k (64)"),
        ({"*": {"order": ["m", "n"]}}, "must name each of its dims once"),
        ({"*": {"cores": {"m": 2}}}, "takes 2 cores, the machine has 1: wb.machine(..., cores=2)"),
        (
            {"*": {"cores": {"k": 2}}},
            "k is reduced, and a reduction is not split; dims that can be",
        ),
        ({"*": {"cores": {"x": 2}}}, "cores names 'x'; dims that can be split over cores: m (64), n (64)"),
    ],
)
def test_a_wrong_mapping_says_what_is_wrong(mapping, message):
    with pytest.raises(MappingError) as caught:
        flow(matmul, [torch.randn(64, 64)] * 2, mapping=mapping)
    assert message in str(caught.value)


def test_scheduling_twice_gives_the_same_text():
    made = tiled(matmul_bias_gelu, [torch.randn(64, 64), torch.randn(64, 64), torch.randn(64)])
    again = schedule(made.lowered, made.rendered, made.machine)
    assert [kernel.mlir for kernel in again.kernels] == [kernel.mlir for kernel in made.scheduled.kernels]


def test_what_is_not_moved_has_one_slot():
    tile = {"*": {"tile": {"d0": 8}}}
    made = flow(lambda x: torch.softmax(x, 1), [torch.randn(60, 44)], machine="edge-8x8", mapping=tile)
    assert sorted(buffer.slots for buffer in made.scheduled.kernels[0].program.buffers) == [1, 1, 2, 2]


def test_the_reason_of_a_default_counts_its_steps():
    made = flow(torch.exp, [torch.randn(60, 100)], machine="edge-8x8")
    assert made.scheduled.kernels[0].mapping.reason == "3 steps of up to 2400 points"


@pytest.mark.parametrize(
    ("function", "shapes", "tile"),
    [
        (lambda x: x.to(torch.int8) + 1.0, [(5, 5000, 3)], {"d0": 1, "d1": 1560, "d2": 3}),  # packed as the widest is
        (torch.matmul, [(512, 300), (300, 400)], {"m": 128, "n": 64, "k": 112}),  # an array of 16 x 8
        (torch.matmul, [(100, 20), (20, 20)], {"m": 16, "n": 20, "k": 20}),  # with a third slot
        (
            lambda x, w: F.conv2d(x, w),
            [(1, 16, 40, 40), (64, 16, 3, 3)],
            {"oc": 64, "oh": 2, "ow": 38, "ic": 16, "kh": 3, "kw": 3},
        ),
    ],
)
def test_default_tiles_suit_the_machine(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], tile: dict[str, int]
):
    lowered = lower(capture(function, [torch.randn(shape) for shape in shapes], None).graph)
    machine = load_machine("edge-8x8", systolic_rows=16)
    (kernel,) = schedule(lowered, render(lowered), machine).kernels
    assert kernel.mapping.tile == tile


def test_columns_may_be_walked_innermost_where_windows_move():
    kinds = {"oc": "n", "ow": "m", "ic": "k", "kw": "w"}
    dims = dict.fromkeys(kinds, 4)
    moving: Any = SimpleNamespace(dims=dims, reduced=("ic", "kw"), windows=("kw",), kinds=kinds)
    cut = dict.fromkeys(kinds, 2)
    orders = [("oc", "ow", "ic", "kw"), ("ow", "oc", "ic", "kw")]
    assert heuristic._orders(moving, dims) == heuristic._orders(moving, cut) == orders


def test_rows_and_columns_are_walked_in_both_orders_where_both_are_cut():
    dims, kinds = {"m": 8, "n": 8, "k": 8}, {"m": "m", "n": "n", "k": "k"}
    still: Any = SimpleNamespace(dims=dims, reduced=("k",), windows=(), kinds=kinds)
    assert heuristic._orders(still, {"m": 4, "n": 4, "k": 8}) == [("m", "n", "k"), ("n", "m", "k")]
    assert heuristic._orders(still, {"m": 8, "n": 4, "k": 4}) == [("m", "n", "k")]


def test_a_batch_is_tiled_and_a_third_slot_taken_where_that_is_faster():
    """A load waits for the memory, so a core is faster with two of them under way."""
    shapes = [torch.randn(5, 33, 40), torch.randn(5, 40, 29)]
    chosen = flow(torch.bmm, shapes).scheduled.kernels[0].mapping
    assert chosen.buffers == 3 and 1 < chosen.tile["b"] < 5
    large = flow(torch.matmul, [torch.randn(1024, 1024)] * 2).scheduled.kernels[0].mapping
    assert large.buffers == heuristic.SLOTS


def test_places_of_a_window_that_is_cut_are_taken_one_by_one():
    machine, made = load_machine("tpu-v3"), dict[str, Any]()

    def seen(payload: Any, *rest: Any) -> Any:
        made["payload"] = payload
        return choose(payload, *rest)

    choose = heuristic.choose
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heuristic, "choose", seen)
        flow(lambda x, w: F.conv2d(x, w), [torch.randn(1, 8, 9, 9), torch.randn(8, 8, 3, 3)])
    tiles = [*heuristic._candidates(made["payload"], machine, ("kw",), least=False)]
    assert tiles and {tile["kh"] for tile in tiles} == {1} and {tile["kw"] for tile in tiles} == {3}


@pytest.mark.test_all
def test_a_reduction_that_is_split_takes_many_rows_before_long_ones():
    made = flow(lambda x: torch.softmax(x, 1), [torch.randn(64, 300_000)], machine="edge-8x8")
    (kernel,) = made.scheduled.kernels
    assert "its reduction is split" in kernel.mapping.reason
    assert kernel.mapping.tile["d0"] == 64 and kernel.mapping.tile["d1"] < 3000


def test_a_kernel_that_only_copies():
    journey = wb.trace(lambda x: torch.stack([(y := torch.round(x)), y], 1), torch.arange(75).reshape(5, 3, 5))
    assert journey.check().ok


def test_a_tile_that_cuts_what_a_constant_is_reduced_over_is_refused():
    """Created again in each round, the constant has no buffer of its own, and rows and their sums share no dim."""
    x = torch.randn(7, 2, 5, 1).bfloat16()
    j = wb.trace(lambda x: F.group_norm(torch.full_like(x, 3.0), 1), x, machine="edge-8x8")
    assert j.check().ok
    with pytest.raises(MappingError, match=r"the tile cuts d2, which is reduced.* Leave d2 whole"):
        _ = j.with_(mapping={"k0": {"tile": {"d2": 3}}}).scheduled
    assert j.with_(mapping={"k0": {"tile": {"d0": 3}}}).check().ok


@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3"])
def test_reductions_of_several_tensors_walk_them_together(machine: str):
    """Apart, each point of one would meet all points of the others: four losses took 944,556 cycles on a TPU."""

    def losses(*xs: torch.Tensor) -> torch.Tensor:
        return sum((x.square().mean() for x in xs), torch.zeros(()))

    j = wb.trace(losses, *torch.randn(4, 64, 96), machine=machine)
    (kernel,) = j.scheduled.kernels
    assert set(kernel.mapping.tile) == {"d0", "d1"}
    assert j.simulated.cycles < j.with_(fusion="none").simulated.cycles and j.check(stage="simulated").ok


def test_reductions_over_the_first_of_several_dims_have_their_results_beside_values():
    def both(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        p, q = a * 2, b * 3
        return p, q, p.sum((0, 2, 3)) + q.sum((0, 2, 3))

    assert wb.trace(both, *torch.randn(2, 2, 4, 3, 3), machine="edge-8x8").check(stage="simulated").ok
