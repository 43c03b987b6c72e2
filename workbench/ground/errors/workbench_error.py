"""The base of every error that is raised on purpose: `except wb.WorkbenchError` catches the simulator's as well."""

from __future__ import annotations

from simulator import errors

WorkbenchError = errors.Mistake

# its import path from before; the simulator itself does not know the name
errors.WorkbenchError = WorkbenchError  # pyright: ignore[reportAttributeAccessIssue]
