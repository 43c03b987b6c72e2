"""A whole graph replayed in numpy, launch by launch, in the order of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from simulator.program import TileProgram
from simulator.trace import Trace
from workbench.ir import KernelGraph, ScheduledProgram
from workbench.mlir.replay import replay
from workbench.mlir.runtime import allocate

Times = tuple[Sequence[int], Sequence[int]]


def replayed(
    lowered: KernelGraph,
    scheduled: ScheduledProgram,
    values: Sequence[torch.Tensor],
    times: Callable[[int, TileProgram], Times],
) -> list[torch.Tensor]:
    """The output leaves for graph inputs in graph order; `times` gives starts and ends of a launch's instructions.

    Everything a kernel is to write starts as something that is not a number.
    """
    base = {view.value: view.base for view in lowered.views}
    kernels = {kernel.kernel: kernel for kernel in scheduled.kernels}
    live: dict[str, torch.Tensor] = {}
    for item, given in zip(lowered.captured.inputs, values, strict=True):
        live[item.value] = allocate(lowered.types[item.value]).copy_(given.detach())
    for number, launch in enumerate(scheduled.launches.launches):
        storages: list[npt.NDArray[np.generic]] = []
        for value in launch.arguments:
            owner = base.get(value, value)
            if owner not in live:
                live[owner] = allocate(lowered.types[owner]).fill_(float("nan"))
            storages.append(storage(live[owner]))
        kernel = kernels[launch.kernel]
        replay(kernel, storages, *times(number, kernel.program))
    outputs: list[torch.Tensor] = []
    for value in lowered.captured.outputs:
        kind = lowered.types[value]
        outputs.append(live[base.get(value, value)].as_strided(kind.shape, kind.strides, kind.offset))
    return outputs


def storage(tensor: torch.Tensor) -> npt.NDArray[np.generic]:
    """All elements a tensor's storage holds, shared."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0).numpy()


def in_trace_order(trace: Trace) -> Callable[[int, TileProgram], Times]:
    """Times of each launch as the trace has them."""

    def times(launch: int, program: TileProgram) -> Times:
        spans = np.flatnonzero(trace.launch == launch)
        starts, ends = np.zeros(len(program), np.int64), np.zeros(len(program), np.int64)
        assert sorted(trace.instr[spans].tolist()) == list(range(len(program)))
        starts[trace.instr[spans]], ends[trace.instr[spans]] = trace.start[spans], trace.done[spans]
        return starts.tolist(), ends.tolist()

    return times
