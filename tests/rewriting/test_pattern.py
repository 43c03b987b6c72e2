"""Patterns: what matches, what does not and why, and what a journey tells of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_mlir.dialects import arith, math

import workbench as wb
from tests.rewriting import own_ops
from tests.rewriting.own_ops import ops, traced
from workbench.ground import errors

Program = Callable[..., object]


pytestmark = [
    pytest.mark.usefixtures("own_scope"),
    pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute"),
]


def register(op: object = own_ops.scaled_relu_op, **options: Any) -> None:
    function, example = own_ops.EXAMPLES[op]
    wb.pattern("it", op=op, example=example, **options)(function)


def reason(j: wb.Journey) -> str:
    (row,) = j.lowered.patterns.itertuples()
    assert not row.matched
    return row.reason


@pytest.mark.test_all
def test_nodes_become_one_node_of_the_op_and_the_numbers_stay():
    register()
    j = traced(lambda x, w: torch.relu((x @ w) * 0.5) + 1, (16, 32), (32, 24))
    assert ops(j) == ["mm", "scaled_relu", "add"]
    assert j.lowered.table.rule.tolist()[1] == "it"
    (row,) = j.lowered.patterns.itertuples()
    assert (row.matched, row.nodes) == (True, ("mul", "relu"))
    assert j.check().ok and j.check(stage="rendered").ok and j.check(stage="simulated").ok
    assert j.captured.table.node.tolist() == ["matmul", "mul", "relu", "add"], "what PyTorch was asked for stays"


def test_it_is_turned_off_by_its_name_or_with_all_fusion():
    register()
    j = traced(lambda x: torch.relu(x * 3), (16, 32))
    for off in ({"off": ["it"]}, {"off": "it"}, "none"):
        k = j.with_(fusion=off)
        assert ops(k) == ["mul", "relu"] and reason(k) == "it is turned off"
        assert k.with_(fusion=None).lowered.table.equals(j.lowered.table)
    with pytest.raises(errors.FusionError, match="there is no fusion rule 'item'; did you mean 'it'"):
        j.with_(fusion={"off": ["item"]}).lowered  # noqa: B018
    assert ops(j.with_(fusion={"off": ["elementwise chain"]})) == ["scaled_relu"], "a rule's name is no pattern's"


def test_a_selection_of_any_node_or_line_of_a_match_leads_to_its_kernel():
    register(own_ops.both_op)

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first = x + y
        second = first * y
        return torch.tanh(second) - first

    j = traced(program, (16, 32), (16, 32))
    whole = j.select("tanh")
    assert whole.nodes == ("add", "mul", "tanh") and whole.kernels == ("host0_both",) and not whole.absorbed
    assert len(whole.source_lines) == 3
    for name in ("add", "mul", *whole.source_lines[:2]):
        assert j.select(name).spans == whole.spans
    assert j.select("host0_both").nodes == whole.nodes
    assert j.lowered.kernels[0].title == "add + mul + tanh"
    assert {"add", "mul", "tanh"} <= set(wb.compare(j, j.with_(fusion="none")).nodes.what[0].split(" + "))


@pytest.mark.test_all
def test_several_results_leave_a_match_and_inner_values_may_not():
    register(own_ops.both_op)
    j = traced(lambda x, y: (torch.tanh((y + x) * x), (y + x).sum(1)), (6, 8), (6, 8))
    # two additions, one of which is part of the match and is not read by the sum
    assert sorted(ops(j)) == ["add", "both", "sum"]

    def shared(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return torch.tanh(total * y), total.sum(1)

    def returned(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = (x + y) * y
        return torch.tanh(product), product

    def read(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        product = (x + y) * y
        return torch.tanh(product) + product

    assert ops(traced(shared, (6, 8), (6, 8))) == ["both", "sum"] and traced(shared, (6, 8), (6, 8)).check().ok
    assert "is needed outside of the match: the function returns it" in reason(traced(returned, (6, 8), (6, 8)))
    assert "is needed outside of the match: add_1 reads it too" in reason(traced(read, (6, 8), (6, 8)))


def test_a_match_that_would_read_its_own_result_is_none():
    register(own_ops.both_op)

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x + y
        return torch.tanh(total * torch.exp(total))

    j = traced(program, (6, 8), (6, 8))
    assert reason(j) == "one of its operands is computed from one of its results, outside of the match"


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: (x + y) * (x - y),
        lambda x, y: (x - y) * (y + x),
        lambda x, y: (x - y) * (x + y),
        lambda x, y: (y + x) * (x - y),
    ],
)
def test_operands_match_either_way_round(program: Program):
    register(own_ops.diamond_op)
    j = traced(program, (6, 8), (6, 8))
    assert ops(j) == ["diamond"] and j.check().ok


@pytest.mark.test_all
def test_operands_of_a_difference_do_not():
    register(own_ops.diamond_op)
    j = traced(lambda x, y: (x + y) * (y - x) + (x.add(y, alpha=2)) * (x - y), (6, 8), (6, 8))
    # the first is a match with x and y exchanged; of the second the sum is another one
    assert ops(j).count("diamond") == 1 and j.check().ok
    assert "its argument 'alpha' is 2 and not 1" in reason(
        traced(lambda x, y: (x.add(y, alpha=2)) * (x - y), (6, 8), (6, 8))
    )


@pytest.mark.test_all
def test_numbers_that_follow_from_extents_are_those_of_the_tensors_that_are_found():
    register(own_ops.folded_op)
    j = traced(lambda x, y: torch.maximum(y, x.reshape(15)), (3, 5), (15,))
    assert ops(j) == ["folded"] and j.check().ok
    k = traced(lambda x, y: torch.maximum(torch.exp(x).reshape(12), y) + y, (3, 4), (12,))
    assert ops(k) == ["exp", "folded", "add"] and k.check().ok
    assert "folded" not in ops(traced(lambda x, y: torch.maximum(y, x.reshape(3, 5)), (15,), (3, 5)))


def test_a_number_that_only_happens_to_be_that_of_the_example_is_no_match():
    @torch.library.custom_op("rewriting_tests::mean_of_rows", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1) / x.shape[-1]

    op.register_fake(lambda x: x.sum(-1) / x.shape[-1])
    wb.pattern("it", op=op, example=(own_ops.SQUARE,))(lambda x: x.sum(-1) / x.shape[-1])
    assert own_ops.SQUARE.shape[-1] == 8
    j = traced(lambda x: x.sum(-1) / 8, (4, 16))
    assert "mean_of_rows" not in ops(j) and j.check().ok
    assert "is 8 and not 16" in reason(j)
    for extent in (8, 16):
        k = traced(lambda x, extent=extent: x.sum(-1) / extent, (4, extent))
        assert ops(k) == ["mean_of_rows"] and k.check().ok


@pytest.mark.test_all
@pytest.mark.parametrize("number", [float("-inf"), float("nan")])
def test_a_number_may_be_without_end_or_no_number(number: float):
    def filled(x: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
        return torch.relu(x.masked_fill(mask, value))

    name = f"filled_{'nan' if number != number else 'inf'}"
    op = torch.library.custom_op(f"rewriting_tests::{name}", filled, mutates_args=())
    op.register_fake(filled)
    wb.pattern("it", op=op, example=(own_ops.SQUARE, own_ops.SQUARE > 0, number))(filled)
    for value in (number, 3.0):
        j = wb.trace(lambda x, value=value: torch.relu(x.masked_fill(x > 1, value)), torch.randn(6, 8))
        assert ops(j) == ["gt", name] and j.check().ok


@pytest.mark.test_all
def test_a_number_may_be_a_dim():
    @torch.library.custom_op("rewriting_tests::below_largest_of", mutates_args=())
    def op(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.exp(x - x.amax(dim, keepdim=True))

    def below_largest_of(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.exp(x - x.amax(dim, keepdim=True))

    with pytest.raises(errors.BadPattern, match="An op of one's own needs register_fake"):
        wb.pattern("it", op=op, example=(own_ops.SQUARE, -1))(below_largest_of)
    op.register_fake(below_largest_of)
    wb.pattern("it", op=op, example=(own_ops.SQUARE, -1))(below_largest_of)
    for dim in (0, 1, -2):
        j = traced(lambda x, dim=dim: below_largest_of(x, dim) + 1, (6, 8))
        assert ops(j) == ["below_largest_of", "add"] and j.check().ok
    assert "is 0 and not" not in reason(traced(lambda x: torch.exp(x - x.amin(0, keepdim=True)), (6, 8)))


@pytest.mark.test_all
def test_takes_narrows_a_pattern():
    seen: list[dict[str, Any]] = []

    def takes(of: Any) -> bool:
        seen.append(dict(of))
        return of["scale"] == 2 and of["x"].shape[0] == 3

    register(takes=takes)
    j = traced(lambda x, y: (torch.relu(x * 2), torch.relu(x * 4), torch.relu(y * 2)), (3, 4), (5, 4))
    assert ops(j).count("scaled_relu") == 1 and [each["scale"] for each in seen] == [2, 4, 2]
    assert "takes= of the pattern refuses" in reason(traced(lambda x: torch.relu(x * 4), (3, 4)))

    def broken(of: Any) -> bool:
        return of["weight"] > 1

    register(takes=broken)
    with pytest.raises(
        errors.PatternFailed, match=r"takes= of the pattern 'it' at .*raised KeyError: 'weight'; expected"
    ):
        traced(lambda x: torch.relu(x * 2), (3, 4))


def test_matches_that_share_a_node_are_one():
    register(own_ops.both_op)
    j = traced(lambda x, y: torch.tanh((torch.tanh((x + y) * y) + x) * x), (6, 8), (6, 8))
    assert ops(j) == ["both", "both"] and j.check().ok
    with wb.ops.scope():
        wb.pattern("other", op=own_ops.diamond_op, example=(own_ops.SQUARE,) * 2)(own_ops.diamond)
        k = traced(lambda x, y, z: ((x + y) * (x - y), (x + y) * (x - z)), (6, 8), (6, 8), (6, 8))
    assert ops(k).count("diamond") == 1 and k.check().ok


@pytest.mark.test_all
def test_the_nearest_of_a_pattern_without_a_match_is_told():
    register(own_ops.both_op)
    (row,) = traced(lambda x, y: torch.sin((x + y) * x), (6, 8), (6, 8)).lowered.patterns.itertuples()
    assert (row.partners, row.nodes, row.reason) == ("2 of 3", ("add", "mul"), "mul is read by sin")
    assert row.wanted.startswith("aten.tanh.default at ") and "own_ops.py:" in row.wanted
    assert row.found == "sin = aten.sin.default" and Path(row.where.partition(":")[0]).name == Path(__file__).name
    given = traced(lambda x, y: torch.tanh(x * y), (6, 8), (6, 8))
    assert "which no op makes" in reason(given) or "given from outside" in reason(given)
    assert reason(traced(lambda x: torch.sin(x), (6, 8))) == "no node calls any of its ops"
    j = traced(lambda x, y: torch.sin((x + y) * x), (6, 8), (6, 8))
    assert "for aten.tanh.default" in j.lowered.text() and "it" in j.lowered.html()
    told = j.findings[j.findings.rule == "pattern without a match"]
    assert told.reason.tolist()[0].startswith("the pattern 'it' has no match: 2 of its 3 nodes have a partner; for")


@pytest.mark.test_all
def test_a_registration_again_replaces_it_and_a_scope_undoes_it():
    with wb.ops.scope():
        register()
        register(own_ops.scaled_relu_op, takes=lambda of: False)
        assert ops(traced(lambda x: torch.relu(x * 2), (3, 4))) == ["mul", "relu"]
    j = traced(lambda x: torch.relu(x * 2), (3, 4))
    assert j.lowered.record.rewrites == ()
    register()
    assert j.with_(machine="edge-8x8").lowered.record.rewrites == (), "a journey keeps what it was traced with"
    with pytest.raises(errors.RegistrationClash, match="there is a graph pass or pattern 'it' already"):
        wb.pattern("it", op=own_ops.both_op, example=(own_ops.SQUARE,) * 3)(own_ops.both)


@pytest.mark.test_all
def test_a_saved_journey_needs_no_pattern(tmp_path: Path):
    register()
    j = traced(lambda x: torch.relu(x * 2) + 1, (16, 32))
    j.save(tmp_path / "it.journey")
    j.with_(fusion={"off": ["it"]}).save(tmp_path / "off.journey")
    with wb.ops.scope():
        register(takes=lambda of: False)
    loaded, off = wb.load(tmp_path / "it.journey"), wb.load(tmp_path / "off.journey")
    assert loaded.lowered.patterns.equals(j.lowered.patterns) and loaded.lowered.changes.equals(j.lowered.changes)
    assert loaded.with_(machine="edge-8x8").simulated.cycles == j.with_(machine="edge-8x8").simulated.cycles
    assert ops(loaded.with_(fusion={"off": ["elementwise chain"]})) == ["scaled_relu", "add"]
    assert ops(loaded.with_(fusion={"off": ["it"]})) == ops(off) == ["mul", "relu", "add"]
    assert loaded.select("mul").nodes == ("mul", "relu")
    from workbench.ground.environment.registered import REWRITES

    REWRITES.put_back({})
    with pytest.raises(errors.RegistrationGone, match=r"the pattern 'it' must run anew.*Register it, or leave fusion="):
        off.with_(fusion=None).lowered  # noqa: B018
    register()
    assert ops(off.with_(fusion=None)) == ["scaled_relu", "add"]


@pytest.mark.test_all
def test_the_op_may_have_a_builder_and_share_a_kernel_with_its_neighbours():
    @wb.ops.builder(own_ops.scaled_relu_op, dialect="arith", kind="elementwise")
    def build(op: Any) -> Any:
        def one(x: Any) -> Any:
            return arith.maximumf(arith.mulf(x, op.number(op["scale"])), op.number(0.0))

        return op.elementwise(one, op["x"])

    register()
    j = traced(lambda x, w: torch.relu((x @ w) * 0.5) + 1, (16, 32), (32, 24))
    assert j.lowered.table.route.tolist() == ["automatic", "builder", "automatic"]
    assert len(j.lowered.kernels) == 1 and j.check().ok and build
    assert j.select("mul").nodes == ("mul", "relu") and len(j.select("mul").spans) > 0


@pytest.mark.test_all
def test_a_builder_of_several_results_makes_a_kernel_for_each():
    @wb.ops.builder(own_ops.both_op, dialect="math", kind="elementwise")
    def build(op: Any) -> Any:
        total = op.elementwise(arith.addf, op["x"], op["y"])
        return total, op.elementwise(lambda a, z: math.tanh(arith.mulf(a, z)), total, op["z"])

    register(own_ops.both_op)

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return total, torch.tanh(total * y)

    j = traced(program, (16, 32), (16, 32))
    assert ops(j) == ["both", "both"] and j.check().ok and build
    assert {each.rule for each in j.lowered.table.itertuples()} == {"it"}
    assert j.select("add").nodes == ("add", "mul", "tanh") and len(j.select("add").kernels) == 2
