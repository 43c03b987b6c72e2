"""A captured graph that is kept is the one that PyTorch would make again, and whatever changes that one misses it."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._functorch import config as functorch_config
from torch.overrides import TorchFunctionMode

import workbench as wb
from tests.flow import capture
from tests.programs import PROGRAMS, Program
from workbench.capturing import by_dynamo, kept_graphs
from workbench.ground.environment import disk_store


@pytest.fixture
def exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything that PyTorch exported since, with a folder of its own for what is kept."""
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", str(tmp_path))
    seen: list[Any] = []
    real = by_dynamo.export

    def counted(*given: Any) -> Any:
        seen.append(given)
        return real(*given)

    monkeypatch.setattr(by_dynamo, "export", counted)
    return seen


@pytest.mark.test_all
@pytest.mark.parametrize("program", [pytest.param(each, id=name) for name, each in PROGRAMS.items()])
def test_the_record_is_the_same_and_so_is_what_follows(program: Program, exports: list[Any]):
    first, again = (program.traced() for _ in range(2))
    assert len(exports) == 1
    assert again.captured.record == first.captured.record
    for stage in ("captured", "lowered", "rendered", "scheduled"):
        assert getattr(again, stage).text() == getattr(first, stage).text()
    assert again.simulated.cycles == first.simulated.cycles
    assert again.check().ok


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        self.count += x
        return x, self.count, (x * 2).view(3, 1)


def test_ops_without_a_place_have_the_line_of_this_trace(exports: list[Any]):
    module = nn.Linear(3, 3)
    first = wb.trace(module, torch.randn(2, 3))
    again = wb.trace(module, torch.randn(2, 3))
    assert len(exports) == 1
    lines = [journey.captured.record.nodes[0].origin.line for journey in (first, again)]
    assert lines[1] == lines[0] + 1


SCALE = torch.tensor([3.0, 4.0, 5.0])


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda: Counter(), id="changes a buffer, returns an input"),
        pytest.param(lambda: lambda x: x * SCALE, id="a tensor from outside"),
        pytest.param(lambda: lambda x: x.t() if x.dim() > 1 else x.view(1, 3), id="a view of an input"),
        pytest.param(lambda: lambda x: {"a": x.relu_(), "b": [x + 1, 7]}, id="changes an input, containers"),
        pytest.param(lambda: nn.Linear(3, 3), id="a module of PyTorch's"),
    ],
)
def test_memory_containers_and_tensors_held_are_tied_to_the_live_function(
    function: Callable[[], Callable[..., Any]], exports: list[Any]
):
    results: list[Any] = []
    for _ in range(2):
        torch.manual_seed(0)
        target, x = function(), torch.tensor([1.0, -2.0, 3.0])
        journey = wb.trace(target, x)
        results.append((journey.captured.record, journey.run(x), x))
    (one, first, changed), (other, second, changed_again) = results
    assert len(exports) == 1
    assert one == other
    assert torch.equal(changed, changed_again)
    torch.testing.assert_close(first, second)


