"""Kernels, their passes, and the plans of their tensors."""

from __future__ import annotations

CONTEXT = 2
"""Lines that are the same, shown around each change of a pass."""
