"""Bytes by key in a folder that several processes may share, bounded in size.

An entry is a file, written under a temporary name and then renamed: a reader sees a whole entry or none, and a killed
process leaves at most a temporary file. Every entry has a checksum over its key and its bytes; an entry with a wrong
checksum (truncated, changed, of another version, copied from elsewhere) counts as absent, and the next `put` replaces
it. The store raises no errors: if the folder cannot be written, it warns once and then keeps nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
import warnings
import zlib
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from simulator.files.cache_folder import limit_bytes, user_cache
from workbench.ground.errors import CacheWarning
from workbench.ground.packages import PARTS, folder

_SWITCH = "ATEN_WORKBENCH_KERNEL_CACHE"
_MAGIC = b"aten-workbench store 1\n"
_SUFFIX, _TEMPORARY = ".entry", ".writing-"
_SOURCES = ("operators", "capturing", "lowering", "rendering", "scheduling", "running", "simulating", "mlir", "ir")
_WHEELS = ("torch", "torch-mlir", "numpy", "jinja2")
_ABANDONED_SECONDS = 3600
"""No process still writes a temporary file of this age."""


def is_off(switch: str) -> bool:
    """True if an environment variable switches something off."""
    return os.environ.get(switch, "").lower() in ("0", "off", "no", "false")


def user_folder(name: str) -> Path | None:
    """The folder of a store of the user's; None when `ATEN_WORKBENCH_KERNEL_CACHE=off` turns the stores off. If that
    variable is a path, all these stores are in that folder."""
    if is_off(_SWITCH):
        return None
    given = os.environ.get(_SWITCH, "")
    return (Path(given) if os.path.isabs(given) else user_cache()) / name


@dataclass
class Store:
    """Bytes by key in a folder, as the module's docstring says. The counts are those of this process."""

    folder: Path
    limit_bytes: int = field(default_factory=limit_bytes)
    """The most bytes that the store keeps; a kernel takes some ten to some hundred kilobytes."""
    hits: int = 0
    misses: int = 0
    writes: int = 0
    writable: bool = True
    _unseen: int = field(default=0, init=False, repr=False)
    """Bytes written since this process last listed the folder, which takes longer than writing an entry."""
    _allowed: int = field(default=0, init=False, repr=False)
    """The number of unseen bytes above which the folder is listed again."""

    def get(self, key: str) -> bytes | None:
        """The bytes that `put` kept under `key`; None if there is no whole entry."""
        found = self._read(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, key: str, data: bytes) -> None:
        """Keeps `data` in place of an older entry, and drops the least recently used entries beyond the limit."""
        if not self.writable:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(key, data)
            self._unseen += len(data)
            if self._unseen > self._allowed:
                self._trim()
        except OSError as error:
            self.writable = False
            warnings.warn(
                f"kernels are not kept on disk: {self.folder} cannot be written ({error.strerror or error}). Set "
                "ATEN_WORKBENCH_CACHE to another folder, or ATEN_WORKBENCH_KERNEL_CACHE=off to keep none.",
                CacheWarning,
                stacklevel=2,
            )

    def clear(self) -> None:
        """Removes every entry."""
        for path, _, _ in self._files():
            path.unlink(missing_ok=True)

    @property
    def entries(self) -> int:
        return sum(not _is_temporary(path) for path, _, _ in self._files())

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            whole = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + hashlib.sha256().digest_size
        if whole[:head] != _MAGIC + _checksum(key, whole[head:]):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # marks it as used now: the least recently used entries are dropped first
        return whole[head:]

    def _write(self, key: str, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=_TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _checksum(key, data))
                file.write(data)
            os.replace(temporary, self._path(key))
        except FileNotFoundError:
            return  # another process cleared the folder meanwhile
        except PermissionError:
            Path(temporary).unlink(missing_ok=True)
            if not self._path(key).exists():
                raise
            return  # another process reads the old entry, and this system cannot replace an open file
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self.writes += 1

    def _trim(self) -> None:
        """Drops the least recently used entries: more than the limit requires, so that not every new entry has to drop
        some. Four processes may fill the room at the same time."""
        files = sorted(self._files(), key=lambda file: file[2])
        total = sum(size for _, size, _ in files)
        kept = self.limit_bytes if total <= self.limit_bytes else self.limit_bytes - self.limit_bytes // 16
        now = time.time()
        for path, size, used in files:
            abandoned = _is_temporary(path) and now - used > _ABANDONED_SECONDS
            if total > kept or abandoned:
                with contextlib.suppress(
                    PermissionError
                ):  # another process reads it, on a system that keeps open files
                    path.unlink(missing_ok=True)
                    total -= size
        self._unseen, self._allowed = 0, (self.limit_bytes - total) // 4

    def _files(self) -> list[tuple[Path, int, float]]:
        """Path, size and time of last use of every file of the store."""
        found: list[tuple[Path, int, float]] = []
        try:
            paths = [path for path in self.folder.iterdir() if path.suffix == _SUFFIX or _is_temporary(path)]
        except OSError:
            return []
        for path in paths:
            try:
                about = path.stat()
            except OSError:
                continue  # another process removed it
            found.append((path, about.st_size, about.st_mtime))
        return found

    def _path(self, key: str) -> Path:
        return self.folder / (hashlib.sha256(key.encode()).hexdigest() + _SUFFIX)


def user_store(name: str, limit: int | None = None) -> Store | None:
    """The user's store of this name; None when the environment switches it off."""
    folder = user_folder(name)
    return _store_in(folder, limit) if folder else None


@cache
def _store_in(folder: Path, limit: int | None) -> Store:
    """Returns the store of a folder, one for a process, so that it warns once and counts everything."""
    return Store(folder) if limit is None else Store(folder, limit)


def packed(record: object) -> bytes:
    """A record of plain values as bytes: compressed JSON."""
    return zlib.compress(json.dumps(record, allow_nan=False).encode(), level=1)


def unpacked(data: bytes) -> object:
    """The record that `packed` turned into these bytes; a `ValueError` for any other bytes."""
    try:
        return json.loads(zlib.decompress(data))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(_TEMPORARY)


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


@cache
def made_by() -> str:
    """A digest of the code that makes the stored results: our sources, and the versions of the libraries that they
    call."""
    digest = hashlib.sha256()
    library = Path(__file__).resolve().parents[2]
    for within in [*(library / name for name in _SOURCES), *(Path(folder(part)) for part in PARTS)]:
        for path in sorted((*within.rglob("*.py"), *within.rglob("*.j2"))):
            digest.update(f"{within.name}/{path.relative_to(within).as_posix()}\0".encode() + path.read_bytes())
    for wheel in _WHEELS:
        digest.update(f"{wheel} {metadata.version(wheel)}\0".encode())
    return digest.hexdigest()
