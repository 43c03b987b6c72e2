"""ATen ops: their record form, their execution with PyTorch, and the registry of their routes.

    @wb.ops.builder("aten.hypot.default", dialect="math", kind="elementwise")
    def hypot(op): ...

`template`, `builder`, `conversion` and `executor` register; `table()` and `who(overload)` show the registrations;
`with scope():` undoes at its end all registrations inside.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.aten import registry as registry
    from workbench.aten.registry import DEFAULT
    from workbench.ops import listing as listing
    from workbench.ops.listing import table as table
    from workbench.ops.listing import who as who

    builder, template, conversion, executor = DEFAULT.builder, DEFAULT.template, DEFAULT.conversion, DEFAULT.executor
    drop, scope = DEFAULT.drop, DEFAULT.scope

_REGISTERING = frozenset({"builder", "template", "conversion", "executor", "drop", "scope"})
_LISTING = frozenset({"table", "who"})
_submodule = submodules(__name__, "listing")


def __getattr__(name: str) -> object:
    if name in _REGISTERING | _LISTING:
        importlib.import_module("workbench.journey")  # which adds the shipped operators to the registry
    if name in _REGISTERING:
        return getattr(importlib.import_module("workbench.aten.registry").DEFAULT, name)
    if name in _LISTING:
        return getattr(importlib.import_module("workbench.ops.listing"), name)
    return importlib.import_module("workbench.aten.registry") if name == "registry" else _submodule(name)


def __dir__() -> list[str]:
    return sorted(_REGISTERING | _LISTING)
