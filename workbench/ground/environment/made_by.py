"""The versions behind a result: a part of the key of everything that is kept on disk."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

from workbench.ground.packages import PARTS, folder

_SOURCES = ("operators", "capturing", "lowering", "rendering", "scheduling", "running", "simulating", "mlir", "ir")
_WHEELS = ("torch", "torch-mlir", "numpy", "jinja2")


@cache
def made_by() -> str:
    """A digest of the code that makes what is kept: our sources, and the versions of the libraries they call."""
    digest = hashlib.sha256()
    library = Path(__file__).resolve().parents[2]
    for within in [*(library / name for name in _SOURCES), *(Path(folder(part)) for part in PARTS)]:
        for path in sorted((*within.rglob("*.py"), *within.rglob("*.j2"))):
            digest.update(f"{within.name}/{path.relative_to(within).as_posix()}\0".encode() + path.read_bytes())
    for wheel in _WHEELS:
        digest.update(f"{wheel} {metadata.version(wheel)}\0".encode())
    return digest.hexdigest()
