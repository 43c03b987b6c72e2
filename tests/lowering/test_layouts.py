"""The order of tensors' axes in DRAM: the right numbers in every order, and the reasons where an order stays."""

from __future__ import annotations

import functools
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph, RecordFormatError
from workbench.ir.dram_blocks import axes_of
from workbench.lowering.layouts import as_in_pytorch
from workbench.operators.tensors.containers import leaves

BLOCKS = wb.machine("tpu-v3")
NO_BLOCKS = wb.machine("tpu-v3", dram_tile="")


def traced(function: Callable[..., Any], *inputs: Any, **options: Any) -> wb.Journey:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps on the host
        return wb.trace(function, *inputs, machine=BLOCKS, **options)


def moved(journey: wb.Journey) -> dict[str, tuple[int, ...]]:
    """The tensors in another order than PyTorch's."""
    return {order.value: order.axes for order in journey.lowered.record.layouts if order.axes != axes_of(order.given)}


def kept(journey: wb.Journey) -> dict[str, str]:
    return {order.value: order.why for order in journey.lowered.record.layouts if order.kept}


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) + 0.5


def batch_norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return x.float() * scale[:, None, None] + shift[:, None, None]


def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y.transpose(0, 1), y[:, 2], y[::2, 1:3] + 1, y.flatten(1)[3] * 3


def put_together(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x * 2, torch.cat([y + 1, y], 1)], 1)


def changed_in_part(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[:, 1] = 3
    y[2:5].add_(1)
    return y.mul_(2)


def input_changed(x: torch.Tensor) -> torch.Tensor:
    x[1:] *= 2
    return x + 1


def strided(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).as_strided((20, 10), (24, 2), 1) * 2


def on_the_host(x: torch.Tensor) -> torch.Tensor:
    return torch.special.i0(x + 1).transpose(0, 1) * 2


PLAIN: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "add of three axes": (torch.add, (rand(40, 8, 24).half(), rand(40, 8, 24).half())),
    "add of two axes": (torch.add, (rand(192, 64).half(), rand(192, 64).half())),
    "no better order": (torch.add, (rand(8, 16, 64).half(), rand(8, 16, 64).half())),
    "broadcast": (torch.add, (rand(40, 8, 24), rand(24))),
    "batch norm": (batch_norm, (rand(16, 64, 16, 16).half(), rand(64), rand(64))),
    "convolution": (nn.Conv2d(16, 32, 3, padding=1), (rand(2, 16, 14, 14),)),
    "channels last": (nn.Conv2d(16, 32, 3), (rand(2, 16, 14, 14).to(memory_format=torch.channels_last),)),
    "softmax": (lambda x: torch.softmax(x, 1), (rand(300, 20),)),
    "linear": (nn.Linear(16, 24), (rand(2, 40, 16),)),
    "views": (views, (rand(40, 8, 24),)),
    "put together": (put_together, (rand(40, 8, 24), rand(40, 4, 24))),
    "changed in part": (changed_in_part, (rand(40, 8, 24),)),
    "input changed": (input_changed, (rand(200, 20),)),
    "as_strided": (strided, (rand(40, 24),)),
    "input returned": (lambda x: (x, x.t(), x + 1), (rand(200, 64),)),
    "host": (on_the_host, (rand(200, 20),)),
    "lookup": (lambda table, rows: table[rows] * 2, (rand(300, 20), torch.randint(0, 300, (256,)))),
    "scatter": (
        lambda x, rows, y: x.index_add(0, rows, y),
        (rand(300, 20), torch.randint(0, 300, (50,)), rand(50, 20)),
    ),
    "slice of a tensor": (lambda x: x + 1, (rand(400, 40)[1::2, 3:30],)),
    "expanded": (lambda x: x + 1, (rand(200, 1).expand(200, 30),)),
    "a dim of none": (lambda x, y: torch.cat([x, y], 0) * 2, (rand(200, 20), rand(0, 20))),
}


