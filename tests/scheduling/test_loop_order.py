"""Loops over parallel dims inside reduced ones: right results, exact DRAM traffic, sums that stay, and the space."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.errors import DoesNotFit
from simulator.tileprogram.program import Opcode
from tests.flow import Flow, count, flow, moved
from workbench.ground.errors import MappingError
from workbench.scheduling import schedule_kernel
from workbench.scheduling.loop_order import inside_reduced
from workbench.scheduling.mapping_space import mapping_space
from workbench.scheduling.prepared_kernel import PreparedKernel, context_for
from workbench.scheduling.scratchpad_demand import Demand

M, N, K = 64, 80, 48
TILE = {"m": 16, "n": 16, "k": 16}
LATE = [order for order in itertools.permutations("mnk") if order[-1] != "k"]

A, B, R = torch.randn(M, K), torch.randn(K, N), torch.randn(M, N)
RAGGED = torch.randn(61, 47), torch.randn(47, 83)
PRODUCTS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "product": (torch.matmul, (A, B)),
    "epilogue": (lambda a, b, r: F.gelu(a @ b + r), (A, B, R)),
    "prologue": (lambda a, b, r: torch.relu(a) @ torch.tanh(b) + r, (A, B, R)),
    "several results": (lambda a, b, r: (hidden := a @ b + r, F.gelu(hidden)), (A, B, R)),
    "ragged": (lambda a, b: F.gelu(a @ b), RAGGED),
    "whole numbers": (torch.matmul, (torch.arange(24).view(4, 6), torch.arange(30).view(6, 5))),
}
SMALL = {"whole numbers": {"m": 2, "n": 2, "k": 2}}


def ordered(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], *, machine="edge-8x8", **mapping) -> Flow:
    return flow(function, list(inputs), machine=machine, mapping={"*": mapping})


@pytest.mark.test_all(but=2)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("order", LATE, ids="".join)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_right_in_every_order(name: str, order: tuple[str, ...]):
    function, inputs = PRODUCTS[name]
    made = ordered(function, inputs, tile=SMALL.get(name, TILE), order=list(order))
    assert made.scheduled.kernels[0].mapping.order == order
    made.assert_matches_eager(*inputs)


OTHERS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...], dict[str, int], str]] = {
    "batches": (torch.bmm, (torch.randn(3, 20, 24), torch.randn(3, 24, 28)), dict(b=1, m=8, n=8, k=8), "k b m n"),
    "between": (torch.bmm, (torch.randn(3, 20, 24), torch.randn(3, 24, 28)), dict(b=1, m=8, n=8, k=8), "b n k m"),
    "rows": (lambda a, b: torch.softmax(a @ b, 1), (A, B), dict(m=16, n=N, k=16), "k m n"),
    "vector": (lambda a, b: a @ b, (torch.randn(1, 96), torch.randn(96, 80)), dict(n=16, k=32), "k n"),
    "channels": (
        lambda x, w: F.relu(F.conv2d(x, w, None, padding=1)),
        (torch.randn(2, 16, 12, 12), torch.randn(24, 16, 3, 3)),
        dict(oc=8, ic=8, oh=5),
        "b ic oc oh ow kh kw",
    ),
    "window": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        (torch.randn(1, 16, 12, 12), torch.randn(24, 16, 3, 3), torch.randn(24)),
        dict(oc=8, ic=8, oh=5, kh=1),
        "ic kh oc oh ow kw",
    ),
    "sum": (lambda x: x.sum(0), (torch.randn(200, 120),), dict(d0=50, d1=30), "d0 d1"),
    "sum of exponentials": (lambda x: torch.log(torch.exp(x).sum(0) + 1), (A,), dict(d0=16, d1=10), "d0 d1"),
    "softmax": (lambda x: torch.softmax(x, 0), (torch.randn(200, 120),), dict(d0=50, d1=30), "d0 d1"),
    "place": (lambda x: x.argmax(0), (torch.randn(200, 120),), dict(d0=50, d1=30), "d0 d1"),
    "variance": (lambda x: x.var(0), (torch.randn(200, 120),), dict(d0=50, d1=30), "d0 d1"),
}  # fmt: skip


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_right(name: str):
    function, inputs, tile, order = OTHERS[name]
    made = ordered(function, inputs, tile=tile, order=order.split())
    assert made.scheduled.kernels[0].mapping.order == tuple(order.split())
    made.assert_matches_eager(*inputs)


@pytest.mark.parametrize("name", ["epilogue", "rows", "sum"])
def test_cores_keep_the_sums_of_their_own_shares(name: str):
    function, inputs, tile, order = OTHERS.get(name) or (*PRODUCTS[name], TILE, "k m n")
    cores = {"d1" if name == "sum" else "m": 2}
    mapping = {"*": {"tile": tile, "order": order.split(), "cores": cores}}
    j = wb.trace(function, *inputs, machine=wb.machine("edge-8x8", cores=2), mapping=mapping)
    assert j.check().ok
    assert set(j.scheduled.record.kernels[0].program.core.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("order", "left", "right"), [("m n k", N // 16, M // 16), ("k m n", 1, M // 16), ("k n m", N // 16, 1)]
)
def test_each_operand_is_loaded_once_for_every_tile_that_passes_it(order: str, left: int, right: int):
    """And the result is stored once: no partial sum goes to DRAM."""
    program = ordered(torch.matmul, (A, B), tile=TILE, order=order.split()).scheduled.kernels[0].program
    assert moved(program) == {"arg0": left * M * K * 4, "arg1": right * K * N * 4, "arg2!": M * N * 4}


def test_the_simulated_bytes_are_those_of_the_loops():
    j = wb.trace(torch.matmul, A, B, machine="edge-8x8", mapping={"*": {"tile": TILE, "order": ["k", "m", "n"]}})
    usual = j.with_(mapping={"*": {"tile": TILE, "order": ["m", "n", "k"]}})
    moved_by = [
        each.simulated.stats["dram_read_bytes"] + each.simulated.stats["dram_write_bytes"] for each in (j, usual)
    ]
    once, operands = M * N * 4, (M * K * 4, K * N * 4)
    assert moved_by == [operands[0] + 4 * operands[1] + once, 5 * operands[0] + 4 * operands[1] + once]
    assert j.check().ok
    j.simulated.trace.invariants()


def test_a_products_sums_start_in_the_array():
    program = ordered(torch.matmul, (A, B), tile=TILE, order=["k", "m", "n"]).scheduled.kernels[0].program
    assert count(program, Opcode.MATMUL) == 3 * 4 * 5
    assert count(program, Opcode.VECTOR) == 0


@pytest.mark.test_all
def test_sums_that_do_not_fit_are_refused_with_their_bytes():
    large, tile = 512, {"m": 16, "n": 16, "k": 256}
    with pytest.raises(DoesNotFit) as caught:
        ordered(torch.matmul, (torch.randn(large, large),) * 2, tile=tile, order=["k", "m", "n"])
    assert max(size for _, size in caught.value.buffers) == large * large * 4
    assert "the sums of all tiles along m, n are there at once" in str(caught.value)
    assert caught.value.demand == large * large * 4 + 2 * 2 * 16 * 256 * 4
    ordered(torch.matmul, (torch.randn(large, large),) * 2, tile=tile, order=["m", "k", "n"])


REFUSED: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...], dict[str, Any], str]] = {
    "sums": (torch.matmul, (A, B), {"tile": TILE, "order": ["k", "m", "n"]}, "edge-8x8"),
    "tiles": (torch.matmul, (A, B), {"tile": {"m": 32, "n": 40, "k": 24}}, "edge-8x8"),
    "epilogue": (lambda a, b, r: F.gelu(a @ b + r), (A, B, R), {"tile": TILE, "order": ["k", "n", "m"]}, "edge-8x8"),
    "rows": (lambda a, b: torch.softmax(a @ b, 1), RAGGED, {"tile": {"m": 16, "k": 16}}, "edge-8x8"),
    "reduction in parts": (lambda x: torch.softmax(x, 1), (A,), {"tile": {"d0": 64, "d1": 24}}, "edge-8x8"),
    "cores": (torch.matmul, (A, B), {"tile": {"m": 32, "n": 40, "k": 24}, "cores": {"m": 2}}, "tpu-v4-chip"),
}


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_fit_is_refused_by_two_rounds_of_its_loops_as_the_whole_program_is(
    case: str, monkeypatch: pytest.MonkeyPatch
):
    fn, inputs, mapping, machine = REFUSED[case]
    small = wb.machine(machine, scratchpad_bytes_per_lane={"edge-8x8": 512, "tpu-v4-chip": 64}[machine])

    def refused() -> DoesNotFit:
        with pytest.raises(DoesNotFit) as caught:
            _ = wb.trace(fn, *inputs, machine=small, mapping={"*": mapping}).scheduled
        return caught.value

    early = refused()
    monkeypatch.setattr(schedule_kernel, "_check_begin", lambda *_: None)
    late = refused()
    assert str(early).partition("mapping= was")[0] == str(late).partition("mapping= was")[0]
    assert (early.demand, early.buffers) == (late.demand, late.buffers)
    fewer = len(early.program) < len(late.program)  # type: ignore[arg-type]
    assert fewer == (case in ("sums", "epilogue", "rows"))  # the others have no loop of three rounds


@pytest.mark.test_all
def test_the_space_has_these_orders_where_their_sums_fit():
    """On a small machine the sums of all columns and rows do not, those of one tile's columns do."""
    small = wb.machine("edge-8x8", scratchpad_bytes_per_lane=1024)
    assert _orders_of_the_space(wb.machine("edge-8x8")) == set(LATE)
    assert _orders_of_the_space(small) == {tuple("mkn"), tuple("nkm")}


