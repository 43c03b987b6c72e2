"""Names of kernels as people shorten them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def with_full_kernel(name: str, kernels: Iterable[str]) -> str:
    """`k0_softmax` for `k0`, `k0_softmax:12` for `k0:12`; any other name as it is."""
    found = re.fullmatch(r"(k\d+)([:#]\d+)?", name)
    if found is None:
        return name
    number, rest = found[1], found[2] or ""
    return next((f"{kernel}{rest}" for kernel in kernels if kernel.startswith(f"{number}_")), name)
