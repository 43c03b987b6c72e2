"""`j.check()`: comparing tensors, the reference in 64 bits, the errors that rounding explains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.checking import held_tensors as held_tensors
    from workbench.checking import replay as replay
    from workbench.checking import tensor_comparison as tensor_comparison
    from workbench.checking import wide_reference as wide_reference

__getattr__ = submodules(__name__, "held_tensors", "replay", "tensor_comparison", "wide_reference")
