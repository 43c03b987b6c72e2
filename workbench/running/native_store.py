"""Machine code kept on disk from one process to the next, beside the scheduled kernels and under the same rules.

The key is the kernel's text (without its function's name), the compiler's versions (`environment.made_by`) and the
processor it was compiled for, with all its features.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from workbench.environment.disk_store import Store, user_folder
from workbench.environment.made_by import made_by
from workbench.environment.operating_system import can_link
from workbench.ir.kernel_identity import nameless
from workbench.running.jit import NativeKernel, unpack
from workbench.running.machine_code import target


class NativeStore:
    """Native kernels by the text they were compiled from; `form` is the compiler that takes it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)

    def get(self, form: str, text: str, name: str) -> NativeKernel | None:
        data = self.store.get(_key(form, text, name))
        return unpack(data, name) if data else None

    def put(self, form: str, text: str, kernel: NativeKernel) -> None:
        data = kernel.pack()
        if data:
            self.store.put(_key(form, text, kernel.name), data)


def default_native_store() -> NativeStore | None:
    """The user's store; None when the environment switches it off, or where objects cannot be linked."""
    folder = user_folder("native")
    return _store_in(folder) if folder and can_link() else None


@cache
def _store_in(folder: Path) -> NativeStore:
    return NativeStore(folder)


def _key(form: str, text: str, name: str) -> str:
    return hashlib.sha256("\0".join([form, nameless(text, name), made_by(), target()]).encode()).hexdigest()