@functools.cache
def plain(name: str) -> wb.Journey:
    """One journey for all tests of a program."""
    function, inputs = PLAIN[name]
    return traced(function, *inputs)


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("stage", ["rendered", "scheduled", "simulated"])
def test_numbers_are_right(name: str, stage: str):
    assert plain(name).check(stage=stage).ok


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize("name", PLAIN)
def test_results_lie_as_pytorch_has_them(name: str):
    function, inputs = PLAIN[name]
    given, again = ([each if 0 in each.stride() else each.clone() for each in inputs] for _ in range(2))
    with torch.no_grad():
        theirs, mine = leaves(function(*given)), leaves(plain(name).run(*again))
    for (_, found), (_, wanted) in zip(mine, theirs, strict=True):
        assert isinstance(found, torch.Tensor) and isinstance(wanted, torch.Tensor)
        assert found.stride() == wanted.stride()


@pytest.mark.test_all(but=1)
@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["views", "put together", "changed in part", "batch norm", "convolution", "linear"])
def test_numbers_are_right_in_any_order(name: str, seed: int):
    j, rng = plain(name).with_(layout="given"), random.Random(seed)
    asked: dict[str, tuple[int, ...]] = {}
    for value in j.lowered.record.storages:
        rank = len(j.lowered.record.types[value].shape)
        order = {value: tuple(rng.sample(range(rank), rank))}
        try:
            _ = j.with_(layout=order).lowered
        except BadOption as error:
            assert "cannot be laid out anew" in str(error)
        else:
            asked |= order
    laid = j.with_(layout=asked)
    assert asked and {order.value: order.axes for order in laid.lowered.record.layouts}.items() >= asked.items()
    assert laid.check().ok and laid.check(stage="simulated").ok


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize("name", PLAIN)
def test_a_graph_that_was_laid_out_is_laid_out_back(name: str):
    j = plain(name)
    assert as_in_pytorch(j.lowered.record) == j.with_(layout="given").lowered.record


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_the_spine_are_right(name: str):
    program = PROGRAMS[name]
    assert traced(program.build(), *program.inputs(), kwargs=program.kwargs()).check().ok


def test_tensors_of_a_shape_lie_alike():
    j = traced(*PLAIN["add of three axes"][:1], *PLAIN["add of three axes"][1])
    assert moved(j) == dict.fromkeys(("input0", "input1", "add"), (2, 1, 0))
    assert {kind.strides for kind in j.lowered.kernels[0].inputs.values()} == {(1, 40, 320)}
    assert "strided<[1, 40, 320]>" in j.rendered.text()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("lookup", "table", "indices choose elements of it"),
        ("scatter", "x", "indices choose elements of it"),
        ("host", "add", "PyTorch computes with it on the host"),
    ],
)
def test_what_keeps_its_order_says_why(name: str, value: str, why: str):
    function, inputs = PLAIN[name]
    j = traced(function, *inputs)
    assert why in kept(j)[value] and value not in moved(j)
    assert f"{value}: " in j.lowered.text() and why in j.lowered.text()
    with pytest.raises(BadOption, match=f"'{value}' cannot be laid out anew: {why}"):
        j.with_(layout={value: (1, 0)})._stages.lowered()


def test_a_reshape_keeps_the_order_and_says_so():
    j = traced(lambda x: (x * 2, x.reshape(-1)[:100] * 2), rand(40, 8, 24))
    assert "would no longer be a view of it" in kept(j)["x"] and moved(j) == {"mul": (2, 1, 0)}


@pytest.mark.test_all
def test_where_views_rule_out_the_best_order_the_next_one_is_taken():
    j = traced(lambda x: (x * 2).reshape(-1, 16).relu(), rand(64, 256, 16))
    (flat,) = (order for order in j.lowered.record.layouts if order.value != "x")
    assert flat.axes == (2, 0, 1) and not flat.kept and j.check().ok
    assert "not 2,097,152; less is impossible: 'relu' (16384x16xf32) would no longer be a view" in flat.why


def test_an_expanded_tensor_keeps_its_order():
    j = traced(*PLAIN["expanded"][:1], *PLAIN["expanded"][1])
    assert kept(j)["x"] == "several of its elements are the same memory"


