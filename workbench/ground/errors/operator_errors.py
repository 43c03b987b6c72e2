"""Errors of operators: names, registrations, routes, builders and registered Python functions; and of graph passes and
patterns, each with the name under which it is registered and its place."""

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


class BadPattern(WorkbenchError):
    """A pattern cannot be registered."""

    def __init__(self, name: str, place: str, reason: str) -> None:
        super().__init__(f"pattern {name!r} at {place}: {reason}")
        self.name, self.place = name, place


class PatternFailed(WorkbenchError):
    """The `takes=` of a pattern raised an exception, or returned no bool."""


class GraphPassFailed(WorkbenchError):
    """A graph pass raised an exception."""

    def __init__(self, name: str, place: str, graph: str, reason: str) -> None:
        super().__init__(f"graph pass {name!r} at {place}, for {graph}, raised {reason}")
        self.name, self.place = name, place


class GraphPassResult(WorkbenchError, TypeError):
    """A graph pass returned something else than a captured graph."""

    def __init__(self, name: str, place: str, found: object) -> None:
        hint = "; did you forget to return the graph? Expected" if found is None else "; expected"
        super().__init__(
            f"graph pass {name!r} at {place} returned {type(found).__name__}{hint} a captured graph, such as "
            "dataclasses.replace(graph, nodes=...), or the given graph where there is nothing to change"
        )
        self.name, self.place = name, place


class InvalidRewrite(WorkbenchError):
    """A graph pass returned a graph that is inconsistent, or that belongs to another function."""

    def __init__(self, name: str, place: str, node: str, reason: str) -> None:
        where = f", node {node!r}" if node else ""
        super().__init__(f"graph pass {name!r} at {place}{where}: {reason}")
        self.name, self.place, self.node = name, place, node
