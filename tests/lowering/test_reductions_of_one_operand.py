"""Reductions of one operand, and what is beside them, in one kernel: right, each byte moved once, faster than apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.machine.machine_file import load_machine
from tests.flow import flow, moved
from workbench.ground.errors import MappingError, ScheduleScriptError
from workbench.lowering.product_room import FEW, READ_ONCE
from workbench.scheduling.loop_order import inside_reduced
from workbench.scheduling.mapping_space import mapping_space
from workbench.scheduling.prepared_kernel import PreparedKernel, context_for

APART = {"off": [READ_ONCE, "several results"]}
ROWS, COLUMNS = 37, 53

Program = Callable[..., Any]

OF_ONE: dict[str, Program] = {
    "var_mean": lambda x: torch.var_mean(x, -1),
    "std_mean of columns": lambda x: torch.std_mean(x, 0),
    "max with places": lambda x: torch.max(x, 1),
    "min with places, of columns": lambda x: torch.min(x, 0),
    "aminmax": lambda x: torch.aminmax(x, dim=1),
    "sum beside max": lambda x: (x.sum(-1), x.amax(-1, keepdim=True)),
    "of all": lambda x: (x.sum(), x.amax()),
    "three": lambda x: (x.sum(0), x.amax(0), x.amin(0)),
    "with ops before": lambda x: (torch.relu(x).sum(-1), (x > 0).any(-1), x.amax(-1)),
    "a relu and its sum": lambda x: (torch.relu(x), torch.relu(x).sum(-1)),
    "a value and what reduces it": lambda x: (y := torch.relu(x), y.amax(-1)),
    "pointwise beside it": lambda x: (torch.exp(x), x.sum(-1)),
    "pointwise beside columns": lambda x: (torch.sigmoid(x), x.sum(0, keepdim=True)),
    "a softmax and its maximum": lambda x: (torch.softmax(x, -1), x.amax(-1)),
    "a norm, a sum, another op": lambda x: (F.layer_norm(x, (COLUMNS,)), x.sum(-1), torch.exp(x)),
    "a mean and what is centred": lambda x: (m := x.mean(-1, keepdim=True), x - m),
    "a value, its sum, their quotient": lambda x: (y := torch.relu(x), s := y.sum(-1, keepdim=True), y / (s + 1)),
    "two values of which one is summed": lambda x: (y := torch.relu(x), torch.exp(x), y.sum(-1)),
}
WHOLE_NUMBERS = (
    "max with places", "min with places, of columns", "aminmax", "sum beside max", "of all", "with ops before",
    "a value and what reduces it",
)  # fmt: skip

AFTER_PRODUCT: dict[str, Program] = {
    "it and its maximum": lambda a, b: (y := a @ b, y.amax(-1)),
    "it and a relu of it": lambda a, b: (y := a @ b, torch.relu(y)),
    "a relu and its maximum": lambda a, b: (y := torch.relu(a @ b), y.amax(-1)),
    "var_mean": lambda a, b: torch.var_mean(a @ b, -1),
    "max with places": lambda a, b: torch.max(a @ b, -1),
    "it and a softmax": lambda a, b: (y := a @ b, torch.softmax(y, -1)),
    "logsumexp and it": lambda a, b: (torch.logsumexp(y := a @ b, -1), y),
    "of a linear layer": lambda a, b: (y := F.linear(a, b.t()), y.mean(-1), F.layer_norm(y, y.shape[-1:])),
}


def doubled_in_place(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.mul_(2)
    return x * 1, x.sum()


def of_several_kernels(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    value = torch.relu(x * 0.5)
    return value.max(), x.bool(), torch.minimum(value, x).expand(3, -1, -1)


STORED_TWICE: dict[str, Program] = {
    "a value and its sum, in place": doubled_in_place,
    "a value beside a sum": lambda x: (torch.relu(x), torch.relu(x) * 1, x.sum(-1)),
    "the operand and its sum": lambda x: (x * 1, x.sum(-1)),
    "a sum": lambda x: (x.sum(-1), x.sum(-1) * 1, x.amax(-1)),
    "a sum beside a value": lambda x: (s := x.sum(-1), s * 1, torch.exp(x)),
}
SUMS_FIRST: dict[str, Program] = {
    "two values": lambda x: (x.sum(-1), x + 1, torch.sigmoid(x)),
    "a value and what is made of it": lambda x: (x.sum(-1), y := x / (x.abs() + 1), y - x),
    "of columns": lambda x: (x.sum(0), x.amax(0, keepdim=True), x + 1, (x + 1) * 2),
    "of all, and types differ": of_several_kernels,
}


def numbers(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """With equal numbers, a row that is not finite, and one with a NaN, where the type has them."""
    torch.manual_seed(0)
    made = torch.randint(-3, 4, (ROWS, COLUMNS)).to(dtype)
    if dtype.is_floating_point:
        made[1::2] += torch.randn(made[1::2].shape).to(dtype)
        made[3], made[5, 7] = -torch.inf, torch.nan
    return made


def factors() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, 45)


def refused(j: wb.Journey) -> list[str]:
    return [each.reason for each in j.lowered.record.fusions if each.rule == READ_ONCE and not each.fused]


def check_one_kernel(j: wb.Journey, inputs: tuple[torch.Tensor, ...]) -> None:
    (kernel,) = j.lowered.record.kernels
    assert len(kernel.outputs) > 1
    assert j.check().ok and j.check(stage="rendered").ok
    apart = j.with_(fusion=APART)
    assert len(apart.lowered.record.kernels) > 1
    assert all(len(each.outputs) == 1 for each in apart.lowered.record.kernels)
    assert j.simulated.trace.makespan < apart.simulated.trace.makespan


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", OF_ONE)
def test_one_kernel_is_right_and_faster(name: str, machine: str):
    x = numbers()
    j = wb.trace(OF_ONE[name], x, machine=machine)
    check_one_kernel(j, (x,))
    (scheduled,) = j.scheduled.record.kernels
    results = [each for each in OF_ONE[name](x) if isinstance(each, torch.Tensor)]
    assert sorted(moved(scheduled.program).values()) == sorted(each.nbytes for each in (x, *results))


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", AFTER_PRODUCT)
def test_what_follows_a_product_is_in_its_kernel(name: str, machine: str):
    check_one_kernel(wb.trace(AFTER_PRODUCT[name], *factors(), machine=machine), factors())


@pytest.mark.test_all(but=3)
@pytest.mark.sweep(one_in=3)
@pytest.mark.parametrize("name", OF_ONE)
def test_in_16_bits(name: str):
    j = wb.trace(OF_ONE[name], numbers(torch.bfloat16))
    assert len(j.lowered.record.kernels) == 1 and j.check().ok


@pytest.mark.test_all
@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_whole_numbers(name: str):
    j = wb.trace(OF_ONE[name], numbers(torch.int64))
    assert len(j.lowered.record.kernels) == 1 and j.check().ok


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("tile", [{"d0": 7}, {"d0": 10, "d1": 20}])
@pytest.mark.parametrize("name", OF_ONE)
def test_in_ragged_tiles_and_in_parts_of_rows(name: str, tile: dict[str, int]):
    assert wb.trace(OF_ONE[name], numbers(), mapping={"*": {"tile": tile}}).check().ok


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", AFTER_PRODUCT)
def test_in_ragged_tiles_of_products(name: str):
    assert wb.trace(AFTER_PRODUCT[name], *factors(), mapping={"*": {"tile": {"m": 7, "k": 20}}}).check().ok


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("tile", [{}, {"d0": 10, "d1": 20}])
@pytest.mark.parametrize("name", SUMS_FIRST)
def test_results_come_in_any_order(name: str, tile: dict[str, int]):
    j = wb.trace(SUMS_FIRST[name], numbers(), machine="edge-8x8", mapping={"*": {"tile": tile}})
    assert any(len(kernel.outputs) > 1 for kernel in j.lowered.record.kernels) or name == "of all, and types differ"
    assert j.check().ok and j.check(stage="rendered").ok


@pytest.mark.test_all
@pytest.mark.parametrize("name", STORED_TWICE)
def test_what_changes_nothing_stays_apart(name: str):
    j = wb.trace(STORED_TWICE[name], numbers(), machine="edge-8x8")
    assert len(j.lowered.record.kernels) > 1
    assert j.check().ok and j.check(stage="rendered").ok


BY_ROWS = (
    "var_mean", "a value and what reduces it", "pointwise beside it", "a softmax and its maximum",
    "a value, its sum, their quotient",
)  # fmt: skip


@pytest.mark.test_all
@pytest.mark.parametrize("name", BY_ROWS)
def test_on_several_cores(name: str):
    j = wb.trace(OF_ONE[name], numbers(), machine="tpu-v4-chip")
    (kernel,) = j.scheduled.record.kernels
    assert kernel.mapping.cores and j.check().ok


@pytest.mark.test_all
def test_a_maximum_and_its_place_agree_with_pytorch():
    x = torch.tensor([[1.0, 3, 3, 2], [0, -torch.inf, torch.nan, torch.nan], [-torch.inf] * 4, [-0.0, 0, -0.0, 0]])
    j = wb.trace(lambda x: torch.max(x, 1), x)
    assert len(j.lowered.record.kernels) == 1
    values, places = j.run(x)
    assert places.tolist() == torch.max(x, 1).indices.tolist() == [1, 2, 0, 0]
    torch.testing.assert_close(values, torch.max(x, 1).values, equal_nan=True)


@pytest.mark.test_all
def test_equal_reductions_are_done_once():
    """The mean that a variance needs is the mean that is asked for."""
    (kernel,) = wb.trace(OF_ONE["var_mean"], numbers()).scheduled.record.kernels
    alone = wb.trace(lambda x: torch.var(x, -1), numbers()).scheduled.record.kernels[0]
    assert len(kernel.program) <= len(alone.program) + 3  # a fill, a scale and a store at most


APART_ANYWAY: dict[str, tuple[Program, str]] = {
    "other dims": (lambda x: (x.sum(0), x.amax(1)), "do not share one loop nest"),
    "of the turned": (lambda x: (x.sum(0), torch.exp(x).cumsum(1).sum(1), x.amax(1)), "do not share one loop nest"),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", APART_ANYWAY)
def test_what_stays_apart_says_why(name: str):
    function, said = APART_ANYWAY[name]
    j = wb.trace(function, torch.randn(8, 8))
    assert any(said in reason for reason in refused(j)), refused(j)
    assert j.check().ok


@pytest.mark.test_all
def test_a_copy_beside_a_reduction_stays_a_transfer():
    j = wb.trace(lambda x: (x.clone(), x.sum(-1), torch.cat([x, torch.relu(x)])), numbers())
    assert j.check().ok
    assert not any("clone" in kernel.name and "sum" in kernel.name for kernel in j.lowered.record.kernels)


@pytest.mark.test_all
def test_a_gather_shares_its_indices_and_not_what_it_looks_into():
    """It has that nowhere near the loops of a reduction."""
    x, places = torch.randn(4, 4, 2), torch.arange(32).reshape(4, 4, 2) % 4
    j = wb.trace(lambda x, i: (x.gather(0, i), (x > 0).any(1), i.amax(1)), x, places)
    assert j.check().ok
    assert [{"gather", "any"} <= {*kernel.name.split("_")} for kernel in j.lowered.record.kernels] == [False, False]
    assert any({"gather", "amax"} <= {*kernel.name.split("_")} for kernel in j.lowered.record.kernels)


@pytest.mark.test_all
def test_what_is_made_of_no_tensor_is_no_result_beside_a_reduction_of_it():
    """MLIR makes one number of it, which no loop of the kernel is known to walk. Where it is no result it may stay."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = torch.log(torch.zeros_like(x).abs() + 1)
        return made, torch.relu(made * 0.5 + 1), made.std(0, keepdim=True)

    j = wb.trace(function, torch.randn(5, 9), machine="edge-8x8")
    assert j.check().ok
    assert any("reads no tensor" in reason for reason in refused(j))
    inside = wb.trace(lambda x: (y := x + (torch.zeros_like(x) + 1).exp(), y.sum(-1)), torch.randn(4, 5))
    assert inside.check().ok and len(inside.lowered.kernels) == 1


