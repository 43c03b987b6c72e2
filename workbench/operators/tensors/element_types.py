"""PyTorch's element types by the names that records use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch

from workbench.ground.torch_inside.tensor_inside import empty_quantised

DTYPES: Mapping[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}
_QUANTISED = (torch.qint8, torch.quint8, torch.qint32)
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """`f32` for `torch.float32`; PyTorch's own name for types that no machine here has."""
    return _DTYPE_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def uninitialised(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Uninitialised memory for `count` elements. Quantised elements take the scale of what is copied into them."""
    if dtype in _QUANTISED:
        return empty_quantised(count, dtype)
    return torch.empty(count, dtype=dtype)


def seen_as(
    base: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: torch.dtype
) -> torch.Tensor:
    """The memory of `base` as elements of any type; `offset` counts such elements from the start of the memory."""
    if dtype != base.dtype:
        size = base.element_size()
        flat = base.as_strided((base.untyped_storage().nbytes() // size,), (1,), 0)
        if base.is_complex() and dtype == base.real.dtype:
            base = torch.view_as_real(flat).reshape(-1)  # gradients pass this view and the next
        elif dtype.is_complex and dtype.itemsize == 2 * size and base.is_floating_point():
            base = torch.view_as_complex(flat[: flat.numel() // 2 * 2].view(-1, 2))
        else:
            unit = max(dtype.itemsize // size, 1)
            base = flat[: flat.numel() // unit * unit].view(dtype)
    return base.as_strided(shape, strides, offset)


def to_dtype(name: str) -> torch.dtype:
    return DTYPES[name] if name in DTYPES else cast("torch.dtype", getattr(torch, name))
