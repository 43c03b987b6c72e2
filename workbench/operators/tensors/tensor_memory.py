"""The memory of tensors: tests if strides describe it, and plain tensors with the same numbers.

PyTorch has tensors whose numbers are not those in memory: negative and conjugate views change the sign when they are
read, a zero tensor has no memory at all. A kernel reads memory, so these are made plain first; tensors that cannot be
made plain (sparse, quantized, wrapped) are refused by name.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.export import ExportedProgram

from workbench.ground.environment.call_sites import place_text
from workbench.ground.errors import UnreadableTensor
from workbench.ground.torch_inside import pytrees as pytree
from workbench.ground.torch_inside.fake_tensors import FakeTensor
from workbench.ground.torch_inside.functorch_layers import is_wrapped
from workbench.ground.torch_inside.tensor_inside import is_zero_tensor, memory_of
from workbench.ir import graph


def span(tensor: torch.Tensor) -> int:
    """The number of elements of memory from a tensor's first element to its last."""
    return graph.span(map(int, tensor.shape), map(int, tensor.stride()))


_COUNTED: Final = 1 << 22
"""The number of elements up to which two tensors are compared element by element."""


def share_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors share a byte. Large tensors, and tensors with elements of different sizes, count as sharing
    one if their ranges of bytes overlap."""
    if not one.numel() or not other.numel() or memory_of(one) != memory_of(other):
        return False
    (first, last), (begin, end) = _reach(one), _reach(other)
    if begin >= last or first >= end:
        return False
    if one.element_size() != other.element_size():
        return True
    if (boxes := _boxes(one, other)) is not None:
        return all(max(a, b) < min(a + m, b + n) for (a, m), (b, n) in boxes)
    if one.numel() + other.numel() > _COUNTED:
        return True
    return bool(np.intersect1d(_places(one), _places(other)).size)


def lies_on_itself(tensor: torch.Tensor) -> bool:
    """True if two elements of a tensor are the same memory; False for a large tensor whose strides do not tell."""
    reach = 1
    for stride, extent in sorted(zip(map(int, tensor.stride()), map(int, tensor.shape), strict=True)):
        if extent > 1 and not stride:
            return bool(tensor.numel())
        if extent > 1 and stride < reach:
            return tensor.numel() <= _COUNTED and np.unique(_places(tensor)).size < tensor.numel()
        reach += (extent - 1) * stride
    return False


_Extents: TypeAlias = tuple[tuple[int, int], tuple[int, int]]


def _boxes(one: torch.Tensor, other: torch.Tensor) -> list[_Extents] | None:
    """For two tensors with equal strides that nest, as pieces of one tensor have: the begin and the extent of both in
    each dim. What is left of the offsets below the smallest stride counts as one more dim. None for other tensors."""
    if one.stride() != other.stride():
        return None
    axes = sorted(zip(one.stride(), one.shape, other.shape, strict=True), reverse=True)
    rests, found, inside = [int(one.storage_offset()), int(other.storage_offset())], list[_Extents](), 0
    for stride, *extents in axes:
        if stride < 1:
            return None
        (begin, rests[0]), (start, rests[1]) = divmod(rests[0], stride), divmod(rests[1], stride)
        ends = [begin + int(extents[0]), start + int(extents[1])]
        if inside and max(ends) * stride > inside:  # reaches into the next row of the dim before
            return None
        found.append(((begin, int(extents[0])), (start, int(extents[1]))))
        inside = int(stride)
    return [*found, ((rests[0], 1), (rests[1], 1))]


def _reach(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor in its memory, and the byte behind its last."""
    first, size = int(tensor.storage_offset()), tensor.element_size()
    return first * size, (first + span(tensor)) * size


