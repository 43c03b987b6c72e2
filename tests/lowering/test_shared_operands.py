"""Products of one operand in one kernel: right results, fewer cycles and bytes than apart, and why some stay apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.flow import moved
from workbench.ground.errors import FusionError
from workbench.lowering.around_products import ROWS_OF_SEVERAL
from workbench.lowering.product_room import FEW, SHARED
from workbench.lowering.shared_operands import ONE_PRODUCT, WINDOWS

APART = {"off": [SHARED]}
Shape = tuple[int, ...]

JOINED: dict[str, tuple[Callable[..., Any], list[Shape]]] = {
    "q, k, v": (lambda x, a, b, c: (x @ a, x @ b, x @ c), [(70, 90), *[(90, 130)] * 3]),
    "some with a bias": (
        lambda x, a, b, c, d: (F.linear(x, a, d), F.linear(x, b), F.linear(x, c, d)),
        [(2, 35, 90), *[(130, 90)] * 3, (130,)],
    ),
    "k and v of fewer heads": (
        lambda x, a, b, c: (F.linear(x, a), F.linear(x, b), F.linear(x, c)), [(2, 35, 90), (128, 90), *[(32, 90)] * 2],
    ),
    "heads": (
        lambda x, a, b: tuple(F.linear(x, w).view(2, 16, 4, 8).transpose(1, 2) for w in (a, b)),
        [(2, 16, 24), *[(32, 24)] * 2],
    ),
    "a gate": (lambda x, a, b: F.silu(x @ a) * (x @ b), [(70, 90), *[(90, 130)] * 2]),
    "an activation before": (
        lambda x, a, b: (F.linear(h := F.gelu(x), a), F.linear(h, b)),
        [(2, 16, 24), *[(32, 24)] * 2],
    ),
    "a weight that is scaled": (lambda x, a, b: (x @ (a * 2), x @ b), [(30, 60), *[(60, 40)] * 2]),
    "the right operand": (lambda x, a, b: (a @ x, b @ x), [(70, 90), *[(30, 70)] * 2]),
    "both operands": (lambda x, a: (x @ x, x @ a), [(40, 40)] * 2),
    "batches": (lambda x, a, b: (x @ a, torch.relu(x @ b)), [(3, 20, 30), *[(3, 30, 20)] * 2]),
    "one row": (lambda x, a, b: (F.linear(x, a), F.linear(x, b)), [(1, 90), *[(70, 90)] * 2]),
    "one column": (lambda x, a, b: (F.linear(x, a), F.linear(x, b)), [(30, 90), *[(1, 90)] * 2]),
    "depth one": (lambda x, a, b: (x @ a, x @ b), [(30, 1), *[(1, 40)] * 2]),
    "side by side": (lambda x, a, b: torch.cat([x @ a, x @ b], -1), [(40, 50), *[(50, 60)] * 2]),
    "read before the last is made": (
        lambda x, a, b, c: (q := x @ a, torch.softmax(q.t().contiguous() @ c, -1), x @ b + 1), [(40, 40)] * 4,
    ),
}  # fmt: skip


def traced(name: str, machine: str, **options: Any) -> wb.Journey:
    torch.manual_seed(0)
    function, shapes = JOINED[name]
    return wb.trace(function, *map(torch.randn, shapes), machine=machine, **options)


def products(j: wb.Journey) -> list[int]:
    """Number of matrix products in each kernel."""
    ops = ("aten.mm.default", "aten.bmm.default")
    contractions = {item.node.name for item in j.lowered.record.nodes if item.node.op in ops}
    return [len(contractions.intersection(kernel.nodes)) for kernel in j.lowered.record.kernels]


def refused(j: wb.Journey) -> list[str]:
    return [each.reason for each in j.lowered.record.fusions if each.rule == SHARED and not each.fused]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "tpu-v4-chip"])
@pytest.mark.parametrize("name", JOINED)
def test_one_kernel_is_right_and_faster(name: str, machine: str):
    j = traced(name, machine)
    assert max(products(j)) > 1, refused(j)
    assert j.check().ok
    assert j.check(stage="rendered").ok
    apart = j.with_(fusion=APART)
    assert max(products(apart)) == 1
    assert j.simulated.trace.makespan < apart.simulated.trace.makespan


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", JOINED)
def test_on_a_small_machine_it_is_no_slower(name: str):
    """But for a thousandth, by which the tiles of one kernel may fit less well."""
    j = traced(name, "edge-8x8")
    assert j.check().ok
    assert j.simulated.trace.makespan <= 1.001 * j.with_(fusion=APART).simulated.trace.makespan


def test_the_operand_is_loaded_once():
    rows, depth, columns = 64, 96, 160
    x, *weights = torch.randn(rows, depth), *(torch.randn(depth, columns) for _ in range(3))
    j = wb.trace(lambda x, a, b, c: (x @ a, x @ b, x @ c), x, *weights)
    (kernel,) = j.scheduled.record.kernels
    wanted = [rows * depth * 4, *[depth * columns * 4] * 3, *[rows * columns * 4] * 3]
    assert sorted(moved(kernel.program).values()) == sorted(wanted)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("tile", [{"m": 23, "n": 50, "k": 31}, {"m": 16, "n": 130}, {"k": 16}, {"m": 1}])
def test_in_any_tiles(tile: dict[str, int]):
    mapping = {"*": {"tile": tile}}
    assert traced("some with a bias", "tpu-v3", mapping=mapping).check().ok


def test_every_product_is_an_instruction_of_its_own_node():
    j = traced("q, k, v", "tpu-v3")
    (kernel,) = j.scheduled.record.kernels
    steps = [step.name for step in kernel.passes]
    assert steps.index("join the products") < steps.index("take the products apart")
    program = kernel.program
    named = {program.origin_names[origin] for origin in program.origin.tolist()}
    assert named == {"matmul", "matmul_1", "matmul_2"}


@pytest.mark.test_all
def test_a_script_of_ones_own_tiles_all_of_them():
    j = traced("q, k, v", "tpu-v3", mapping={"*": {"tile": {"m": 32}}})
    (kernel,) = j.scheduled.record.kernels
    again = j.with_(schedule={kernel.kernel: kernel.schedule})
    assert again.check().ok
    assert again.simulated.trace.makespan == j.simulated.trace.makespan


DIFFERENT: dict[str, tuple[Callable[..., Any], list[Shape], str]] = {
    "widths": (lambda x, a, b: (x @ a, x @ b), [(30, 40), (40, 50), (40, 20)], "30x20 and 30x50 differ"),
    "a softmax of one": (
        lambda x, a, b: (torch.softmax(x @ a, -1), x @ b), [(30, 40), *[(40, 50)] * 2], ROWS_OF_SEVERAL,
    ),
    "what one makes, on the way to the other": (
        lambda x, a, b: x @ a + torch.softmax((x @ b).t(), -1).t(), [(40, 40)] * 3, "is read by the other",
    ),
    "no operand of all": (
        lambda x, y, a, b: (x @ a, x @ b, y @ a), [(40, 40)] * 4, ONE_PRODUCT,
    ),
    "convolutions": (
        lambda x, a, b: (F.conv2d(x, a), F.conv2d(x, b)), [(1, 8, 10, 10), *[(16, 8, 1, 1)] * 2], WINDOWS,
    ),
}  # fmt: skip


@pytest.mark.test_all
@pytest.mark.parametrize("name", DIFFERENT)
def test_what_stays_apart_says_why(name: str):
    function, shapes, said = DIFFERENT[name]
    j = wb.trace(function, *map(torch.randn, shapes))
    assert [reason for reason in refused(j) if said in reason], refused(j)
    assert j.check().ok


@pytest.mark.test_all
def test_python_between_them_keeps_them_apart():
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = x @ a
        torch._dynamo.graph_break()
        return first, x @ b

    j = wb.trace(function, *(torch.randn(16, 16) for _ in range(3)))
    assert refused(j) == ["Python runs between them, and may change what they read"]
    assert j.check().ok


@pytest.mark.test_all
def test_a_machine_on_which_it_gains_nothing_says_so():
    x, *weights = torch.randn(512, 64), *(torch.randn(64, 64) for _ in range(3))
    j = wb.trace(lambda x, a, b, c: (x @ a, x @ b, x @ c), x, *weights, machine="edge-8x8")
    assert len(refused(j)) == 2 and all(reason.startswith(FEW) for reason in refused(j))
    assert "missed fusions" not in set(j.findings.rule)
    assert products(j.with_(machine="tpu-v3")) == [3]


def test_a_scratchpad_without_room_for_all_tiles_says_so():
    machine = wb.machine("tpu-v3", scratchpad_bytes_per_lane=4096)
    j = wb.trace(lambda x, a, b: (x @ a, x @ b), *(torch.randn(64, 64) for _ in range(3)), machine=machine)
    assert "bytes of the scratchpad's 524,288" in refused(j)[0]


@pytest.mark.test_all
def test_the_finding_says_what_is_loaded_again():
    x, a, b = torch.randn(64, 256), torch.randn(256, 256), torch.randn(256, 256)
    j = wb.trace(lambda x, a, b: (x @ a, x @ b), x, a, b, fusion=APART)
    (missed,) = j.findings[j.findings.rule == "missed fusions"].itertuples()
    assert f"{64 * 256 * 4:,} bytes come back" in missed.reason and SHARED in missed.reason


def test_two_of_three_are_kept_apart_on_request():
    j = traced("q, k, v", "tpu-v3", fusion=[("matmul", "matmul_1")])
    assert sorted(products(j)) == [1, 2]
    assert refused(j) == ["kept apart on request: matmul and matmul_1"]


def test_a_rule_of_another_name_is_refused():
    with pytest.raises(FusionError, match="products of one operand"):
        traced("q, k, v", "tpu-v3", fusion={"off": ["products of an operand"]})
