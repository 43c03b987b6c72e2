"""Errors of options, files and packages."""

from __future__ import annotations

from workbench.ground.errors.workbench_error import WorkbenchError


class NotYet(WorkbenchError, NotImplementedError):
    """A planned feature that does not exist yet."""


def not_yet(what: str, instead: str = "") -> NotYet:
    """The error for a planned feature that this version lacks."""
    return NotYet(f"{what} is planned, but this version of ATen Workbench does not have it. {instead}".rstrip())


class BadOption(WorkbenchError, ValueError):
    """An option has a value that it does not take."""


class UnknownOption(BadOption, TypeError):
    """A verb was given an option that it does not have."""


class MissingExtra(WorkbenchError, ImportError):
    """A feature needs a package that a plain installation lacks."""


class MissingInPyTorch(WorkbenchError, ImportError):
    """PyTorch lacks a private part that the workbench takes: it is another version."""


class ProgramFileError(WorkbenchError):
    """A file given to `workbench trace` does not define what the command needs."""


class FileInTheWay(WorkbenchError):
    """A file to be written exists already."""
