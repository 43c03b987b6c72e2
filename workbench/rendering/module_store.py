"""Rendered kernels kept on disk from one process to the next.

A kernel's MLIR follows from its structure (`same_structure.py`), and a template's text from machine and mapping too.
Building it takes PyTorch's importer and several passes for each kernel, and a template may weigh hundreds of tiles. So
modules are kept by all that they follow from. What a user registered is code that no key covers: a kernel with a node
of theirs is made each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from workbench.aten.registry import Registrations
from workbench.environment.disk_store import Store, user_folder
from workbench.environment.made_by import made_by
from workbench.ir import KernelModule, LoweredNode, RecordFormatError, codec


class ModuleStore:
    """Modules by the key of what they follow from."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)

    def module(self, key: str, make: Callable[[], KernelModule]) -> KernelModule:
        """The module kept under `key`; one that is made, and kept, where there is none."""
        data = self.store.get(name := _versioned(key))
        if data is not None:
            with contextlib.suppress(zlib.error, ValueError, RecordFormatError):
                return codec.decode(KernelModule, json.loads(zlib.decompress(data)))
        made = make()
        text = json.dumps(codec.encode(made), allow_nan=False)
        self.store.put(name, zlib.compress(text.encode(), level=1))
        return made


def default_module_store() -> ModuleStore | None:
    """The user's store; None when the environment switches it off."""
    folder = user_folder("modules")
    return _store_in(folder) if folder else None


@cache
def _store_in(folder: Path) -> ModuleStore:
    """One store a folder and process, so that it warns once and counts everything."""
    return ModuleStore(folder)


def kept_or_made(
    store: ModuleStore | None,
    nodes: Iterable[LoweredNode],
    registrations: Registrations,
    key: str,
    make: Callable[[], KernelModule],
) -> KernelModule:
    """The module of a kernel of these nodes, from the store if the key covers all of it: if no node is a user's."""
    return store.module(key, make) if store and _covered(nodes, registrations) else make()


def _covered(nodes: Iterable[LoweredNode], registrations: Registrations) -> bool:
    for item in nodes:
        if item.route in ("template", "builder"):
            found = registrations.find(item.node.op, item.route, item.dialect)
            if found is None or not found.shipped:
                return False
    return True


def _versioned(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()} {made_by()}"
