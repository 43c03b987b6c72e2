"""The words the workbench adds to upstream MLIR.

So far these are attributes on upstream ops. MLIR lets any op carry an attribute with a dialect prefix, and
checks it only when that dialect is loaded; `npu.*` attributes therefore parse, survive passes that keep the
op, and print, in a plain context: no dialect needs to be registered and unregistered ones stay forbidden.
Ops of our own (`npu.*`) will need one, made with `torch_mlir.dialects.ext`.
"""

from __future__ import annotations

from typing import Final

DRAM: Final = 0
"""Memory space of kernel arguments; a memref without a memory space lies here too."""

SCRATCHPAD: Final = 1
"""Memory space of every buffer a kernel allocates."""

SLOTS: Final = "npu.slots"
"""On `memref.alloc`: how many copies of a tile the buffer holds. Its leading dimension then counts slots."""

PAD_LOW: Final = "npu.pad_low"
"""On a `memref.reinterpret_cast` that stands for a padded tensor: how many elements, on each axis, lie before it."""

PAD_INSIDE: Final = "npu.pad_inside"
"""On the same op: the extents of the tensor that is padded."""

PAD_VALUE: Final = "npu.pad_value"
"""On the same op: what every element around it is."""
