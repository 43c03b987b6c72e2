"""Errors of operators: names, registrations, routes, and registered Python functions."""

from __future__ import annotations

from workbench.ground.errors.workbench_error import WorkbenchError


class UnknownOverload(WorkbenchError):
    """A name that is no overload of any operator."""


class BadRegistration(WorkbenchError):
    """A registration has a wrong form."""


class RegistrationClash(WorkbenchError):
    """Two owners claim the same overload on the same route."""


class RegistrationGone(WorkbenchError):
    """A lowered graph needs a registration that no longer exists."""


class OpHasRoute(WorkbenchError):
    """`workbench new-op` was given an op that already has a registered kernel."""


class MissingRoutes(WorkbenchError):
    """The graph has ops without a route."""


class HostRoute(UserWarning):
    """Some ops run on the host, because they have no kernel."""


class EmptyReduction(WorkbenchError):
    """A maximum or minimum of a tensor without elements."""


class FusionError(WorkbenchError, ValueError):
    """A user's `fusion` names an unknown rule or node, or has a wrong form."""


class ConversionFailed(WorkbenchError):
    """A registered conversion raised an exception."""


class ConversionResult(WorkbenchError, TypeError):
    """A registered conversion did not return a replacement of its node."""


class ExecutorFailed(WorkbenchError):
    """A registered executor raised an exception."""


class HostResult(WorkbenchError):
    """PyTorch's result of a node on the host differs in type or shape from its result without data."""


class HostFailed(WorkbenchError):
    """PyTorch raised an exception while it computed a node on the host."""


class AssertionFailed(WorkbenchError, AssertionError, RuntimeError):
    """A failed assertion about data: an AssertionError as Python's own, and a RuntimeError as PyTorch's."""


class ExecutorResult(WorkbenchError, TypeError):
    """A registered executor did not return a list of tensors, one for each result, of its type and
    shape."""
