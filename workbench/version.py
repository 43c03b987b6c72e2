"""Which version of the workbench this is."""

from __future__ import annotations

VERSION = "0.1.0"
