"""A whole scheduled program replayed in trace order on numpy memory, launch after launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simulator.trace import Trace
from tests.flow import Flow
from workbench.mlir.replay import replay
from workbench.mlir.runtime import allocate

POISON = 0xFF
"""Bytes that nobody has written: as a float of any width they are not a number."""


def replayed(made: Flow, trace: Trace, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The output leaves that the trace's order of events gives; `inputs` in graph order."""
    lowered = made.lowered
    base = {view.value: view.base for view in lowered.views}
    storages: dict[str, torch.Tensor] = {}
    for slot, tensor in zip(lowered.captured.inputs, inputs, strict=True):
        storages[slot.value] = _flat(allocate(lowered.types[slot.value]).copy_(tensor.detach()))
    for index, launch in enumerate(made.scheduled.launches.launches):
        for value in launch.arguments:
            owner = base.get(value, value)
            if owner not in storages:
                storages[owner] = _flat(allocate(lowered.types[owner]))
                storages[owner].view(torch.uint8).fill_(POISON)
        arguments = [_numpy(storages[base.get(value, value)]) for value in launch.arguments]
        rows = np.flatnonzero(trace.launch == index)
        kernel = next(kernel for kernel in made.scheduled.kernels if kernel.kernel == launch.kernel)
        replay(kernel, arguments, trace.start[rows].tolist(), trace.done[rows].tolist())
    out: list[torch.Tensor] = []
    for value in lowered.captured.outputs:
        kind = lowered.types[value]
        out.append(storages[base.get(value, value)].as_strided(kind.shape, kind.strides, kind.offset))
    return out


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's whole storage, offset included."""
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())


def _numpy(storage: torch.Tensor) -> npt.NDArray[Any]:
    """The storage's own memory; numpy has no bf16, whose bytes it takes as whole numbers."""
    return (storage.view(torch.int16) if storage.dtype == torch.bfloat16 else storage).numpy()
