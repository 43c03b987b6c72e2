"""Names of kernels as people shorten them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

V = TypeVar("V")


def with_full_kernel(name: str, kernels: Iterable[str]) -> str:
    """`k0_softmax` for `k0`, `k0_softmax:12` for `k0:12`; any other name as it is."""
    found = re.fullmatch(r"(k\d+)([:#]\d+)?", name)
    if found is None:
        return name
    number, rest = found[1], found[2] or ""
    return next((f"{kernel}{rest}" for kernel in kernels if kernel.startswith(f"{number}_")), name)


def by_full_names(asked: Mapping[str, V], kernels: Iterable[str]) -> dict[str, V]:
    """What is asked for each kernel, under its whole name; of two names of one kernel the last counts.

    What is no name at all stays: whoever checks the names says so.
    """
    named = cast("Mapping[object, V]", asked).items()
    found = {with_full_kernel(name, kernels) if isinstance(name, str) else name: each for name, each in named}
    return cast("dict[str, V]", found)