def _orders_of_the_space(machine: wb.Machine) -> set[tuple[str, ...]]:
    """Those with a parallel dim inside k, all of which need no more of the scratchpad than the space reckons with."""
    j = wb.trace(lambda a, b, r: F.gelu(a @ b + r), A, B, R, machine=machine)
    payload_with = partial(PreparedKernel(j.rendered.record[0], context_for(None), {}).payload_with, machine)
    today = j.scheduled.record.kernels[0].mapping
    made = [each.mapping for each in mapping_space(payload_with, machine, today).candidates]
    late = [each for each in made if inside_reduced(payload_with(2), each.tile, each.order)]
    demand = {slots: Demand(machine, payload_with(slots), slots) for slots in (1, 2, 3)}
    assert all(demand[each.buffers].fits(each.tile, each.order) for each in made)
    for each in late[:: len(late) // 12]:
        said = {"tile": each.tile, "order": list(each.order), "buffers": each.buffers}
        taken = j.with_(mapping={"*": said}).scheduled.record.kernels[0].program.scratchpad_bytes
        assert taken <= demand[each.buffers].bytes(each.tile, each.order)
    return {each.order for each in late}


def test_a_file_may_ask_for_such_an_order(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'version = 1\n[[mapping]]\nops = ["matmul"]\ntile = { m = 16, n = 16, k = 16 }\norder = ["k", "m", "n"]\n'
    )
    j = wb.trace(torch.matmul, A, B, machine="edge-8x8", mapping=str(file))
    assert j.scheduled.record.kernels[0].mapping.order == ("k", "m", "n")
    assert j.check().ok


@pytest.mark.test_all
def test_several_products_keep_reduced_loops_innermost():
    weights = torch.randn(2, 256, 256)
    j = wb.trace(lambda x, u, w: (x @ u, x @ w), torch.randn(256, 256), *weights)
    (kernel,) = j.lowered.kernels
    late = {"tile": {"m": 128, "n": 128, "k": 128}, "order": ["m", "k", "n"]}
    with pytest.raises(MappingError, match="loop over n inside one over a reduced dim, but this kernel has 2 products"):
        _ = j.with_(mapping={"*": late}).scheduled
    space = j.scheduled.mapspace(kernel.name).table
    assert {"m n k", "n m k"} >= set(space[space["tile.k"] < 256].order)
    assert j.with_(mapping={"*": late}, fusion={"off": ["products of one operand"]}).check().ok


def test_a_gathered_result_is_not_stored_from_a_sum_inside_of_other_loops():
    def program(x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        taken = x.index_select(1, rows)
        return taken, taken.norm(dim=2, keepdim=True)

    journey = wb.trace(program, torch.randn(2, 3, 4, 4), torch.tensor([1, 2]), machine="edge-8x8")
    dims = journey.scheduled.record.kernels[0].mapping.tile
    alone, around = ({"tile": tile, "order": [*dims], "buffers": 1} for tile in ({"d2": 2}, {"d0": 1, "d2": 2}))
    assert journey.with_(mapping={"k0": alone}).check()
    with pytest.raises(MappingError, match="made on the way to a reduction is not stored where loops") as caught:
        _ = journey.with_(mapping={"k0": around}).scheduled
    assert caught.value.key == "tile"
