"""Numba's cache of a function on disk, which never raises: a damaged file counts as absent.

Numba trusts its files, and raises at the first call that finds an index or machine code cut short, emptied or changed.
So each file ends in a checksum over its name and its bytes; Numba does not read that far. A file whose checksum does
not fit counts as absent, and newly compiled code takes its place. After a failed write, as on a full disk, there is one
warning, and nothing more is kept. Compiled code whose object code Numba cannot give out is not kept.
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
    """The files of a function: its index, and its machine code for each type of processor. Each ends in a checksum."""

    def save(self, key: Any, data: Any) -> None:
        _files.save(self, key, (key, data))

    def load(self, key: Any) -> Any:
        found = _files.load(self, key)  # two processes that wrote an index at once may leave code of another key
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> Any:
        return _files._load_index(self) if _is_whole(Path(self._index_path)) else {}

    def _load_data(self, name: str) -> Any:
        return _files._load_data(self, name) if _is_whole(Path(self._data_path(name))) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Generator[io.BytesIO, None, None]:
        if os.path.isdir(filepath) and not os.path.islink(filepath):
            shutil.rmtree(filepath)  # a file cannot replace a folder
        written = io.BytesIO()
        yield written
        with _files._open_for_write(self, filepath) as file:
            file.write(written.getvalue() + _checksum(Path(filepath), written.getvalue()))


class _OnlyWhereAsked(caching.CompileResultCacheImpl):  # pyright: ignore[reportUntypedBaseClass]
    """Looks only in the named folder: Numba's other places go by one source file, not by all sources."""

    _locator_classes = (caching.UserProvidedCacheLocator,)


class _FunctionCache(_function):  # pyright: ignore[reportUntypedBaseClass]
    """The cache that Numba asks before it compiles a function, and to which it gives the compiled code."""

    _impl_class = _OnlyWhereAsked
    writable = True
    """False after a failed write. All functions share this flag: a disk that is full for one is full for all."""

    def __init__(self, function: Callable[..., object]) -> None:
        _function.__init__(self, function)
        self._cache_file = _WholeFiles(self._cache_path, self._impl.filename_base, self._cache_file._source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return _function.load_overload(self, sig, target_context)
        except Exception:  # the file is whole, but this Numba or LLVM cannot read it
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _FunctionCache.writable:
            return
        try:
            _function.save_overload(self, sig, data)
        except OSError as error:
            _tell(self._cache_path, error)
        except RuntimeError:  # sometimes Numba lacks the object code: the next process compiles the function again
            return


def keep_on_disk(dispatcher: Any, folder: Path) -> None:
    """Makes Numba keep compiled code of `dispatcher` in the folder, and read it from there."""
    config = caching.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)  # Numba reads it only while the cache is made
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
