"""Switches of LLVM's passes, which the engine takes no arguments for: said once, before a process compiles a kernel."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Final

from torch_mlir import _mlir_libs

_LIBRARY: Final = "*TorchMLIRAggregateCAPI.*"

_SWITCHES: Final = ("-vectorize-slp=false",)
"""The pass that makes vectors of single operations side by side. With gathers it stores numbers before it reads what
was there: of attention with five matrices of one row each, eight of 25 results were divided by the sums of before.
Loops are vectorised by another pass.
"""


@cache
def switch_passes() -> bool:
    """Sets the switches for this process; False where the library does not offer it, as it may on other systems."""
    for path in Path(_mlir_libs.__file__).parent.glob(_LIBRARY):
        parse = getattr(ctypes.CDLL(str(path)), "LLVMParseCommandLineOptions", None)
        if parse is not None:
            words = (b"kernels", *(each.encode() for each in _SWITCHES))
            parse(len(words), (ctypes.c_char_p * len(words))(*words), None)
            return True
    return False