def test_a_kernel_between_two_orders_moves_no_block_again_and_again():
    """The host reads the sum, which so keeps its order, and is the slower for it, but not than with no order at all."""
    j = traced(lambda x, y: torch.special.i0(x + y), rand(400, 80, 24), rand(400, 80, 24))
    assert moved(j) == dict.fromkeys(("x", "y"), (2, 1, 0)) and set(kept(j)) >= {"add"}
    (kernel,) = j.scheduled.record.kernels
    assert kernel.mapping.tile == {"d0": 400, "d1": 80, "d2": 24}
    assert j.simulated.cycles < j.with_(layout="given").simulated.cycles


def test_given_and_machines_without_blocks_leave_all_as_it_is():
    function, inputs = PLAIN["add of two axes"]
    j = traced(function, *inputs)
    for other in (j.with_(layout="given"), j.with_(machine=NO_BLOCKS)):
        assert other.lowered.record.layouts == ()
        assert [each.strides for each in other.lowered.kernels[0].inputs.values()] == [(64, 1)] * 2
        assert other.lowered.layouts.why.tolist() == ["as in PyTorch"] * 3


@pytest.mark.test_all
def test_named_tensors_have_their_order_and_others_the_machines():
    function, inputs = PLAIN["convolution"]
    j = traced(function, *inputs, layout={"weight": (0, 1, 2, 3)})
    assert "weight" not in moved(j) and "conv2d" in moved(j) and j.check().ok
    plain = j.with_(machine=NO_BLOCKS, layout={"weight": [1, 0, 2, 3]})
    assert moved(plain) == {"weight": (1, 0, 2, 3)} and plain.check().ok


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("leats", "layout='leats' is no layout; did you mean 'least'?"),
        (3, "layout=3 is no layout. Expected 'given', 'least', None, or"),
        ({"x": 1}, "'x' has the axes 1. Expected"),
        ({"x": (True, False, 0)}, "has the axes"),
        (
            {"wight": (0, 1)},
            "there is no tensor 'wight' in DRAM; did you mean 'weight'? The tensors there are x, weight",
        ),
        (
            {"weight": (0, 1, 1)},
            "has the shape [16, 24], and (0, 1, 1) is no order of its axes. Expected (0, 1) in any",
        ),
        ({"t": (0, 1)}, "'t' is a view of 'x', and lies as that does: lay out that one"),
        ({"gelu": (0, 1, 2)}, "'gelu' is never in DRAM"),
    ],
)
def test_a_mistake_is_told(layout: Any, words: str):
    with pytest.raises(BadOption) as caught:
        traced(lambda x, weight: torch.relu(F.gelu(x.t() @ weight)), rand(16, 10), rand(16, 24), layout=layout)
    assert words in str(caught.value)


def test_least_needs_blocks():
    j = traced(torch.relu, rand(200, 20), layout="least")
    with pytest.raises(BadOption, match="edge-8x8 pads no tensors: its dram_tile is empty"):
        j.with_(machine="edge-8x8")
    assert j.with_(machine="edge-8x8", layout=None).lowered.record.layouts == ()


def test_lowering_is_done_again_only_where_the_layout_changes():
    j = traced(torch.relu, rand(200, 20))
    lowered = j.lowered.record
    assert j.with_(layout="least").lowered.record is lowered
    assert j.with_(machine=BLOCKS.with_(vector_lanes=64)).lowered.record is lowered
    assert j.with_(machine="tpu-v4").lowered.record is lowered
    assert j.with_(machine=BLOCKS.with_(dram_tile="4x16")).lowered.record is not lowered
    plain = j.with_(machine=NO_BLOCKS)
    assert plain.lowered.record is not lowered and plain.options == {}
    assert plain.with_(machine="edge-8x8").lowered.record is plain.lowered.record
    given = plain.with_(layout="given")
    assert given.options == {"layout": "given"} and given.lowered.record is plain.lowered.record
    assert given.with_(machine=BLOCKS).lowered.record is plain.lowered.record


