"""Keeps scheduled kernels on disk from one process to the next.

An entry is the scheduled kernel's record as JSON and its tile program in the program's own file format; no pickle. The
key covers scheduling's inputs (`kernel_identity.schedule_key`) and scheduling itself: the sources of the workbench and
the simulator, and the versions of the wheels below them. After a change of any of these, old entries are never found;
they are removed when room is needed.

`ATEN_WORKBENCH_CACHE` moves the folder, `ATEN_WORKBENCH_CACHE_MB` limits its size, and
`ATEN_WORKBENCH_KERNEL_CACHE=off` turns the store off.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import cast
from weakref import WeakValueDictionary

from simulator.errors import FileFormatError
from simulator.tileprogram.program import TileProgram
from workbench.ground.environment.disk_store import Store, made_by, packed, unpacked, user_folder
from workbench.ir import KernelModule, RecordFormatError, ScheduledKernel, codec
from workbench.ir.kernel_identity import taken_over

_LENGTH_BYTES = 8


class KernelStore:
    """Scheduled kernels by the key of their inputs. A kernel that a journey of this process still holds is not read
    from disk again: after a knob of one kernel is turned, all others are still in memory."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self._held = WeakValueDictionary[str, ScheduledKernel]()

    def get(self, key: str, module: KernelModule) -> ScheduledKernel | None:
        """The kernel kept under `key`, under the name and with the nodes of `module`."""
        name = versioned(key)
        if (kernel := self._held.get(name)) is not None:
            self.store.hits += 1
        else:
            data = self.store.get(name)
            kernel = None if data is None else unpack(data)
        if kernel is None:
            return None
        found = taken_over(kernel, module)
        self._held[name] = found
        return found

    def put(self, key: str, kernel: ScheduledKernel) -> None:
        name = versioned(key)
        self._held[name] = kernel
        self.store.put(name, pack(kernel))

    def clear(self) -> None:
        """Removes every kernel kept."""
        self._held.clear()
        self.store.clear()

    def __repr__(self) -> str:
        return f"KernelStore({str(self.store.folder)!r}, {self.store.entries} kernels, {self.store.bytes:,} bytes)"


def default_store() -> KernelStore | None:
    """The user's store; None when the environment switches it off."""
    folder = user_folder("kernels")
    return _store_in(folder) if folder else None


@cache
def _store_in(folder: Path) -> KernelStore:
    """The only store of a folder in this process, so that it warns once and counts all hits."""
    return KernelStore(folder)


def pack(kernel: ScheduledKernel) -> bytes:
    """A scheduled kernel as bytes."""
    text = packed(codec.encode(kernel))
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + kernel.program.to_bytes()


def unpack(data: bytes) -> ScheduledKernel | None:
    """The kernel that `pack` made; None for anything else."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    try:
        record = cast("dict[str, object]", unpacked(data[_LENGTH_BYTES:end]))
        return codec.decode(ScheduledKernel, {**record, "program": TileProgram.load(io.BytesIO(data[end:]))})
    except (ValueError, KeyError, TypeError, RecordFormatError, FileFormatError):
        return None


def versioned(key: str) -> str:
    """The key with the versions of this workbench and its wheels added."""
    return f"{key} {made_by()}"
