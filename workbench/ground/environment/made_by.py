"""The versions behind a result: a part of the key of everything that is kept on disk."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

import simulator

_SOURCES = ("operators", "capturing", "lowering", "rendering", "scheduling", "running", "simulating", "mlir", "ir")
_WHEELS = ("torch", "torch-mlir", "numpy", "jinja2")


@cache
def made_by() -> str:
    """A digest of the code that makes what is kept: our sources, and the versions of the libraries they call."""
    digest = hashlib.sha256()
    library = Path(__file__).resolve().parents[2]
    folders = [library / name for name in _SOURCES] + [Path(simulator.__file__).parent, library.parent / "templates"]
    for folder in folders:
        for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.j2"))):
            digest.update(f"{folder.name}/{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    for wheel in _WHEELS:
        digest.update(f"{wheel} {metadata.version(wheel)}\0".encode())
    return digest.hexdigest()
