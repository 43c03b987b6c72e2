"""What the workbench does on some systems only."""

from __future__ import annotations

import platform
import sys


def can_link() -> bool:
    """Whether machine code can be taken from one process to another here (`mlir.machine_code`)."""
    return sys.platform == "linux" and platform.machine() == "x86_64"