@pytest.mark.test_all
def test_python_between_them_keeps_them_apart():
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = x.sum(-1)
        torch._dynamo.graph_break()
        return first, x.amax(-1)

    j = wb.trace(function, numbers())
    assert refused(j) == ["Python runs between them, and may change what they read"]


def test_the_rule_and_pairs_can_be_turned_off():
    j = wb.trace(OF_ONE["sum beside max"], numbers(), fusion={"off": [READ_ONCE]})
    assert refused(j) == [f"the rule {READ_ONCE!r} is turned off"]
    assert "bytes come back" in j.findings[j.findings.rule == "missed fusions"].reason.iloc[0]
    j = wb.trace(OF_ONE["sum beside max"], numbers(), fusion=[("sum", "amax")])
    assert refused(j) == ["kept apart on request: amax and sum"]


def test_rows_too_long_for_a_scratchpad_gain_nothing_there():
    x = torch.randn(8, 100_000)
    j = wb.trace(OF_ONE["sum beside max"], x, machine="edge-8x8")
    (reason,) = refused(j)
    assert reason.startswith(FEW) and "each reduction loads it anew" in reason
    assert "missed fusions" not in set(j.findings.rule)
    assert len(j.with_(machine="tpu-v3").lowered.record.kernels) == 1
    value = wb.trace(OF_ONE["a value and what reduces it"], x, machine="edge-8x8")
    assert any(FEW in fusion.reason for fusion in value.lowered.record.fusions)
    assert len(value.with_(machine="tpu-v3").lowered.record.kernels) == 1


