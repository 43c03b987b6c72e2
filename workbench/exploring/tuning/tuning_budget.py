"""The default number of candidates that a search tries."""

from __future__ import annotations

from typing import Final

BUDGET: Final = 64
"""The number of candidates of a kernel that are simulated: some ten seconds for each kernel."""
