"""What can go wrong for a user: one class per mistake, each saying what, where, what was expected, what to do."""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of every error the workbench raises on purpose."""


class UnsupportedContainer(WorkbenchError):
    """Inputs or results hold something that is no tensor, tuple, list, dict or plain constant."""


class InputMismatch(WorkbenchError):
    """The inputs do not fit the function, or do not fit the ones it was captured with."""


class NoTensorWork(WorkbenchError):
    """The function computes nothing with tensors, so there is nothing to compile."""


class GraphBreak(WorkbenchError):
    """The function cannot be captured as one graph."""


class CaptureFailed(WorkbenchError):
    """The function raised while it was being captured."""


class HiddenState(WorkbenchError):
    """The function replaces tensors it holds, in a way a graph cannot record."""


class BadOption(WorkbenchError, ValueError):
    """An option was given a value it does not take."""


class NotYet(WorkbenchError, NotImplementedError):
    """The workbench will do this, but does not do it yet."""


class MissingRoutes(WorkbenchError):
    """The graph has ops that nothing here knows how to make."""
