"""One thread at a time where PyTorch and MLIR are asked to trace or compile; what is compiled runs side by side.

PyTorch keeps what it does while it traces in places that all threads share: decompositions put aside, patched classes,
the state of an export. Dynamo has a lock for its own part, which it holds for `torch.compile` too. The turn is that
lock, so that a trace here and a `torch.compile` in another thread keep out of each other's way, and no two locks can be
taken in two orders. It can be taken again by who has it: a backend may be called inside a trace.

A process that forks does so with the turn taken, and while no other thread imports: the child finds nothing half done,
and locks that are free. What is half imported stays so in the child, and whoever asks for it there waits for ever.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast
from weakref import WeakSet

_DYNAMO: Final = "torch._dynamo.convert_frame"
_WITHOUT_TORCH: Final = threading.RLock()
"""Where there is no PyTorch nothing is traced, and who needs it says so."""


@contextmanager
def turn() -> Generator[None]:
    """Waits until no other thread traces or compiles, and has them wait until the block is left."""
    with _lock():
        yield


def _lock() -> AbstractContextManager[object]:
    try:
        module = importlib.import_module(_DYNAMO)
    except ModuleNotFoundError:
        return _WITHOUT_TORCH
    return cast(Any, module).compile_lock


_HELD: Final[list[Any]] = []
"""The lock that a fork of this process has taken: it is given back on both sides."""


_PATIENCE: Final = 60.0
"""Seconds that a fork waits for imports of other threads: one of them may itself wait for the thread that forks."""


def _before_fork() -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        module = sys.modules.get(_DYNAMO)
        lock = getattr(module, "compile_lock", _WITHOUT_TORCH)
        lock.acquire()
        if not _others_import() or time.monotonic() > until:
            break
        lock.release()  # what is imported may wait for the turn
        time.sleep(0.01)
    _HELD.append(lock)


def _others_import() -> bool:
    """Whether another thread is in the middle of an import: it then has the lock of a module."""
    known: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    owners = {getattr(lock(), "owner", None) for lock in list(known.values())}
    return bool(owners - {None, threading.get_ident()})


def _after_fork() -> None:
    _HELD.pop().release()


_OWN: Final[WeakSet[Any]] = WeakSet()


def own_lock() -> threading.RLock:
    """A lock beside the turn, for what is written in one step: a forked child finds it free, whoever had it."""
    lock = threading.RLock()
    _OWN.add(lock)
    return lock


def _in_child() -> None:
    _after_fork()
    for lock in _OWN:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
