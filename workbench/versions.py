"""What made something: a part of the key of everything that is kept on disk."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

import simulator

_SOURCES = ("ir", "mlir", "stages")
_WHEELS = ("torch-mlir", "numpy")


@cache
def made_by() -> str:
    """A digest of what makes scheduled kernels: our sources, and the versions of what they call."""
    digest = hashlib.sha256()
    library = Path(__file__).parent
    folders = [library / name for name in _SOURCES] + [Path(simulator.__file__).parent]
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        digest.update(f"{path.parent.name}/{path.name}\0".encode() + path.read_bytes())
    for wheel in _WHEELS:
        digest.update(f"{wheel} {metadata.version(wheel)}\0".encode())
    return digest.hexdigest()
