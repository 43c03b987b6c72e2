"""The default number of candidates that a search tries."""

from __future__ import annotations

from typing import Final

BUDGET: Final = 64
"""Candidates of a kernel that are simulated: some ten seconds each kernel."""
