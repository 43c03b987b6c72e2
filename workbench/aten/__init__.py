"""ATen ops: the registry of their routes, their names and schemas, and the list of proven ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.aten import overload_names as overload_names
    from workbench.aten import proven as proven
    from workbench.aten import registry as registry

__getattr__ = submodules(__name__, "overload_names", "proven", "registry")
