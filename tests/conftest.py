"""Tests schedule anew, whatever a cache on this machine holds; those of the cache make their own."""

from __future__ import annotations

import os

os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"