def test_the_integers_of_inputs_are_those_of_the_call(exports: list[Any]):
    def taken(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return F.embedding(at, x)

    x = torch.randn(5, 4)
    first, second = (capture(taken, (x, torch.tensor(at))).graph for at in ([0, 1, 2], [4, 4, 4]))
    assert len(exports) == 1
    assert [each.array.tolist() for each in first.numbers] == [[0, 1, 2]]
    assert [each.array.tolist() for each in second.numbers] == [[4, 4, 4]]


def gelu(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return F.gelu(x) * scale


def another_gelu(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return F.gelu(x, approximate="tanh") * scale


def placed(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    memory = torch.zeros(100)
    return memory[offset : offset + tensor.numel()].view(tensor.shape)


X = torch.randn(4, 6)


@pytest.mark.test_all
@pytest.mark.parametrize(
    ("function", "inputs", "kwargs"),
    [
        pytest.param(gelu, (torch.randn(4, 7),), {}, id="shape"),
        pytest.param(gelu, (torch.randn(6, 4).t(),), {}, id="strides"),
        pytest.param(gelu, (X.double(),), {}, id="element type"),
        pytest.param(gelu, (placed(X, 3),), {}, id="place in its memory"),
        pytest.param(gelu, (X.to("meta"),), {}, id="device"),
        pytest.param(gelu, (X,), {"scale": 3.0}, id="number"),
        pytest.param(gelu, (X,), {"scale": 2}, id="type of a number"),
        pytest.param(another_gelu, (X,), {}, id="function"),
        pytest.param(lambda x: gelu(x), (X,), {}, id="name"),
        pytest.param(lambda y: gelu(y), (X,), {}, id="name of an input"),
    ],
)
def test_another_call_is_captured_anew(
    function: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any], exports: list[Any]
):
    capture(gelu, (X,), {})
    found = capture(function, inputs, kwargs).graph
    assert len(exports) == 2
    capture(function, inputs, kwargs)
    assert len(exports) == 2
    disk_store._store_in.cache_clear()
    assert capture(function, inputs, kwargs).graph == found


def test_tensors_of_one_memory_are_others_than_two(exports: list[Any]):
    pair = nn.ParameterList([torch.randn(4), torch.randn(4)])
    tied = nn.ParameterList([pair[0], pair[0]])

    class Two(nn.Module):
        def __init__(self, held: nn.ParameterList) -> None:
            super().__init__()
            self.held = held

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.held[0] + self.held[1]

    apart, together = (capture(Two(held), (torch.randn(4),)).graph for held in (pair, tied))
    assert len(exports) == 2
    assert len(apart.inputs) == 3
    assert len(together.inputs) == 2


def changed_settings() -> dict[str, Any]:
    return {
        "autocast": torch.autocast("cpu", torch.bfloat16),
        "deterministic": Setting(torch.use_deterministic_algorithms, True, False),
        "default type": Setting(torch.set_default_dtype, torch.float64, torch.float32),
        "precision": Setting(torch.set_float32_matmul_precision, "medium", "highest"),
        "a switch": functorch_config.patch(treat_parameters_as_free_to_save=False),
        "inference": torch.inference_mode(),
    }


class Setting:
    def __init__(self, change: Callable[[Any], Any], value: Any, before: Any) -> None:
        self.change, self.value, self.before = change, value, before

    def __enter__(self) -> None:
        self.change(self.value)

    def __exit__(self, *_: object) -> None:
        self.change(self.before)


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize("setting", list(changed_settings()))
def test_another_setting_of_pytorch_is_captured_anew(setting: str, exports: list[Any]):
    x = torch.randn(4, 4)
    capture(torch.mm, (x, x.clone()))
    with changed_settings()[setting]:
        capture(torch.mm, (x, x.clone()))
    assert len(exports) == 2


def test_another_pytorch_and_another_workbench_are_captured_anew(exports: list[Any], monkeypatch: pytest.MonkeyPatch):
    capture(gelu, (X,))
    monkeypatch.setattr(torch, "__version__", "2.99")
    capture(gelu, (X,))
    assert len(exports) == 2
    monkeypatch.setattr(kept_graphs, "made_by", lambda: "another")
    capture(gelu, (X,))
    assert len(exports) == 3


def kept(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("graphs/*.entry"))


def test_a_conversion_is_asked_each_time(exports: list[Any], tmp_path: Path):
    capture(gelu, (X,))
    with wb.ops.scope():
        wb.ops.conversion("aten.gelu.default")(lambda info: info.call("aten.relu.default", info.operands[0]))
        ops = [node.op for node in capture(gelu, (X,)).graph.nodes]
    assert ops == ["aten.relu.default", "aten.mul.Tensor"]
    assert [node.op for node in capture(gelu, (X,)).graph.nodes] == ["aten.gelu.default", "aten.mul.Tensor"]
    assert len(kept(tmp_path)) == 1


def test_what_no_key_covers_is_not_kept(exports: list[Any], tmp_path: Path):
    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    @torch.library.custom_op("kept_graphs::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    capture(lambda x: twice(x) + 1, (X,))
    capture(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), (X,))
    with Watching():
        capture(gelu, (X,))
    assert len(exports) >= 2
    assert not kept(tmp_path)


def test_an_op_of_pytorchs_with_another_kernel_is_captured_anew(exports: list[Any], tmp_path: Path):
    capture(gelu, (X,))
    assert len(kept(tmp_path)) == 1
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("gelu", lambda x, approximate="none": torch.empty_like(x), "Meta", allow_override=True)
        capture(gelu, (X,))
        assert len(exports) == 2
    finally:
        library._destroy()
    capture(gelu, (X,))
    assert len(exports) == 2


@pytest.mark.test_all
@pytest.mark.parametrize("where", ["functional", "what a method calls"])
def test_a_function_of_pytorchs_that_somebody_replaced_is_captured_anew(
    where: str, exports: list[Any], monkeypatch: pytest.MonkeyPatch
):
    space, name = (F, "softmax") if where == "functional" else (torch.functional, "norm")
    real = getattr(space, name)

    def called(x: torch.Tensor) -> torch.Tensor:
        return F.softmax(x, -1) + x.norm()

    wb.trace(called, torch.ones(4, 5))
    with monkeypatch.context() as replaced:
        replaced.setattr(space, name, functools.wraps(real)(lambda *args, **kwargs: real(*args, **kwargs) * 2))
        wb.trace(called, torch.ones(4, 5))
        assert len(exports) == 2
    wb.trace(called, torch.ones(4, 5))
    assert len(exports) == 2


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("damage", [b"", b"\x00" * 400, b"aten-workbench store 1\n"])
def test_a_damaged_entry_counts_as_absent(damage: bytes, exports: list[Any], tmp_path: Path):
    first = capture(gelu, (X,)).graph
    (entry,) = kept(tmp_path)
    entry.write_bytes(damage or entry.read_bytes()[:-7])
    assert capture(gelu, (X,)).graph == first
    assert len(exports) == 2
    assert capture(gelu, (X,)).graph == first
    assert len(exports) == 2


@pytest.mark.test_all
def test_an_entry_that_says_something_else_counts_as_absent(exports: list[Any], monkeypatch: pytest.MonkeyPatch):
    first = capture(gelu, (X,)).graph
    for text in (b"", b"\x78\x9c", zlib.compress(b'{"graph": {}, "inputs": [0]}')):
        monkeypatch.setattr(kept_graphs.Store, "get", lambda *_, text=text: text)
        assert capture(gelu, (X,)).graph == first
    assert len(exports) == 4


def test_nothing_is_kept_where_the_stores_are_off(exports: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "off")
    capture(gelu, (X,))
    capture(gelu, (X,))
    assert len(exports) == 2
    assert not kept(tmp_path)
