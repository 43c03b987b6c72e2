"""Reading at places that tensors say: numbers, bytes, timelines, and indices that are out of range."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from simulator.tileprogram.program import Opcode
from tests.agreement import MACHINES, agrees_on_fresh, in_trace_order
from tests.flow import count, flow
from tests.fresh_process import python
from tests.simulated_records import simulate
from workbench.ground.errors import IndexOutOfRange
from workbench.ir import AtenGraph

Maker = Callable[[], torch.Tensor]


def ints(high: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> Maker:
    return lambda: torch.randint(low, high, shape, dtype=dtype)


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Maker:
    return lambda: torch.randn(shape).to(dtype)


EMBEDDING: Callable[..., Any] = lambda w, i: F.embedding(i, w)  # noqa: E731

CASES: dict[str, tuple[Callable[..., Any], tuple[Maker, ...]]] = {
    "embedding": (EMBEDDING, (floats(100, 96), ints(100, 50))),
    "embedding_2d_i32": (EMBEDDING, (floats(37, 13), ints(37, 5, 7, dtype=torch.int32))),
    "embedding_padding_idx": (
        lambda w, i: F.embedding(i, w, padding_idx=3),
        (floats(19, 8, dtype=torch.float16), ints(19, 3, 1, 7)),
    ),
    "embedding_one": (EMBEDDING, (floats(1, 1), ints(1, 1))),
    "embedding_number": (EMBEDDING, (floats(40, 33), ints(40))),
    "index_select_columns": (lambda x, i: x.index_select(1, i), (floats(6, 31), ints(31, 17))),
    "index_select_middle": (lambda x, i: x.index_select(1, i), (ints(99, 3, 17, 5), ints(17, 9))),
    "index_select_transposed": (lambda x, i: x.t().index_select(0, i) + 1, (floats(11, 13), ints(13, 33))),
    "index_select_last_bool": (lambda x, i: x.index_select(-1, i), (ints(2, 3, 5, dtype=torch.bool), ints(5, 9))),
    "gather_i32": (lambda x, i: x.gather(1, i), (floats(20, 17), ints(17, 20, 3, dtype=torch.int32))),
    "gather_middle": (lambda x, i: torch.relu(x.gather(1, i)), (floats(3, 17, 5), ints(17, 2, 9, 5))),
    "gather_1d_bf16": (lambda x, i: x.gather(0, i), (floats(11, dtype=torch.bfloat16), ints(11, 20))),
    "gather_expanded": (lambda x, i: x.gather(1, i.expand(9, 5)), (floats(9, 11), ints(11, 1, 5))),
    "take": (lambda x, i: x.t().take(i), (floats(8, 9), ints(72, 3, 5, low=-72))),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (floats(7, 12), ints(12, 1, 5))),
    "rows": (lambda x, i: x[i], (floats(20, 33), ints(20, 5, 3, low=-20))),
    "columns": (lambda x, i: x[:, i], (floats(9, 20), ints(20, 13, low=-20, dtype=torch.int32))),
    "pairs": (lambda x, i, j: x[i, j], (floats(20, 30), ints(20, 33, low=-20), ints(30, 33, low=-30))),
    "grid": (lambda x, i, j: x[i[:, None], j] * 2, (floats(20, 30), ints(20, 6), ints(30, 7))),
    "apart": (lambda x, i, j: x[i, :, j], (floats(5, 6, 7), ints(5, 4, 1), ints(7, 3))),
    "same_twice": (lambda x, i: x[i, i], (floats(5, 7), ints(5, 4, low=-5))),
    "six_dims": (lambda x, i: x.index_select(2, i), (floats(2, 3, 4, 2, 3, 2), ints(4, 5))),
    "positions_added": (
        lambda w, i, p, q: F.embedding(i, w) * 2 + F.embedding(q, p),
        (floats(50, 24), ints(50, 4, 9), floats(9, 24), lambda: torch.arange(9).expand(4, 9)),
    ),
    "normalised": (lambda w, i: F.layer_norm(F.embedding(i, w), (24,)), (floats(50, 24), ints(50, 17))),
    "mean_of_rows": (lambda w, i: F.embedding(i, w).mean(1), (floats(50, 24), ints(50, 4, 9))),
    "beside_a_product": (
        lambda a, b, w, i: a @ b + F.embedding(i, w),
        (floats(21, 30), floats(30, 24), floats(50, 24), ints(50, 21)),
    ),
    "table_of_a_kernel": (lambda w, i: F.embedding(i, torch.relu(w)), (floats(21, 24), ints(21, 21))),
    "indices_of_a_kernel": (lambda w, i: F.embedding(i * 2 + 1, w), (floats(50, 24), ints(24, 21))),
}


BAGS: dict[str, tuple[Callable[..., Any], tuple[Maker, ...]]] = {
    "bags": (
        lambda w, i, each: F.embedding_bag(i, w, mode="sum", per_sample_weights=each),
        (floats(50, 24), ints(50, 4, 9), floats(4, 9)),
    ),
    "bags_to_the_last_offset": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="mean", padding_idx=2, include_last_offset=True),
        (floats(50, 24), ints(50, 17), lambda: torch.tensor([0, 3, 3, 17])),
    ),
    "largest_in_bags_without_the_last_row": (
        lambda w, i: F.embedding_bag(i, w, mode="max", padding_idx=-1),
        (floats(5, 24), ints(5, 4, 9)),
    ),
}


def drawn(makers: Sequence[Maker], seed: int = 0) -> tuple[torch.Tensor, ...]:
    """A tensor from each maker, the same ones for the same seed."""
    torch.manual_seed(seed)
    return tuple(make() for make in makers)


@pytest.mark.test_all(but=8)
@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_numbers_natively_and_in_trace_order(name: str, machine: str):
    function, makers = CASES[name]
    fresh = drawn(makers, 7)
    made = agrees_on_fresh(function, drawn(makers), fresh, {"builder", "automatic", "view"}, machine)
    trace = in_trace_order(made, fresh, 1e-4)
    assert trace.assumed.any() == (name == "indices_of_a_kernel")


def test_an_embedding_moves_its_rows_its_indices_and_its_result():
    made = flow(EMBEDDING, (torch.randn(100, 96), torch.randint(0, 100, (50,))), machine="edge-8x8")
    trace = simulate(made.lowered, made.scheduled, made.machine)
    assert trace.counters["dram_read_bytes"] == 50 * 96 * 4 + 50 * 8
    assert trace.counters["dram_write_bytes"] == 50 * 96 * 4
    assert trace.counters["dram_request_bytes"] >= 2 * 50 * 96 * 4 + 50 * 8


def test_a_sum_of_embeddings_is_one_kernel_whose_vector_unit_does_the_sum_only():
    made = flow(*_positions(), machine="tpu-v3")
    (kernel,) = made.scheduled.kernels
    sums = count(kernel.program, Opcode.VECTOR)
    assert sums and count(kernel.program, Opcode.GATHER) == 2 * sums


def _positions() -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    return CASES["positions_added"][0], drawn(CASES["positions_added"][1])


def test_rows_far_apart_and_rows_alike_cost_alike_and_single_elements_a_request_each():
    """The flat memory takes whole requests: rows of 64 bytes aligned, elements of 4 bytes as 64."""
    table, ids = torch.randn(64, 64), torch.randint(0, 64, (64,))
    rows = simulated(lambda x, i: x.index_select(0, i), table, ids)
    elements = simulated(lambda x, i: x.gather(0, i), table, ids[:, None].expand(64, 64).contiguous())
    assert rows.counters["dram_write_bytes"] == elements.counters["dram_write_bytes"]
    gathered = elements.counters["dram_request_bytes"] - elements.counters["dram_write_bytes"] - 64 * 64 * 8
    assert gathered == 64 * 64 * elements.machine.dram.request_bytes


def simulated(function: Callable[..., Any], *given: torch.Tensor) -> Any:
    made = flow(function, given, machine="edge-8x8")
    return simulate(made.lowered, made.scheduled, made.machine)


@pytest.mark.parametrize(
    ("function", "good", "bad", "said"),
    [
        (lambda x, i: F.embedding(i, x), 3, 10, "its indices (i) hold 10; expected 0 to 9."),
        (lambda x, i: F.embedding(i, x), 3, -1, "its indices (i) hold -1; expected 0 to 9."),
        (lambda x, i: x[:, i], 3, -5, "its indices (i) hold -5; expected -4 to 3, where -4 to -1 count from the end."),
        (lambda x, i: x.gather(0, i[:, None]), 3, 10, "its index (i) holds 10; expected 0 to 9."),
    ],
)
def test_an_index_out_of_range_is_one_error_traced_or_run(function: Any, good: int, bad: int, said: str):
    x, right, wrong = torch.randn(10, 4), torch.tensor([0, good]), torch.tensor([0, bad])
    j = wb.trace(function, x, right, machine="tpu-v3")
    with pytest.raises(IndexOutOfRange) as caught:
        j.run(x, wrong)
    assert said in str(caught.value) and "test_index_reads.py:" in str(caught.value)
    with pytest.raises(IndexOutOfRange) as caught:
        wb.trace(function, x, wrong, machine="tpu-v3")
    assert said in str(caught.value)
    torch.testing.assert_close(j.run(x, right), function(x, right))


def test_the_numbers_of_indices_are_in_the_record_and_those_of_weights_are_not():
    made = flow(EMBEDDING, drawn(CASES["embedding"][1]))
    graph = AtenGraph.from_json(made.captured.graph.to_json())
    (numbers,) = graph.numbers
    assert numbers.array.tolist() == drawn(CASES["embedding"][1])[1].tolist()


@pytest.mark.test_all
def test_a_saved_journey_with_a_gather_takes_the_same_cycles_without_torch(tmp_path):
    j = wb.trace(EMBEDDING, *drawn(CASES["embedding"][1]))
    j.save(tmp_path / "j.wbj")
    code = f"""
