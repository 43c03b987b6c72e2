"""The shipped operators beside the automatic route, one family a file."""

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
"""Modules of this package that have a `register`."""


def builtin(registry: Registry) -> None:
    """Registers everything shipped. The registry calls it once, for the default registry."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}").register(registry)
