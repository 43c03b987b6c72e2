"""Numba's cache of a function on disk, in which nothing is ever an error.

Numba trusts its files, and raises at the first call that finds an index or machine code cut short, emptied or changed.
So each file carries a checksum over its name and its bytes, at its end, where Numba does not look; a file that does not
fit counts as absent, and newly compiled code takes its place. A failed write, as on a full disk, is one warning, and
from then on nothing is kept. Code that Numba has compiled but cannot hand over is not kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from numba.core import caching as _caching  # pyright: ignore[reportMissingTypeStubs]

from simulator.errors import CacheWarning

caching = cast(Any, _caching)
_files, _function = caching.IndexDataCacheFile, caching.FunctionCache

_CHECKSUM_BYTES = hashlib.sha256().digest_size


class _WholeFiles(_files):  # pyright: ignore[reportUntypedBaseClass]
    """The index of a function and its machine code, one file each type of processor."""

    def save(self, key: Any, data: Any) -> None:
        _files.save(self, key, (key, data))

    def load(self, key: Any) -> Any:
        found = _files.load(self, key)  # of another key where two processes wrote an index at the same time
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> Any:
        return _files._load_index(self) if _is_whole(Path(self._index_path)) else {}

    def _load_data(self, name: str) -> Any:
        return _files._load_data(self, name) if _is_whole(Path(self._data_path(name))) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Generator[io.BytesIO, None, None]:
        if os.path.isdir(filepath) and not os.path.islink(filepath):
            shutil.rmtree(filepath)  # which no file replaces
        written = io.BytesIO()
        yield written
        with _files._open_for_write(self, filepath) as file:
            file.write(written.getvalue() + _checksum(Path(filepath), written.getvalue()))


class _OnlyWhereAsked(caching.CompileResultCacheImpl):  # pyright: ignore[reportUntypedBaseClass]
    """In the folder that is named. Numba's other places would be looked up by one source file, not by all of them."""

    _locator_classes = (caching.UserProvidedCacheLocator,)


class _FunctionCache(_function):  # pyright: ignore[reportUntypedBaseClass]
    """The cache that Numba asks before it compiles a function, and gives the result to."""

    _impl_class = _OnlyWhereAsked
    writable = True
    """Shared by all functions: a disk that is full for one of them is full."""

    def __init__(self, function: Callable[..., object]) -> None:
        _function.__init__(self, function)
        self._cache_file = _WholeFiles(self._cache_path, self._impl.filename_base, self._cache_file._source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return _function.load_overload(self, sig, target_context)
        except Exception:  # whole, but nothing that this Numba or LLVM can read
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _FunctionCache.writable:
            return
        try:
            _function.save_overload(self, sig, data)
        except OSError as error:
            _tell(self._cache_path, error)
        except (
            RuntimeError
        ):  # Numba has no object code of it at hand, which happens: the next process compiles it again
            return


def keep_on_disk(dispatcher: Any, folder: Path) -> None:
    """Makes Numba keep compiled code of `dispatcher` in the folder, and read it from there."""
    config = caching.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)  # read once, while the cache is made
    try:
        dispatcher._cache = _FunctionCache(dispatcher.py_func)
    except RuntimeError:  # Numba can make no folder there
        _tell(str(folder), OSError("no folder can be made in it"))
    finally:
        config.CACHE_DIR = before


def _tell(folder: str, error: OSError) -> None:
    if _FunctionCache.writable:
        _FunctionCache.writable = False
        warnings.warn(
            f"the compiled simulator is not kept on disk: {folder} cannot be written ({error.strerror or error}). "
            "It is compiled in each process anew; ATEN_WORKBENCH_CACHE names another folder.",
            CacheWarning,
            stacklevel=2,
        )


def _is_whole(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return data[-_CHECKSUM_BYTES:] == _checksum(path, data[:-_CHECKSUM_BYTES])


def _checksum(path: Path, data: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\0" + data).digest()
