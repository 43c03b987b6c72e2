"""Tests schedule anew, whatever a cache on this machine holds; those of the cache make their own.

Where they run side by side, each process computes on one thread: several that all want every core get in one another's
way. PyTorch and LLVM read this when they are loaded, so it is said before any test module is.
"""

from __future__ import annotations

import os

os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
