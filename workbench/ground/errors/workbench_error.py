"""The base of every error that is raised on purpose: `except wb.WorkbenchError` catches the simulator's as well."""

from __future__ import annotations

from simulator import errors

WorkbenchError = errors.Mistake

# the former import path; the simulator itself does not use the name
errors.WorkbenchError = WorkbenchError  # pyright: ignore[reportAttributeAccessIssue]
