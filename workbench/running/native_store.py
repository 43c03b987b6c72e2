"""Machine code kept on disk from one process to the next, beside the scheduled kernels and under the same rules.

The key is the kernel's text (without its function's name), the compiler's versions (`made_by` of disk_store.py) and the
processor it was compiled for, with all its features.
"""

from __future__ import annotations

import hashlib

from workbench.ground.environment.disk_store import Store, made_by, user_store
from workbench.ground.environment.processor import can_link
from workbench.ir.kernel_identity import nameless
from workbench.running.jit import NativeKernel, unpack
from workbench.running.machine_code import target


class NativeStore:
    """Native kernels by the text that they were compiled from; `form` names the compiler of the text."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, form: str, text: str, name: str) -> NativeKernel | None:
        data = self.store.get(_key(form, text, name))
        return unpack(data, name) if data else None

    def put(self, form: str, text: str, kernel: NativeKernel) -> None:
        data = kernel.pack()
        if data:
            self.store.put(_key(form, text, kernel.name), data)


def default_native_store() -> NativeStore | None:
    """The user's store; None if the environment switches it off, or if objects cannot be linked."""
    store = user_store("native")
    return NativeStore(store) if store and can_link() else None


def _key(form: str, text: str, name: str) -> str:
    return hashlib.sha256("\0".join([form, nameless(text, name), made_by(), target()]).encode()).hexdigest()
