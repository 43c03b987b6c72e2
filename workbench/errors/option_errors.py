"""What is asked for: options, files and packages that are not as they should be."""

from __future__ import annotations

from simulator.errors import WorkbenchError


class NotYet(WorkbenchError, NotImplementedError):
    """The workbench will do this, but does not do it yet."""


def not_yet(what: str, instead: str = "") -> NotYet:
    """The one way of saying that something the design promises is not in this version."""
    return NotYet(f"{what} is planned, but this version of ATen Workbench does not have it. {instead}".rstrip())


class BadOption(WorkbenchError, ValueError):
    """An option was given a value it does not take."""


class UnknownOption(BadOption, TypeError):
    """A verb was given an option that it does not have."""


class MissingExtra(WorkbenchError, ImportError):
    """Something needs a package that a plain install does not bring."""


class ProgramFileError(WorkbenchError):
    """A file given to `workbench trace` does not define what the command needs."""


class FileInTheWay(WorkbenchError):
    """A file that is to be written exists already."""
