"""A journey beside PyTorch itself: the same call twice, and everything that a caller could tell apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import workbench as wb
from workbench.ir import BREAK

Make = Callable[[], tuple[Any, ...]]
"""Makes the inputs of a call; called again it makes equal ones, which share memory in the same way."""


@dataclass(frozen=True)
class Called:
    """The arguments and the result of a call."""

    inputs: tuple[Any, ...]
    returned: Any

    @property
    def tensors(self) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((self.inputs, self.returned))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def layout(self) -> list[tuple[object, ...]]:
        """For each tensor which one it is, whose memory it lies in and where there, its shape, strides and type."""
        objects: dict[int, int] = {}
        memories: dict[int, tuple[int, int]] = {}
        rows: list[tuple[object, ...]] = []
        for number, tensor in enumerate(self.tensors):
            same = objects.setdefault(id(tensor), number)
            key = tensor.untyped_storage().data_ptr() or -number - 1  # nothing has no address
            owner, begin = memories.setdefault(key, (number, tensor.data_ptr()))
            rows.append((same, owner, tensor.data_ptr() - begin, *tensor.shape, tensor.stride(), tensor.dtype))
        return rows

    def containers(self) -> object:
        return _containers(self.returned)


def _containers(value: Any) -> object:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, dict):
        return type(value), {key: _containers(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value), [_containers(item) for item in value]
    return value


def given(make: Make, seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    return make()


def eagerly(function: Callable[..., Any], make: Make, seed: int = 7) -> Called:
    inputs = given(make, seed)
    with torch.no_grad():
        return Called(inputs, function(*inputs))


def same_as_eager(
    function: Callable[..., Any],
    make: Make,
    *,
    machine: str = "edge-8x8",
    capture: str = "dynamo",
    hosted: tuple[str, ...] | None = (),
) -> wb.Journey:
    """Traces, and holds a run on other numbers against PyTorch: results, changed inputs, containers, shared memory.

    `hosted` are the ops that may run on the host; None does not look.
    """
    journey = wb.trace(function, *given(make, 0), machine=machine, capture=capture)
    ran = given(make, 7)
    ours, theirs = Called(ran, journey.run(*ran)), eagerly(function, make)
    assert ours.containers() == theirs.containers()
    assert ours.layout() == theirs.layout()
    for mine, reference in zip(ours.tensors, theirs.tensors, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4, equal_nan=True)
    checked = given(make, 9)
    before = [tensor.clone() for tensor in Called(checked, None).tensors]
    assert journey.check(*checked).ok
    assert all(
        torch.equal(old.nan_to_num(), new.nan_to_num())
        for old, new in zip(before, Called(checked, None).tensors, strict=True)
    )
    journey.simulated.record.invariants()
    if hosted is not None:
        on_host = {item.node.op for item in journey.lowered.record.nodes if item.route == "host"}
        assert on_host - {BREAK} == set(hosted)
    return journey
