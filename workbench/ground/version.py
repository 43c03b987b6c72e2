"""The version of the workbench."""

from __future__ import annotations

VERSION = "0.1.0"