def _places(tensor: torch.Tensor) -> npt.NDArray[np.int64]:
    """The place of each element of a tensor in its memory."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    axes = [np.arange(int(extent)) * int(stride) for extent, stride in steps]
    return int(tensor.storage_offset()) + sum(np.ix_(*axes), np.zeros((), np.int64)).ravel()


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A plain copy with the same strides.

    Only what lies between the first element and the last is copied: it may be a small part of a large memory.
    """
    return tensor.detach().as_strided((span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


def is_lazy(tensor: torch.Tensor) -> bool:
    """True if a tensor's numbers are not those in its memory."""
    return tensor.is_neg() or tensor.is_conj() or is_zero_tensor(tensor)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself without autograd's graph; a copy with the same strides if its numbers are not those in memory,
    or are not aligned."""
    if is_zero_tensor(tensor):
        zeros = torch.zeros(span(tensor), dtype=tensor.dtype, device=tensor.device)
        return zeros.as_strided(tensor.shape, tensor.stride())
    if is_lazy(tensor) or not _aligned(tensor):
        return copied(tensor)
    return tensor.detach()


def _aligned(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "cpu" or isinstance(tensor, FakeTensor) or not tensor.data_ptr() % tensor.itemsize


def unreadable(tensor: torch.Tensor) -> str:
    """The reason why a kernel cannot read the tensor, with what to give instead; empty if it can."""
    if isinstance(tensor, FakeTensor):
        return "is a fake tensor, which has a shape and no numbers: give a real one, or one of the device 'meta'"
    if why := not_strided(tensor):
        return why
    if is_wrapped(tensor):
        return "is wrapped by a transform of torch.func or vmap: call the function outside the transform"
    if _dispatches(type(tensor)):
        return (
            f"is a {type(tensor).__name__}, a class that stores its numbers in its own way: give a plain torch.Tensor"
        )
    if tensor.device.type not in ("cpu", "meta"):
        return f"is on {tensor.device}: give it on the CPU, x.cpu()"
    if tensor.is_meta or is_zero_tensor(tensor):
        return ""
    held, said = tensor.untyped_storage().nbytes(), _bytes(tensor)
    if held < said:
        text = f"has a memory of {held:,} bytes, but its shape and strides need {said:,}"
        return f"{text}: its storage was made smaller. Give a clone made before that"
    return ""


def not_strided(tensor: torch.Tensor) -> str:
    """The reason why strides do not describe where the tensor's numbers are, with what to give instead; empty if they
    do."""
    if tensor.is_nested:
        return "is a nested tensor: give its parts one by one, or padded, torch.nested.to_padded_tensor(x, 0.0)"
    if tensor.is_quantized:
        return "is a quantized tensor: give its numbers, x.dequantize(), or its integers, x.int_repr()"
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        embedding = ", or make the embedding with sparse=False" if tensor.layout is torch.sparse_coo else ""
        return f"has the layout {layout}: give it dense, x.to_dense(){embedding}"
    return ""


def _dispatches(kind: type) -> bool:
    """True if the class computes its own ops, and so need not have its numbers in memory."""
    return cast(Any, kind).__torch_dispatch__ is not cast(Any, torch.Tensor).__torch_dispatch__


def _bytes(tensor: torch.Tensor) -> int:
    return (int(tensor.storage_offset()) + span(tensor)) * tensor.itemsize if tensor.numel() else 0


def refuse_unreadable(tensor: torch.Tensor, what: str, name: str) -> None:
    """Refuses a tensor that strides do not describe, fake tensors too. `what` is the user's word for it, `name` the
    function."""
    if why := not_strided(tensor):
        raise UnreadableTensor(name, what, why)


def refuse_unreadable_in(exported: ExportedProgram, name: str) -> None:
    """Refuses tensors that strides do not describe among the inputs and results of an exported graph."""
    for node in exported.graph.nodes:
        place = place_text(node.meta.get("stack_trace"))
        what = f"{node.target}" if node.op == "placeholder" else f"the result of {node.target}"
        for part in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(part, torch.Tensor):
                refuse_unreadable(part, f"{what}, at {place}," if place else what, name)
