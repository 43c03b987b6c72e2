"""What is known of ATen ops: their record form, their execution with PyTorch, and the registry of who makes them.

    @wb.ops.builder("aten.hypot.default", dialect="math", kind="elementwise")
    def hypot(op): ...

`template`, `builder`, `conversion` and `executor` register; `table()` and `who(overload)` tell what is registered;
`with scope():` undoes at its end what was registered inside.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.ops import aliases as aliases
    from workbench.ops import calls as calls
    from workbench.ops import compare as compare
    from workbench.ops import execute as execute
    from workbench.ops import filled as filled
    from workbench.ops import host as host
    from workbench.ops import listing as listing
    from workbench.ops import memory as memory
    from workbench.ops import names as names
    from workbench.ops import new_op as new_op
    from workbench.ops import parts as parts
    from workbench.ops import placement as placement
    from workbench.ops import places as places
    from workbench.ops import proven as proven
    from workbench.ops import reachable as reachable
    from workbench.ops import reference as reference
    from workbench.ops import registry as registry
    from workbench.ops import residence as residence
    from workbench.ops import trees as trees
    from workbench.ops.listing import table as table
    from workbench.ops.listing import who as who
    from workbench.ops.registry import DEFAULT

    builder, template, conversion, executor = DEFAULT.builder, DEFAULT.template, DEFAULT.conversion, DEFAULT.executor
    drop, scope = DEFAULT.drop, DEFAULT.scope

_REGISTERING = frozenset({"builder", "template", "conversion", "executor", "drop", "scope"})
_LISTING = frozenset({"table", "who"})
_submodule = submodules(
    __name__,
    *("aliases", "calls", "compare", "execute", "filled", "host", "listing", "memory", "names", "new_op", "parts"),
    *("placement", "places", "proven", "reachable", "reference", "registry", "residence", "trees"),
)


def __getattr__(name: str) -> object:
    if name in _REGISTERING | _LISTING:
        importlib.import_module("workbench.journey")  # which hands the shipped operators to the registry
    if name in _REGISTERING:
        return getattr(importlib.import_module("workbench.ops.registry").DEFAULT, name)
    if name in _LISTING:
        return getattr(importlib.import_module("workbench.ops.listing"), name)
    return _submodule(name)


def __dir__() -> list[str]:
    return sorted(_REGISTERING | _LISTING)
