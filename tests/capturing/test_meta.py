"""Models without weights: everything but numbers works on the meta device. And ops that have no fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS
from workbench.ground import errors


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("mode", ["dynamo", "export"])
@pytest.mark.parametrize("name", ["mlp", "layernorm", "linear"])
def test_a_model_on_the_meta_device_gives_the_same_timeline_as_the_one_with_weights(name: str, mode: str):
    program = PROGRAMS[name]
    model = program.build()
    assert isinstance(model, nn.Module)
    given = program.inputs()
    meta = program.build().to("meta"), [x.to("meta") for x in given]
    real, weightless = (wb.trace(each, *inputs, capture=mode) for each, inputs in ((model, given), meta))
    assert weightless.captured.record == real.captured.record
    assert weightless.simulated.trace.digest() == real.simulated.trace.digest()


def test_numbers_are_refused_with_what_lacks_them():
    with torch.device("meta"):
        model = nn.Linear(8, 4)
    journey = wb.trace(model, torch.randn(3, 8, device="meta"))
    with pytest.raises(errors.NoData, match=r"cannot run: bias, weight are on the meta device"):
        journey.run(torch.randn(3, 8))
    for stage in ("captured", "rendered", "scheduled", "simulated"):
        with pytest.raises(errors.NoData, match=r"cannot check: input, bias, weight"):
            journey.check(stage=stage)


@torch.library.custom_op("metatest::plain", mutates_args=())
def custom(x: torch.Tensor, times: float) -> torch.Tensor:
    return x * times


LIBRARY = torch.library.Library("metatest", "FRAGMENT")
LIBRARY.define("defined(Tensor x) -> Tensor")
LIBRARY.impl("defined", lambda x: x.sigmoid(), "CPU")


def calls_custom(x: torch.Tensor) -> torch.Tensor:
    return custom(x * 2, 3.0)


def calls_defined(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.metatest.defined(x * 2)


def calls_aten(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._foobar(x, True, arg3=False)


@pytest.fixture
def nobody_knows_foobar():
    """Takes away the shapes of `_foobar` that its template gave PyTorch in another test of this process."""
    libraries: list[Any] = torch.library._keep_alive
    for library in [each for each in libraries if any("_foobar" in key for key in each._op_impls)]:
        library._destroy()
        libraries.remove(library)


@pytest.mark.usefixtures("nobody_knows_foobar")
@pytest.mark.parametrize("mode", ["dynamo", "export"])
@pytest.mark.parametrize(
    ("function", "device", "op", "stub"),
    [
        (calls_custom, "cpu", "metatest::plain", "def _(x, times):"),
        (calls_custom, "meta", "metatest::plain", "def _(x, times):"),
        (calls_defined, "cpu", "metatest::defined", "def _(x):"),
        (calls_aten, "meta", "aten::_foobar", "def _(self, arg1, arg2, arg3):"),
    ],
)
def test_an_op_without_a_fake_is_named_with_its_line_and_the_stub(
    function: Callable[..., Any], device: str, op: str, stub: str, mode: str
):
    with pytest.raises(errors.MissingFake) as caught:
        wb.trace(function, torch.randn(4, 4, device=device), capture=mode)
    text = str(caught.value)
    assert f"calls {op}, at {__file__}:{function.__code__.co_firstlineno + 1}" in text
    assert f'@torch.library.register_fake("{op}")' in text and stub in text


def test_a_compiled_function_says_that_meta_tensors_have_no_numbers():
    with pytest.raises(errors.NoData, match=r"cannot run: .* is on the meta device, which has shapes and no numbers"):
        torch.compile(torch.relu, backend="npu")(torch.randn(3, device="meta"))
