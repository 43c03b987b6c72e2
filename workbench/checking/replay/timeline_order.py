"""Kernels that compute in the order of a timeline: at the cycles in which its instructions start and end.

These kernels use no native code. If two instructions overlap that must not, or a slot goes to another tile while it is
still read, the results differ from those of the loops that the timeline was made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from simulator.trace.trace import Trace
from workbench.checking.replay.replay_trace import replay
from workbench.ir import KernelGraph, ScheduledKernel, ScheduledProgram, TensorType
from workbench.operators.tensors.kernel_function import KernelFunction


def kernels_in_order(lowered: KernelGraph, scheduled: ScheduledProgram, trace: Trace) -> dict[str, KernelFunction]:
    """Returns the function for each launch of `lowered` on the NPU, by the launch's name."""
    programs, types = {kernel.kernel: kernel for kernel in scheduled.kernels}, lowered.types
    values = {kernel.name: (*kernel.inputs, *kernel.outputs) for kernel in lowered.kernels}
    found = dict[str, KernelFunction]()
    for place, launch in enumerate(scheduled.launches.launches):
        if launch.kernel in programs and launch.name in values:
            spans = trace.rows_of(place)
            kinds = [types[value] for value in values[launch.name]]
            found[launch.name] = partial(_run, programs[launch.kernel], kinds, trace.start[spans], trace.done[spans])
    return found


def _run(
    kernel: ScheduledKernel,
    kinds: Sequence[TensorType],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    tensors: Sequence[torch.Tensor],
) -> None:
    storages = [_storage(tensor, kind) for tensor, kind in zip(tensors, kinds, strict=True)]
    replay(kernel, storages, starts.tolist(), ends.tolist())


def _storage(tensor: torch.Tensor, kind: TensorType) -> npt.NDArray[np.generic]:
    """The tensor's storage, from the element that its recorded offset counts from; bf16 as its bits."""
    flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    begin = tensor.storage_offset() - kind.offset
    if begin < 0:  # the traced input began further inside its storage than this one
        flat, begin = torch.cat([flat.new_zeros(-begin), flat]), 0
    flat = flat[begin:]
    return (flat.view(torch.uint16) if flat.dtype == torch.bfloat16 else flat).numpy()
