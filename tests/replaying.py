"""A whole scheduled program replayed in trace order on numpy memory, launch after launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from simulator.trace.trace import Trace
from tests.flow import Flow
from workbench.checking.replay.replay_trace import replay
from workbench.ir import TensorType
from workbench.running.run_program import allocate


def replayed(made: Flow, trace: Trace, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The output leaves that the trace's order of events gives; `inputs` in graph order."""
    lowered = made.lowered
    base = {view.value: view.base for view in lowered.views}
    storages: dict[str, torch.Tensor] = {}
    for slot, tensor in zip(lowered.captured.inputs, inputs, strict=True):
        storages[slot.value] = _flat(_laid_out(tensor.detach(), lowered.types[slot.value]))
    for index, launch in enumerate(made.scheduled.launches.launches):
        for value in launch.arguments:
            owner = base.get(value, value)
            if owner not in storages:
                storages[owner] = _flat(allocate(lowered.types[owner]))
                storages[owner].view(torch.uint8).fill_(0xFF)  # not a number, or a number nobody expects
        arguments = [_memory(storages[base.get(value, value)]) for value in launch.arguments]
        rows = np.flatnonzero(trace.launch == index)
        kernel = next(kernel for kernel in made.scheduled.kernels if kernel.kernel == launch.kernel)
        replay(kernel, arguments, trace.start[rows].tolist(), trace.done[rows].tolist())
    out: list[torch.Tensor] = []
    for value in lowered.captured.outputs:
        kind = lowered.types[value]
        out.append(storages[base.get(value, value)].as_strided(kind.shape, kind.strides, kind.offset))
    return out


def _laid_out(tensor: torch.Tensor, kind: TensorType) -> torch.Tensor:
    """A copy in the recorded layout; of elements that share their place each is the same."""
    copy = allocate(kind)
    for axis, (extent, stride) in enumerate(zip(kind.shape, kind.strides, strict=True)):
        if extent > 1 and not stride:
            tensor, copy = tensor.narrow(axis, 0, 1), copy.narrow(axis, 0, 1)
    copy.copy_(tensor)
    return copy


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's whole storage, offset included."""
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())


def _memory(storage: torch.Tensor) -> np.ndarray:
    """The same memory as numpy says it: bf16 as its bits."""
    return (storage.view(torch.uint16) if storage.dtype == torch.bfloat16 else storage).numpy()