import sys
for name in ("torch", "torch_mlir"):
    sys.modules[name] = None
import workbench as wb
j = wb.load({str(tmp_path / "j.wbj")!r})
again = wb.simulate(j.lowered, j.scheduled, machine=j.machine)
print(j.simulated.cycles, again.cycles, int(again.record.assumed.sum()))
"""
    assert python("-c", code).split() == [str(j.simulated.cycles)] * 2 + ["0"]


def test_a_class_out_of_range_is_an_error_before_anything_runs():
    def classes(x: torch.Tensor) -> torch.Tensor:
        return F.one_hot(x.argmax(-1) + 1, 4) * 2

    line = inspect.getsourcelines(classes)[1] + 1
    told = rf"one_hot at .*test_index_reads\.py:{line}: its classes \(add\) hold 4; expected 0 to 3"
    journey = wb.trace(classes, torch.eye(4)[:3], machine="edge-8x8")
    assert journey.check().ok
    with pytest.raises(IndexOutOfRange, match=told):
        journey.run(torch.eye(4)[1:])
    with pytest.raises(IndexOutOfRange, match=r"its classes \(x\) hold -1; expected 0 to 3"):
        wb.trace(lambda x: F.one_hot(x, 4), torch.tensor([0, -1]), machine="edge-8x8")


@pytest.mark.parametrize("train", [False, True])
def test_a_label_out_of_range_is_told_by_the_users_name(train: bool):
    model = nn.Linear(8, 4)

    def loss(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(inputs), labels)

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        made = loss(inputs, labels)
        made.backward()
        return made.detach()

    x, right = torch.randn(6, 8), torch.tensor([0, 3, 1, 2, -100, 0])
    j = wb.trace(step if train else loss, x, right, machine="edge-8x8", train=train)
    line = inspect.getsourcelines(loss)[1] + 1
    told = rf"at .*test_index_reads\.py:{line}: its index \(labels\) holds 99; expected 0 to 3"
    with pytest.raises(IndexOutOfRange, match=told):
        j.run(x, torch.where(right == 1, 99, right))


def test_computed_indices_have_their_own_name_and_copied_ones_that_of_the_input():
    j = wb.trace(lambda x, i: x[i.T.clone()], torch.randn(4), torch.tensor([[0, 1]]), machine="edge-8x8")
    with pytest.raises(IndexOutOfRange, match=r"its indices \(i\) hold 4; expected -4 to 3"):
        j.run(torch.randn(4), torch.tensor([[0, 4]]))
    j = wb.trace(lambda x, i: x[i + 1], torch.randn(4), torch.tensor([0, 1]), machine="edge-8x8")
    with pytest.raises(IndexOutOfRange, match=r"its indices \(add\) hold 4; expected -4 to 3"):
        j.run(torch.randn(4), torch.tensor([0, 3]))


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", BAGS)
def test_bags_of_rows_have_kernels(name: str):
    function, makers = BAGS[name]
    j = wb.trace(function, *drawn(makers), machine="edge-8x8")
    assert j.check().ok and j.check(stage="simulated").ok
    assert "host" not in set(j.lowered.table.route)


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_offsets_of_bags_lie_within_the_indices(mode: str):
    table, indices = torch.arange(1.0, 7).reshape(3, 2), torch.tensor([0, 2, 2])

    def bags(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, table, offsets, mode=mode, include_last_offset=True)

    j = wb.trace(bags, indices, torch.tensor([0, 1, 3]), machine="edge-8x8")
    assert j.check().ok
    assert torch.equal(j.run(indices, torch.tensor([0, 1, 2])), table[[0, 2]])  # what lies beyond the end is left out
    with pytest.raises(IndexOutOfRange, match=r"its offsets \(offsets\) hold 5; expected 0 to 3"):
        j.run(indices, torch.tensor([0, 1, 5]))
