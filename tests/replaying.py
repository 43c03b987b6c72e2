"""A whole scheduled program in the order of its trace, with memory in which reads of what nobody wrote are seen."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import torch

from simulator.trace.trace import Trace
from tests.flow import Flow
from workbench.checking.replay.timeline_order import kernels_in_order
from workbench.operators.tensors.element_types import uninitialised
from workbench.running import run_program
from workbench.running.run_program import NativeProgram


def replayed(made: Flow, trace: Trace, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The output leaves that the trace's order of events gives; `inputs` in graph order, which stay as they are."""
    program = NativeProgram.from_functions(made.lowered, kernels_in_order(made.lowered, made.scheduled, trace))
    with patch.object(run_program, "uninitialised", _poisoned):
        return program.run([*map(_copied, inputs)])


def _poisoned(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory that holds what is not a number, or a number nobody expects."""
    made = uninitialised(count, dtype)
    torch.empty(0, dtype=torch.uint8).set_(made.untyped_storage()).fill_(0xFF)
    return made


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """The same in a storage of its own, elements that share their place included."""
    tensor = tensor.detach()
    storage = tensor.untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
