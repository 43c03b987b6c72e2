"""Operators: names, registrations and routes, and what registered Python functions do wrong."""

from __future__ import annotations

from simulator.errors import WorkbenchError


class UnknownOverload(WorkbenchError):
    """A name that is no overload of any operator."""


class BadRegistration(WorkbenchError):
    """Something was registered in a way that means nothing."""


class RegistrationClash(WorkbenchError):
    """Two owners claim the same overload on the same route."""


class RegistrationGone(WorkbenchError):
    """A lowered graph needs a registration that is not there any more."""


class OpHasRoute(WorkbenchError):
    """A kernel is to be written for an op that has a registered one."""


class MissingRoutes(WorkbenchError):
    """The graph has ops that nothing here knows how to make."""


class HostRoute(UserWarning):
    """Some ops run on the host, because nothing makes a kernel of them."""


class EmptyReduction(WorkbenchError):
    """A maximum or minimum is asked of a tensor that has no elements."""


class FusionError(WorkbenchError, ValueError):
    """A user's choice of fusions names a rule or a node that is not there, or has another form."""


class ConversionFailed(WorkbenchError):
    """A registered conversion raised an exception."""


class ConversionResult(WorkbenchError, TypeError):
    """A registered conversion did not return what stands for its node."""


class ExecutorFailed(WorkbenchError):
    """A registered executor raised an exception."""


class HostResult(WorkbenchError):
    """PyTorch made something else of a node on the host than it said without data."""


class HostFailed(WorkbenchError):
    """PyTorch raised while it computed a node on the host."""


class AssertionFailed(WorkbenchError, AssertionError, RuntimeError):
    """An assertion about data, an AssertionError where Python makes it and a RuntimeError where PyTorch does."""


class ExecutorResult(WorkbenchError, TypeError):
    """A registered executor did not return a list of tensors, one for each result."""
