"""Writing at places that tensors say, and the losses that read at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.tileprogram.program import Opcode
from tests.agreement import MACHINES, agrees_on_fresh, in_trace_order
from tests.flow import flow
from tests.formulas.test_index_reads import Maker, drawn, floats, ints
from tests.simulated_records import simulate
from workbench.ground.errors import IndexOutOfRange


def some(high: int, count: int) -> Maker:
    return lambda: torch.randperm(high)[:count]


def reducing(reduce: str, include: bool = True) -> Callable[..., Any]:
    return lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include)


def columns_set(x: torch.Tensor, i: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, i] = values
    return y


def masked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[x > 0] = 0.5
    return y


SCATTERED = (floats(9, 7), ints(9, 20, 6), floats(20, 7))
CLASSES = (floats(9, 7), ints(7, 9))
INTEGERS: Callable[..., Maker] = lambda *shape: ints(99, *shape, dtype=torch.int32)  # noqa: E731

CASES: dict[str, tuple[Callable[..., Any], tuple[Maker, ...]]] = {
    "scatter_value_i32": (lambda x, i: x.scatter(1, i, 2.5), (floats(9, 7), ints(7, 4, 3, dtype=torch.int32))),
    "scatter_inf": (lambda x, i: x.scatter(1, i, float("-inf")), (floats(5, 6, 4), ints(6, 5, 2, 4))),
    "scatter_add_itself": (lambda x, i: x.scatter_add(0, i, x), (floats(9, 7), ints(9, 9, 7))),
    "scatter_add_i64": (lambda x, i, s: x.scatter_add(0, i, s), (ints(9, 9), ints(9, 40), ints(9, 40))),
    "scatter_with": (lambda x, i, s: x.scatter(0, i, s, reduce="multiply"), SCATTERED),
    "masked_scatter": (lambda x, s: x.expand(3, 9, 7).masked_scatter(x > 0, s), (floats(9, 7), floats(200))),
    "put": (lambda x, i, s: x.t().put(i - 5, s), (floats(9, 7), some(60, 12), floats(12))),
    "put_added": (lambda x, i, s: x.put(i, s, accumulate=True), (floats(9, 7), ints(63, 30), floats(30))),
    "prod": (reducing("prod"), SCATTERED),
    "amax_alone": (reducing("amax", False), SCATTERED),
    "amin_i32": (reducing("amin"), (INTEGERS(9, 7), ints(9, 8, 7), INTEGERS(8, 7))),
    "sum_alone": (reducing("sum", False), SCATTERED),
    "mean": (reducing("mean"), SCATTERED),
    "mean_alone": (reducing("mean", False), SCATTERED),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), (floats(9, 7), ints(9, 20), floats(20, 7))),
    "index_add_columns": (
        lambda x, i, s: x.index_add(1, i, s, alpha=2),
        (floats(3, 7, 2), ints(7, 20, dtype=torch.int32), floats(3, 20, 2)),
    ),
    "index_copy": (lambda x, i, s: x.index_copy(1, i, s), (floats(9, 7), some(7, 3), floats(9, 3))),
    "index_fill": (lambda x, i: x.index_fill(0, i, -1.0), (floats(9, 7), ints(9, 3, low=-9))),
    "index_fill_tensor": (lambda x, i, v: x.index_fill(1, i, v), (floats(9, 7), ints(7, 3), floats())),
    "put_adding": (
        lambda x, i, s: x.index_put((i,), s, accumulate=True),
        (floats(9, 7), ints(9, 20, low=-9), floats(20, 7)),
    ),
    "put_pairs": (lambda x, i, j, v: x.index_put((i, j), v), (floats(9, 7), some(9, 5), ints(7, 5), floats())),
    "put_row": (lambda x, i, v: x.index_put((i,), v), (floats(9, 7), ints(9), floats(7))),
    "columns_set": (columns_set, (floats(9, 7), some(7, 3), floats(9, 1))),
    "masked": (masked, (floats(9, 7),)),
    "many": (lambda x, i, s: x.index_add(0, i, s), (floats(200, 130), ints(200, 300), floats(300, 130))),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t, ignore_index=2), CLASSES),
    "cross_entropy_smoothed": (
        lambda x, t, w: F.cross_entropy(x, t, weight=w.abs(), label_smoothing=0.1),
        (*CLASSES, floats(7)),
    ),
    "cross_entropy_places": (
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        (floats(2, 5, 3, 4), ints(5, 2, 3, 4)),
    ),
    "nll": (lambda x, t, w: F.nll_loss(x, t, w, reduction="sum"), (*CLASSES, floats(7))),
}


@pytest.mark.test_all(but=4)
@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_numbers_natively_and_in_trace_order(name: str, machine: str):
    function, makers = CASES[name]
    fresh = drawn(makers, 7)
    routes = {"template", "builder", "automatic", "view"}
    in_trace_order(agrees_on_fresh(function, drawn(makers), fresh, routes, machine), fresh, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_16_bits_are_within_what_rounding_each_costs(dtype: torch.dtype):
    torch.manual_seed(0)
    x, i, s = torch.randn(9, 7).to(dtype), torch.randint(0, 9, (20,)), torch.randn(20, 7).to(dtype)
    j = wb.trace(lambda x, i, s: x.index_add(0, i, s), x, i, s)
    check = j.check()
    assert check.ok, check


def test_rows_that_are_added_are_read_and_written_and_come_one_tile_after_the_other():
    """Two tiles of rows may hit the same row: the second waits for the first."""
    made = flow(*(CASES["many"][0], drawn(CASES["many"][1])), machine="edge-8x8")
    trace = simulate(made.lowered, made.scheduled, made.machine)
    rows, row = 300, 130 * 4
    assert trace.counters["dram_write_bytes"] == 200 * row + rows * row
    assert trace.counters["dram_read_bytes"] >= 200 * row + 2 * rows * row + rows * 8
    scatters = trace.kind == Opcode.SCATTER
    assert scatters.sum() > 1
    starts, ends = trace.start[scatters], trace.end[scatters]
    assert (starts[1:] >= ends[:-1]).all()


@pytest.mark.parametrize(
    ("function", "low", "bad"),
    [
        (lambda x, i: x.scatter(0, i[:, None], 1.0), 0, -1),
        (lambda x, i: x.index_add(0, i, x[:2]), 0, 10),
        (lambda x, i: x.index_put((i,), x[0]), -10, -11),
        (lambda x, i: F.nll_loss(x[:, :2].t(), i), 0, 11),
    ],
)
def test_nothing_is_written_beside_a_tensor(function: Callable[..., Any], low: int, bad: int):
    x = torch.randn(10, 4)
    j = wb.trace(function, x, torch.tensor([0, 3]), machine="tpu-v3")
    with pytest.raises(IndexOutOfRange, match=rf"(index|indices) \(i\) holds? {bad}; expected {low} to 9"):
        j.run(x, torch.tensor([0, bad]))
