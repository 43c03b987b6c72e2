"""The nonzero elements of a call's tensors, for machines that skip tiles of zeros.

No record contains data, so the elements are read from the live call when the timeline is made, and only the timeline is
kept. A loaded journey has no call, and tensors on the meta device have no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from workbench.capturing.live_call import CapturedProgram
from workbench.ir import KernelGraph

Mask = npt.NDArray[np.bool_]


def filled(
    program: CapturedProgram, lowered: KernelGraph, inputs: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, Mask]:
    """For each input, parameter, buffer and closed-over tensor, a mask of the nonzero elements of its storage, from the
    base on. The views of a tensor with its element type have the same mask.
    """
    found: dict[str, Mask] = {}
    for slot, tensor in zip(program.graph.inputs, program.values(inputs, kwargs), strict=True):
        kind = lowered.types[slot.value]
        if tensor.is_meta or tensor.layout is not torch.strided or not kind.numel:
            continue
        storage = np.zeros(kind.offset + kind.span, np.bool_)
        view = np.lib.stride_tricks.as_strided(storage[kind.offset :], kind.shape, kind.strides)
        view[...] = (tensor.detach() != 0).cpu().numpy()
        found[slot.value] = storage
    types = lowered.types
    for view in lowered.views:
        if view.base in found and types[view.value].dtype == types[view.base].dtype:
            found[view.value] = found[view.base]
    return found
