"""The BLAS that native kernels call for their products: OpenBLAS, from the package `scipy-openblas32`.

It is loaded when a kernel first needs it, for one thread: a fork leaves no thread behind, and `j.run` is compared with
PyTorch thread by thread. Where the package is not installed, or `ATEN_WORKBENCH_BLAS=off`, products are loops.

OpenBLAS has routines for each family of processors, and chooses when it is loaded: by the processor that it finds, or
by `OPENBLAS_CORETYPE`. So sums are rounded otherwise on another processor.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Final

from workbench.ground.environment.processor import Processor
from workbench.ground.errors import BadOption

SWITCH: Final = "ATEN_WORKBENCH_BLAS"
PACKAGE: Final = "scipy-openblas32"

SGEMM: Final = "scipy_cblas_sgemm"
"""This package's name of the routine, which no other library of the process has."""


@dataclass(frozen=True)
class Blas:
    """A BLAS in this process."""

    version: str
    sgemm: int
    """The address of the routine."""
    routines: str
    """The family of processors whose routines it runs."""

    def __str__(self) -> str:
        return f"{PACKAGE} {self.version}"


def blas(target: Processor) -> Blas | None:
    """The BLAS for machine code of a processor; None if products are loops.

    If the processor is restricted to fewer instructions than the running one has, products are loops: the library would
    use all that it finds.
    """
    return None if target.restricted or not _wanted() else _loaded()


def _wanted() -> bool:
    said = os.environ.get(SWITCH, "") or "on"
    if said not in ("on", "off"):
        raise BadOption(f"{SWITCH}={said!r}; expected on or off")
    return said == "on"


@cache
def _loaded() -> Blas | None:
    """Loads the BLAS; None if the package is missing, or has no library that this system can load."""
    path = library_path()
    if path is None:
        return None
    try:
        with _one_thread():
            library = ctypes.CDLL(str(path))
        address = ctypes.cast(getattr(library, SGEMM), ctypes.c_void_p).value
        name = library.scipy_openblas_get_corename
    except (OSError, AttributeError):
        return None
    name.restype = ctypes.c_char_p
    return Blas(metadata.version(PACKAGE), address, name().decode()) if address else None


def library_path() -> Path | None:
    """The library's file; None if the package is not installed."""
    found = util.find_spec(PACKAGE.replace("-", "_"))
    folders = list(found.submodule_search_locations or ()) if found else []
    names = ("libscipy_openblas.so", "libscipy_openblas.dylib", "libscipy_openblas.dll")
    paths = [Path(folder) / "lib" / name for folder in folders for name in names]
    return next((path for path in paths if path.is_file()), None)


@contextmanager
def _one_thread() -> Generator[None]:
    """Tells OpenBLAS, which reads the environment while it is loaded, to start no threads."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
