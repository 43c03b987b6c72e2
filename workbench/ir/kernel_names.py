"""Names of kernels as people shorten them, and patterns that stand for several."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, TypeVar, cast

V = TypeVar("V")

EVERY: Final = "*"


def with_full_kernel(name: str, kernels: Iterable[str]) -> str:
    """Returns `k0_softmax` for `k0`, `k0_softmax:12` for `k0:12`, and any other name unchanged."""
    found = re.fullmatch(r"(k\d+)([:#]\d+)?", name)
    if found is None:
        return name
    number, rest = found[1], found[2] or ""
    return next((f"{kernel}{rest}" for kernel in kernels if kernel.startswith(f"{number}_")), name)


def by_full_names(asked: Mapping[str, V], kernels: Iterable[str]) -> dict[str, V]:
    """Returns each kernel's entry under its whole name; of two names of one kernel the last counts.

    Keys that are no names stay: the check of names reports them.
    """
    named = cast("Mapping[object, V]", asked).items()
    found = {with_full_kernel(name, kernels) if isinstance(name, str) else name: each for name, each in named}
    return cast("dict[str, V]", found)


def is_pattern(key: str) -> bool:
    return any(sign in key for sign in "*?[")


def key_for(asked: Collection[str], names: tuple[str, ...]) -> str | None:
    """Returns the key that applies to a kernel with these names: a name, else the first pattern that matches, with `*`
    as the last pattern."""
    patterns = sorted(filter(is_pattern, asked), key=lambda key: key == EVERY)
    found = [name for name in names if name in asked]
    found += [key for key in patterns if any(fnmatchcase(name, key) for name in names)]
    return found[0] if found else None
