"""Features of the workbench that only some systems have."""

from __future__ import annotations

import platform
import sys


def can_link() -> bool:
    """True if machine code of one process can run in another on this system (`mlir.machine_code`)."""
    return sys.platform == "linux" and platform.machine() == "x86_64"
