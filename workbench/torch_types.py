"""torch's element types by the names that records give them, for all who know torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch

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
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """`f32` for `torch.float32`; torch's own name for the types no machine here knows."""
    return _DTYPE_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def to_dtype(name: str) -> torch.dtype:
    return DTYPES[name] if name in DTYPES else cast("torch.dtype", getattr(torch, name))
