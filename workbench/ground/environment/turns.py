"""The turn: one thread at a time traces or compiles with PyTorch and MLIR; compiled code runs in parallel.

PyTorch keeps the state of a trace in places that all threads share: saved decompositions, patched classes, the state of
an export. Dynamo has a lock for its own part, which it also holds for `torch.compile`. The turn is that lock, so that a
trace here and a `torch.compile` in another thread exclude each other, and no two locks can be taken in two orders. It
is reentrant: a backend may be called inside a trace.

A process forks only with the turn taken, and while no other thread imports: the child finds no unfinished work and no
taken locks. A half-imported module would stay so in the child, and an import of it would wait for ever.
"""

from __future__ import annotations

import gc
import importlib
import os
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast
from weakref import WeakSet

from workbench.ground.torch_inside.compile_lock import compile_lock, compile_lock_if_loaded

_WITHOUT_TORCH: Final = threading.RLock()
"""The lock without PyTorch: nothing is traced then, and code that needs PyTorch raises an error."""


@contextmanager
def turn() -> Generator[None]:
    """Waits until no other thread traces or compiles, and makes others wait until the end of the block."""
    with _lock():
        yield


@contextmanager
def free_turn() -> Generator[bool]:
    """Takes the turn if no other thread has it, and yields True if it was taken. Does not wait."""
    lock = cast(Any, _lock())
    free = lock.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            lock.release()


@contextmanager
def compiling() -> Generator[None]:
    """Takes the turn, without garbage collection: a compiler makes many objects and drops few of them.

    Each collection of the oldest generation looks through all objects of PyTorch, and a first trace has many of them.
    """
    with collecting_later(), turn():
        yield


@contextmanager
def collecting_later() -> Generator[None]:
    """Turns garbage collection off within the block."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _lock() -> AbstractContextManager[object]:
    try:
        return compile_lock()
    except ModuleNotFoundError:
        return _WITHOUT_TORCH


_HELD: Final[list[Any]] = []
"""The lock that a fork of this process has taken: both sides release it."""


_PATIENCE: Final = 60.0
"""Seconds that a fork waits for imports of other threads: one of them may itself wait for the thread that forks."""


def _before_fork() -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        lock = compile_lock_if_loaded() or _WITHOUT_TORCH
        lock.acquire()
        if not _others_import() or time.monotonic() > until:
            break
        lock.release()  # an import may wait for the turn
        time.sleep(0.01)
    _HELD.append(lock)


def _others_import() -> bool:
    """True if another thread is in the middle of an import: it then has the lock of a module."""
    known: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    owners = {getattr(lock(), "owner", None) for lock in list(known.values())}
    return bool(owners - {None, threading.get_ident()})


def _after_fork() -> None:
    _HELD.pop().release()


_OWN: Final[WeakSet[Any]] = WeakSet()


def own_lock() -> threading.RLock:
    """Makes a lock beside the turn, for data that is written in one step; a forked child always finds it free."""
    lock = threading.RLock()
    _OWN.add(lock)
    return lock


def _in_child() -> None:
    _after_fork()
    for lock in _OWN:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
