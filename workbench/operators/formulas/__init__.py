"""Ops that decompose into others: one formula for each op, one file for each family, with a table from overload to
formula.

A formula uses `b`, which adds one ATen call at a time to the record and returns a reference to its result. Types come
from running the call on meta tensors, so a formula costs microseconds and no tracing.
"""

from __future__ import annotations

import importlib
from typing import cast

from workbench.operators.formulas.formula_builder import Formula

FAMILIES = (
    "activations",
    "other_names",
    "arithmetic",
    "attention",
    "known_contents",
    "embedding_bags",
    "gradients",
    "indices",
    "layout_changes",
    "losses",
    "matrix_products",
    "moving",
    "normalisation",
    "pads",
    "pool_gradients",
    "pools",
    "recurrent",
    "reductions",
    "resampling",
    "windows",
)
"""Modules of this package that have a table `FORMULAS`."""


def of_family(family: str) -> dict[str, Formula]:
    """The formulas of one module."""
    return cast("dict[str, Formula]", importlib.import_module(f"{__name__}.{family}").FORMULAS)


FORMULAS: dict[str, Formula] = {
    overload: formula for family in FAMILIES for overload, formula in of_family(family).items()
}