def test_sums_that_would_be_stored_in_parts_are_refused():
    mapping = {"*": {"tile": {"d0": 8, "d1": 8}, "order": ["d1", "d0"]}}
    j = wb.trace(OF_ONE["sum beside max"], numbers(), mapping=mapping)
    with pytest.raises(MappingError, match="stores results of several ops"):
        j.check()


@pytest.mark.test_all
def test_the_space_of_mappings_has_none_that_is_refused():
    machine = load_machine("edge-8x8")
    made = flow(OF_ONE["sum beside max"], [numbers()], machine="edge-8x8")
    payload_with = partial(PreparedKernel(made.rendered[0], context_for({}), {}).payload_with, machine)
    space = mapping_space(payload_with, machine, made.scheduled.kernels[0].mapping)
    assert len(space.candidates) > 20
    payload = payload_with(1)
    assert not any(inside_reduced(payload, each.mapping.tile, each.mapping.order) for each in space.candidates)


def test_a_script_that_loses_a_result_is_refused():
    j = wb.trace(OF_ONE["a value and what reduces it"], numbers(), mapping={"*": {"tile": {"d0": 10}}})
    (kernel,) = j.scheduled.record.kernels
    *lines, yielded, end = kernel.schedule.splitlines()
    handle = "!transform.any_op"
    lines += [
        f"  %mine = transform.structured.match attributes {{npu.id = 0 : i64}} in %root : ({handle}) -> {handle}",
        "  %tile, %loop = transform.structured.tile_using_for %mine tile_sizes [0, 20] "
        f": ({handle}) -> ({handle}, {handle})",
    ]
    again = j.with_(schedule={kernel.kernel: "\n".join([*lines, yielded, end])})
    with pytest.raises(ScheduleScriptError, match="not stored"):
        again.check()


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["and", "compared", "xor", "less itself"])
def test_what_is_the_same_number_everywhere_stays_apart(name: str):
    made: Any = {
        "and": lambda x: (x & 0, x.sum(-1)),
        "compared": lambda x: ((x == x) | (x != x), x.amax(-1)),
        "xor": lambda x: (x ^ x, x.sum(-1)),
        "less itself": lambda x: (x - x, x.sum(-1)),
    }[name]
    j = wb.trace(made, torch.arange(20).reshape(4, 5), machine="edge-8x8")
    assert j.check().ok
    assert len(j.lowered.kernels) > 1
