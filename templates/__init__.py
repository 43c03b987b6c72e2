"""The shipped templates and builders, for ops that the automatic route does not cover; a file per family."""

from __future__ import annotations

import importlib

from workbench.operators.aten.registry import Registry

FAMILIES = (
    "attention_kernel",
    "where",
    "creation",
    "extremes",
    "indexing",
    "integers",
    "numbers",
    "products",
    "scan",
    "scatter",
    "sort",
    "special",
)
"""The modules of this package with a `register` function."""


def builtin(registry: Registry) -> None:
    """Registers all shipped templates and builders. The default registry calls this function once."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}").register(registry)
