"""What can go wrong for a user: one class per mistake, each saying what, where, what was expected, what to do."""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of every error the workbench raises on purpose."""
