"""What can be wrong with a function, its inputs and its results when it is captured."""

from __future__ import annotations

from simulator.errors import WorkbenchError


class UnsupportedContainer(WorkbenchError):
    """Inputs or results hold something that is no tensor, tuple, list, dict or plain constant."""


class InputMismatch(WorkbenchError):
    """The inputs do not fit the function, or do not fit the ones it was captured with."""


class UnreadableTensor(WorkbenchError):
    """A tensor's numbers do not lie in memory as its shape and strides say, and cannot be made to."""

    def __init__(self, name: str, path: str, why: str) -> None:
        super().__init__(f"{path} of {name} {why}")


class NoTensorWork(WorkbenchError):
    """The function computes nothing with tensors, so there is nothing to compile."""


class GraphBreak(WorkbenchError):
    """The function cannot be captured as one graph, and not as several either."""

    KEEP_OUT = "keep prints, calls out of Python, and shapes and branches that depend on the data, out of it"
    BY_DYNAMO = (
        f"With capture='dynamo' it becomes several, with Python between them, if it computes something that can be "
        f"captured, on tensors that hold numbers. Otherwise {KEEP_OUT}"
    )
    NO_NUMBERS = (
        f"To become several graphs, with Python between them, it must run once: give tensors that hold numbers, not "
        f"ones of the device 'meta'. Otherwise {KEEP_OUT}"
    )
    NOTHING_LEFT = (
        "Several graphs, with Python between them, were tried too: nothing is left that one could hold. Trace it "
        "together with what is computed before or after it, or leave it to PyTorch"
    )

    def __init__(self, name: str, reason: str, place: str = "", advice: str = BY_DYNAMO) -> None:
        where = f", at {place}" if place else ""
        super().__init__(f"{name} cannot be captured as one graph: {reason}{where}. {advice}")
        self.name, self.reason, self.place = name, reason, place

    def advising(self, advice: str) -> GraphBreak:
        """The same, with something else to do about it."""
        made = GraphBreak(self.name, self.reason, self.place, advice)
        return made if self.original is None else made.instead_of(self.original)


class CaptureFailed(WorkbenchError):
    """The function raised while it was being captured."""


class GradientsInside(WorkbenchError):
    """The function takes gradients itself."""

    def __init__(self, name: str, call: str, place: str) -> None:
        where = f", at {place}" if place else ""
        super().__init__(
            f"{name} takes gradients inside ({call}{where}), and what is traced is a forward pass, in which nothing "
            f"has any. Return what would be differentiated, and take gradients of PyTorch's own result outside; or "
            f"write the derivative out as operations on tensors"
        )


class ReshapedInput(WorkbenchError):
    """The function gives a tensor from outside another shape or other memory in place."""

    @staticmethod
    def by(name: str, call: str, place: str, what: str = "an input") -> ReshapedInput:
        """By a call like `t_`, where it is known."""
        by = f", by {call}" if call else ""
        where = f" at {place}" if place else ""
        return ReshapedInput(
            f"{name} gives {what} another shape or other memory in place{by}{where}. The tensors of a graph keep their "
            f"shape: use what returns a new one, as x.t() for x.t_()"
        )


class SharedElements(WorkbenchError):
    """The function changes a tensor in place several elements of which are one place in memory."""


class HiddenState(WorkbenchError):
    """The function replaces tensors it holds, or fills containers it is given, in a way a graph cannot record."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            f"{name} puts new tensors into {what} while it runs; a graph records results, and changes of tensors in "
            f"place. Return them, or change a registered buffer in place: `buffer.copy_(...)`."
        )
        self.reason, self.place = f"new tensors are put into {what}", ""


class MissingFake(WorkbenchError):
    """An op cannot say the shape of its result without computing it."""
