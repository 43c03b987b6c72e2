"""The words the workbench adds to upstream MLIR.

So far these are attributes on upstream ops. MLIR lets any op carry an attribute with a dialect prefix, and checks the
attribute only if that dialect is loaded. So in a plain context `npu.*` attributes are parsed and printed, and survive
passes that keep the op: no dialect needs to be registered, and ops of unregistered dialects stay forbidden. Our own
`npu.*` ops will need a dialect, made with `torch_mlir.dialects.ext`.
"""

from __future__ import annotations

from typing import Final

DRAM: Final = 0
"""Memory space of kernel arguments; a memref without a memory space lies here too."""

SCRATCHPAD: Final = 1
"""Memory space of every buffer that a kernel allocates."""

SLOTS: Final = "npu.slots"
"""On `memref.alloc`: the number of slots, each for one tile. The leading dimension is then this number."""

PAD_LOW: Final = "npu.pad_low"
"""On a `memref.reinterpret_cast` that is a padded view: the number of elements before the tensor on each axis."""

PAD_INSIDE: Final = "npu.pad_inside"
"""On the same op: the extents of the tensor that is padded."""

PAD_VALUE: Final = "npu.pad_value"
"""On the same op: the value of every padding element."""
