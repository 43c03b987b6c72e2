"""Tests that a function's own conditions on data are checked, and that its arguments are unchanged afterwards."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import workbench as wb
from tests.asserting import positive, summed
from workbench.ground import errors

pytestmark = pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")


@pytest.mark.parametrize("capture", ["dynamo", "export"])
@pytest.mark.parametrize("function", [positive, summed])
def test_an_assertion_about_data_is_a_step_that_raises(function: Callable[..., Any], capture: str):
    j = wb.trace(function, torch.ones(3), capture=capture)
    assert j.run(torch.ones(3)).equal(function(torch.ones(3))) and j.check()
    with pytest.raises(errors.AssertionFailed, match=r"asserting\.py:\d+ does not hold: (some|no)"):
        j.run(-torch.ones(3))
    assert any(kernel.kind == "host" for kernel in j.lowered.record.kernels)


@pytest.mark.test_all
@pytest.mark.parametrize("function", [positive, summed])
def test_a_compiled_function_asserts(function: Callable[..., Any]):
    compiled = torch.compile(function, backend="npu")
    assert compiled(torch.ones(3)).equal(function(torch.ones(3)))
    with pytest.raises(RuntimeError, match="does not hold"):
        compiled(-torch.ones(3))


def test_an_assertion_is_saved(tmp_path: Any):
    j = wb.trace(positive, torch.ones(3))
    j.save(tmp_path / "j.journey")
    assert wb.load(tmp_path / "j.journey").simulated.cycles == j.simulated.cycles


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("given", ["f32", "f64", "i64"])
def test_a_mean_in_a_narrow_type_is_rounded_once(dtype: torch.dtype, given: str):
    x = torch.full((8, 3), 1e5)
    x[1::2] = -1e5 + 1
    x = {"f32": x, "f64": x.double(), "i64": x.long()}[given]

    def means(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a.mean(0, dtype=dtype), a.mean(dtype=dtype), a.mean(1, keepdim=True, dtype=dtype)

    j = wb.trace(means, x)
    assert j.check()
    assert all(map(torch.equal, j.run(x), means(x)))


@pytest.mark.test_all
def test_a_journey_is_checked_under_the_autocast_it_was_traced_under():
    model, x = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)).eval(), torch.randn(8, 16)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = wb.trace(model, x)
    wide = wb.trace(model, x)
    assert narrow.check() and narrow.run(x).dtype is torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert wide.check() and narrow.check()
    assert not torch.is_autocast_enabled("cpu")


def scaled(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x).float() * 2


def nested(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ x
        return z.bfloat16() @ y


def both_types(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    return y, y.float()


def both_and_more(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    return y, y.float() @ x


@pytest.mark.test_all
@pytest.mark.parametrize("function", [scaled, nested, both_types, both_and_more])
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_casts_of_what_autocast_made(function: Callable[..., Any], capture: str):
    x = torch.randn(8, 8)
    wanted = [each.dtype for each in torch.utils._pytree.tree_leaves(function(x))]
    journey = wb.trace(function, x, capture=capture)
    assert [each.dtype for each in torch.utils._pytree.tree_leaves(journey.run(x))] == wanted
    assert journey.check()
    made = torch.compile(function, backend="npu")(x)
    assert [each.dtype for each in torch.utils._pytree.tree_leaves(made)] == wanted


@pytest.mark.parametrize("compiled", [False, True])
def test_a_region_of_autocast_that_fails_is_left(compiled: bool):
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.ops.saidandkept.refuses(x @ x)

    with pytest.raises(Exception, match="never of these"):
        if compiled:
            torch.compile(function, backend="npu")(torch.randn(4, 4))
        else:
            wb.trace(function, torch.randn(4, 4))
    assert not torch.is_autocast_enabled("cpu")


@torch.library.custom_op("saidandkept::refuses", mutates_args=())
def refuses(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@refuses.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("never of these")


state = torch.ones(3)


def rebinds(x: torch.Tensor) -> torch.Tensor:
    global state
    state = state * 2
    return x + state


def rebinds_and_prints(x: torch.Tensor) -> torch.Tensor:
    global state
    print("called")
    state = state * 2
    return x + state


@pytest.mark.parametrize("function", [rebinds, rebinds_and_prints])
def test_a_global_that_is_given_another_tensor_is_refused_and_is_what_it_was(function: Callable[..., torch.Tensor]):
    before = state
    with pytest.raises(errors.HiddenState, match=r"an object that it holds \(state\)"):
        wb.trace(function, torch.randn(3))
    assert state is before and state.tolist() == [1, 1, 1]


def test_a_closed_over_name_is_what_it_was():
    total = torch.ones(3)
    before = total

    def adds(x: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total = total + x
        return total * 2

    with pytest.raises(errors.HiddenState, match=r"\(total\)"):
        wb.trace(adds, torch.randn(3))
    assert total is before


class Tagged(torch.Tensor):
    pass


def test_a_subclass_of_tensors_is_named():
    with pytest.raises(errors.NoTensorWork, match=r"a is a Tagged.*a\.as_subclass\(torch\.Tensor\)"):
        wb.trace(lambda a: a * 2, torch.ones(3).as_subclass(Tagged))


class Scaled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.relu:
            with torch._C.DisableTorchFunctionSubclass():
                return (args[0] * 3).as_subclass(cls)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_parameter_of_a_subclass_is_named_too():
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 5).as_subclass(Scaled))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.w) + x

    with pytest.raises(errors.NoTensorWork, match=r"w is a Scaled.*w\.as_subclass\(torch\.Tensor\)"):
        wb.trace(Held(), torch.randn(4, 5))


def test_what_pytorch_s_export_cannot_do_is_told_with_its_line():
    with pytest.raises(errors.CaptureFailed, match=r"export failed at .*test_said_and_kept\.py:\d+ with RuntimeError"):
        wb.trace(lambda z: z.conj().add_(1).real, torch.ones(3, dtype=torch.complex64))


def test_a_check_that_draws_roundings_warns_of_nothing_and_needs_no_leave():
    """PyTorch's own tests forbid that anybody sets a flag for all; a check has to run beside them."""
    importlib.import_module("torch.testing._internal.common_utils")
    own = torch.Generator().manual_seed(0)
    j = wb.trace(lambda x: x + torch.rand(64, generator=own), torch.ones(64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not j.check()


@pytest.mark.parametrize("given", [10**400, -1, float("nan"), float("inf")])
def test_a_tolerance_is_a_number(given: float):
    with pytest.raises(errors.BadOption, match="must be a finite number"):
        wb.trace(torch.relu, torch.ones(3)).check(rtol=given)


def test_a_view_is_given_what_it_takes():
    with wb.ops.scope():

        @wb.view("simulated", "nothing of it")
        def nothing(simulated: wb.artefacts.Simulated) -> int:
            return 1

        with pytest.raises(errors.BadOption, match=r"the view 'nothing of it' is nothing\(.*unexpected keyword"):
            wb.trace(torch.relu, torch.ones(3)).simulated.view("nothing of it", top=3)


@wb.mlir_pass("take-all-away")
def take_all_away(module: Any, options: dict[str, str]) -> None:
    for op in list(module.body.operations):
        op.operation.erase()


@wb.mlir_pass("give-up")
def give_up(module: Any, options: dict[str, str]) -> None:
    raise ValueError("not today")


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("take-all-away", "left 0 functions"),
        ("give-up", r"raised ValueError: not today, at .*test_said_and_kept\.py:\d+"),
        ("canonicalise", "did you mean 'canonicalize'"),
    ],
)
def test_a_pass_that_fails_is_told_by_name(name: str, told: str):
    with pytest.raises(errors.PassError, match=told):
        _ = wb.trace(torch.relu, torch.ones(8, 8)).with_(passes={"bufferize": [name]}).scheduled


def traced_beside(takes: Callable[..., object]) -> wb.Journey:
    """A trace of `aten.frac` beside a builder that must not be called."""
    with wb.ops.scope():

        @wb.ops.builder("aten.frac.default", dialect="arith", takes=takes)
        def frac(*_: Any) -> Any:
            raise AssertionError

        return wb.trace(torch.frac, torch.ones(3))


@pytest.mark.parametrize("answer", ["no", None, torch.tensor([True, False])])
def test_a_takes_that_answers_neither_yes_nor_no_is_refused(answer: object):
    told = r"takes= of the builder of aten\.frac\.default at .*kept\.py:\d+ returned .*, for frac; expected True"
    with pytest.raises(errors.BadRegistration, match=told):
        traced_beside(lambda node, types: answer)


@pytest.mark.parametrize("answer", [False, np.False_, torch.tensor(False)])
def test_a_takes_may_answer_with_bools_of_numpy_and_pytorch(answer: object):
    assert traced_beside(lambda node, types: answer).check().ok


def test_a_takes_that_raises_is_told_with_its_place():
    with pytest.raises(errors.BadRegistration, match=r"takes= of the builder of aten\.frac\.default at .*frac"):
        traced_beside(lambda node: True)
