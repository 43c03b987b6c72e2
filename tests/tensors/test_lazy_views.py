"""Tensors whose numbers are not those in their memory: made plain before a kernel reads them, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import workbench as wb
from workbench.ground.errors import InputMismatch, SharedElements, UnreadableTensor, WorkbenchError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


Z = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
LAZY: dict[str, Callable[[], torch.Tensor]] = {
    "imaginary of a conjugate": lambda: Z.clone().conj().imag,
    "negative": lambda: torch._neg_view(torch.arange(12.0).reshape(3, 4)),
    "transposed negative": lambda: torch._neg_view(torch.arange(12.0).reshape(4, 3)).t(),
    "expanded negative": lambda: torch._neg_view(torch.arange(4.0)).expand(3, 4),
    "a part of a negative": lambda: torch._neg_view(torch.arange(40.0).reshape(5, 8))[1:4, ::2],
    "zero tensor": lambda: torch._efficientzerotensor(3, 4),
}


def raw(offset: int) -> torch.Tensor:
    """A matrix that begins at a byte where no number should."""
    memory = bytearray(b"\0" * offset + np.arange(12, dtype=np.float32).tobytes())
    return torch.frombuffer(memory, dtype=torch.float32, offset=offset).reshape(3, 4)


LAZY["not aligned"] = lambda: raw(1)


@pytest.mark.test_all
@pytest.mark.parametrize("name", LAZY)
def test_an_input_has_the_numbers_that_pytorch_reads(name: str):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2 + 1, x[1:]

    x = LAZY[name]()
    expected = function(x)
    journey = wb.trace(function, x)
    plain = wb.trace(function, torch.randn(3, 4))
    with torch.no_grad():
        found = [
            journey.run(x),
            torch.compile(function, backend="npu")(x),
            plain.run(x.clone(memory_format=torch.contiguous_format)),
        ]
    for got in found:
        torch.testing.assert_close(got[0], expected[0])
        torch.testing.assert_close(got[1], expected[1])
    assert all(journey.check(stage=stage).ok for stage in ("captured", "rendered", "scheduled", "simulated"))


@pytest.mark.test_all
def test_conjugates_are_resolved():
    z = Z.conj()

    def function(z: torch.Tensor) -> torch.Tensor:
        return z.real + 2 * z.imag

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(function, backend="npu")(z), function(z))


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch._neg_view(torch.arange(4.0)))
        self.register_buffer("shift", Z[0].conj().imag)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.shift


@pytest.mark.test_all
def test_parameters_buffers_and_closed_over_tensors():
    model, closed, x = Holding(), Z[1].conj().imag, torch.ones(3, 4)
    for function in (model, lambda x: x + closed):
        journey = wb.trace(function, x)
        with torch.no_grad():
            torch.testing.assert_close(journey.run(x), function(x))
            torch.testing.assert_close(torch.compile(function, backend="npu")(x), function(x))
        assert journey.check().ok
    with pytest.raises(UnreadableTensor, match="which export cannot read"):
        wb.trace(model, x, capture="export")


def add_one(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@pytest.mark.test_all
@pytest.mark.parametrize("verb", ["run", "compile", "broken up"])
def test_what_is_changed_is_written_back_through_the_negation(verb: str):
    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return add_one(x)

    memory, theirs = torch.arange(4.0), torch.arange(4.0)
    x = torch._neg_view(memory)
    expected = add_one(torch._neg_view(theirs))
    if verb == "compile":
        with torch.no_grad():
            got = torch.compile(add_one, backend="npu")(x)
    else:
        got = wb.trace(broken if verb == "broken up" else add_one, x).run(x)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(memory, theirs)
    assert x.is_neg() and wb.trace(broken if verb == "broken up" else add_one, x).check().ok


def shrunk() -> torch.Tensor:
    x = torch.ones(8)
    x.untyped_storage().resize_(4)
    return x


class Wrapped(torch.Tensor):
    """A tensor that keeps its numbers elsewhere."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(each.inner if isinstance(each, Wrapped) else each for each in args), **(kwargs or {}))


def fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(8)


UNREADABLE: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "sparse": (lambda: torch.eye(8).to_sparse(), "layout sparse_coo"),
    "sparse rows": (lambda: torch.eye(8).to_sparse_csr(), "layout sparse_csr"),
    "mkldnn": (lambda: torch.ones(8).to_mkldnn(), "layout"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(8), 0.1, 0, torch.qint8), "quantized"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
    "jagged": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "nested"),
    "fake": (fake, "fake tensor"),
    "wrapped": (lambda: Wrapped(torch.ones(8)), "a Wrapped, a class that stores its numbers in its own way"),
    "a storage made smaller": (shrunk, "a memory of 4 bytes, but its shape and strides need 32"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_a_kernel_cannot_read_is_one_clear_error(name: str):
    make, words = UNREADABLE[name]
    with pytest.raises(UnreadableTensor, match=words):
        wb.trace(torch.relu, make())
    with pytest.raises(WorkbenchError):
        wb.trace(torch.relu, torch.ones(8)).run(make())


def test_a_transform_around_a_trace_is_told():
    with pytest.raises(UnreadableTensor, match="wrapped by a transform"):
        torch.vmap(lambda x: wb.trace(torch.relu, x).run(x))(torch.ones(2, 3))


def test_what_cannot_be_changed_is_told_before_anything_runs():
    journey = wb.trace(add_one, torch.ones(4))
    with torch.inference_mode():
        inference = torch.ones(4)
    with pytest.raises(SharedElements, match="is expanded"):
        journey.run(torch.ones(1).expand(4))
    with pytest.raises(SharedElements, match="is a zero tensor"):
        journey.run(torch._efficientzerotensor(4))
    with pytest.raises(InputMismatch, match="made in inference mode"):
        journey.run(inference)
    assert torch.equal(inference, torch.ones(4))


def test_inference_tensors_and_memory_of_numpy_are_read():
    with torch.inference_mode():
        inference = torch.ones(4)
    assert wb.trace(torch.relu, inference).check().ok and wb.trace(add_one, inference).check().ok
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = torch.from_numpy(array)
    assert wb.trace(torch.relu, x).check().ok
    reversed_in_memory = torch.arange(12.0).reshape(3, 4).flip(0)[1:, 1:]
    assert wb.trace(torch.relu, reversed_in_memory).check().ok


@pytest.mark.parametrize("stage", ["captured", "rendered", "scheduled", "simulated"])
@pytest.mark.parametrize("part", [lambda z: z.imag * 2, lambda z: z.real * 2])
def test_parts_of_a_conjugate_that_is_given_are_checked_at_every_stage(part: Any, stage: Any):
    assert wb.trace(part, torch.randn(4, dtype=torch.complex64).conj()).check(stage=stage)
