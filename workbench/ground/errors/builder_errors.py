"""Errors of builders, and of torch-mlir's import."""

from __future__ import annotations

from workbench.ground.errors.workbench_error import WorkbenchError


class ImportFailed(WorkbenchError):
    """torch-mlir could not import a kernel into MLIR."""

    def __init__(self, kernel: str, reason: str) -> None:
        super().__init__(f"kernel {kernel} could not be imported into MLIR: {reason}")
        self.kernel, self.reason = kernel, reason


class BuilderError(WorkbenchError):
    """A registered builder did not build its node."""


class BuilderFailed(BuilderError):
    """A builder raised an exception."""


class BuilderArgument(BuilderError, KeyError):
    """A builder read an argument that its node does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class BuilderResult(BuilderError, TypeError):
    """A builder returned something other than an MLIR value."""


class BuilderResultCount(BuilderError):
    """A builder returned more or fewer values than its node has results."""


class BuilderResultType(BuilderError, TypeError):
    """A builder returned a value of the wrong shape or element type."""


class BuilderInvalidMlir(BuilderError):
    """A builder made an op that breaks MLIR's rules."""
