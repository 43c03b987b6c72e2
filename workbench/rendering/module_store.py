"""Keeps rendered kernels on disk from one process to the next.

A kernel's MLIR follows from its structure (`same_structure.py`), a template's text also from machine and mapping.
Making a module takes PyTorch's importer and several passes, and a template may compare hundreds of tiles. So modules
are stored under a key of all these inputs. Code that a user registered is not part of the key: a kernel with a node of
a user's is made each time.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable

from workbench.ground.environment.disk_store import Store, made_by, packed, unpacked, user_store
from workbench.ir import KernelModule, LoweredNode, RecordFormatError, codec
from workbench.operators.aten.registry import Registrations


def default_module_store() -> Store | None:
    """The user's store of modules; None when the environment switches it off."""
    return user_store("modules")


def kept_or_made(
    store: Store | None,
    nodes: Iterable[LoweredNode],
    registrations: Registrations,
    key: str,
    make: Callable[[], KernelModule],
) -> KernelModule:
    """The module of a kernel of these nodes, from the store if possible; always made again if a node is a user's."""
    if store is None or not _covered(nodes, registrations):
        return make()
    name = f"{hashlib.sha256(key.encode()).hexdigest()} {made_by()}"
    if (data := store.get(name)) is not None:
        with contextlib.suppress(ValueError, RecordFormatError):
            return codec.decode(KernelModule, unpacked(data))
    made = make()
    store.put(name, packed(codec.encode(made)))
    return made


def _covered(nodes: Iterable[LoweredNode], registrations: Registrations) -> bool:
    for item in nodes:
        if item.route in ("template", "builder"):
            found = registrations.find(item.node.op, item.route, item.dialect)
            if found is None or not found.shipped:
                return False
    return True