@pytest.mark.parametrize("layout", [None, "given", "least", {"relu": (0, 1)}])
def test_a_file_keeps_the_layout(layout: Any, tmp_path: Path):
    j = traced(torch.relu, rand(200, 20), layout=layout)
    j.save(tmp_path / "one.journey")
    found = wb.load(tmp_path / "one.journey")
    assert found.lowered.record == j.lowered.record and found.options == j.options
    assert found.lowered.text() == j.lowered.text()
    assert found.with_(layout="given").simulated.cycles == j.with_(layout="given").simulated.cycles


def test_results_that_are_views_of_one_tensor_still_are():
    y, turned, row, *_ = traced(views, rand(40, 8, 24)).run(rand(40, 8, 24))  # type: ignore[misc]
    assert y.untyped_storage().data_ptr() == turned.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()
    y += 1
    assert torch.equal(turned, y.transpose(0, 1)) and torch.equal(row, y[:, 2])


@pytest.mark.test_all
def test_an_input_is_copied_once_a_call(monkeypatch: pytest.MonkeyPatch):
    """Whatever the number of kernels that read it; a weight may have changed since the last call."""
    from workbench.running import run_program

    layer = nn.Linear(20, 20, bias=False)
    j = traced(lambda x: layer(torch.relu(layer(torch.relu(layer(x))))), rand(200, 20))
    sizes: list[tuple[int, ...]] = []
    made = run_program.allocate
    monkeypatch.setattr(run_program, "allocate", lambda kind: (sizes.append(kind.shape), made(kind))[1])
    x = rand(200, 20)
    with torch.no_grad():
        before = j.run(x)
        layer.weight *= 2
        after = j.run(x)
    assert sizes.count((20, 20)) <= 2
    torch.testing.assert_close(after, 8 * before)  # type: ignore[operator]


def with_order(change: Callable[[dict[str, Any]], object]) -> str:
    """A lowered graph as JSON, with its first order of axes changed."""
    body = json.loads(traced(torch.relu, rand(200, 20)).lowered.record.to_json())
    change(body["record"]["layouts"][0])
    return json.dumps(body)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda order: order.update(value="y"), "'y' has an order of axes, but is no storage"),
        (lambda order: order.update(axes=[0, 0]), r"'input0' of 200x20xf32 has its axes in the order \(0, 0\)"),
        (
            lambda order: order["given"].update(shape=[20, 200]),
            "'input0' is 200x20xf32, and 20x200xf32 as PyTorch has it",
        ),
        (lambda order: order["given"].update(strides=[1]), "'input0 as PyTorch has it' has 2 extents and 1 strides"),
    ],
)
def test_an_order_in_a_file_that_makes_no_sense_is_refused(change: Callable[[dict[str, Any]], object], words: str):
    assert KernelGraph.from_json(with_order(lambda order: None)).layouts
    with pytest.raises(RecordFormatError, match=words):
        KernelGraph.from_json(with_order(change))


def test_a_lowered_graph_of_another_version_is_refused():
    body = json.loads(traced(torch.relu, rand(200, 20)).lowered.record.to_json())
    with pytest.raises(RecordFormatError, match=r"expected aten-workbench/kernel-graph version 1, found .* version 7"):
        KernelGraph.from_json(json.dumps(body | {"version": 7}))


def test_a_tensor_has_one_order_by_whichever_name():
    model = torch.nn.Sequential(torch.nn.Linear(20, 33))
    made = wb.trace(model, torch.randn(8, 20), machine="tpu-v4-chip")
    (value,) = (given.value for given in made.lowered.record.captured.inputs if given.path == "0.weight")
    with pytest.raises(BadOption, match=f"'0.weight' and '{value}' are one tensor; expected an order for one of them"):
        _ = made.with_(layout={"0.weight": (0, 1), value: (1, 0)}).lowered


def test_an_array_is_no_layout():
    with pytest.raises(BadOption, match="is no layout"):
        wb.trace(torch.relu, torch.randn(8, 20), machine="tpu-v4-chip", layout=np.array([1, 0]))
