"""Errors in a function, its inputs and its results at its capture."""

from __future__ import annotations

from workbench.ground.errors.workbench_error import WorkbenchError


class UnsupportedContainer(WorkbenchError):
    """Inputs or results hold something other than tensors, tuples, lists, dicts and plain constants."""


class InputMismatch(WorkbenchError):
    """The inputs do not fit the function, or differ from those of its capture."""


class UnreadableTensor(WorkbenchError):
    """A tensor's memory does not follow its shape and strides, and cannot be converted."""

    def __init__(self, name: str, path: str, why: str) -> None:
        super().__init__(f"{path} of {name} {why}")


class NoTensorWork(WorkbenchError):
    """The function computes nothing with tensors, so there is nothing to compile."""


class GraphBreak(WorkbenchError):
    """The function cannot be captured, neither as one graph nor as several."""

    KEEP_OUT = "remove prints, calls of other libraries, and shapes and branches that depend on the data"
    BY_DYNAMO = (
        "With capture='dynamo' it becomes several graphs, with Python between them, if some of its computation "
        f"can be captured and its tensors are not on the device 'meta'. Otherwise {KEEP_OUT}"
    )
    NO_NUMBERS = (
        "To become several graphs, with Python between them, it must run once: give tensors that hold numbers, "
        f"not tensors on the device 'meta'. Otherwise {KEEP_OUT}"
    )
    NOTHING_LEFT = (
        "Several graphs, with Python between them, were tried too: none of them would have any computation. "
        "Trace it together with the computation before or after it, or leave it to PyTorch"
    )

    def __init__(self, name: str, reason: str, place: str = "", advice: str = BY_DYNAMO) -> None:
        where = f", at {place}" if place else ""
        super().__init__(f"{name} cannot be captured as one graph: {reason}{where}. {advice}")
        self.name, self.reason, self.place = name, reason, place

    def advising(self, advice: str) -> GraphBreak:
        """Returns this error with other advice."""
        made = GraphBreak(self.name, self.reason, self.place, advice)
        return made if self.original is None else made.instead_of(self.original)


class CaptureFailed(WorkbenchError):
    """The function raised an exception during its capture."""


class GradientsInside(WorkbenchError):
    """The function takes gradients itself."""

    def __init__(self, name: str, call: str, place: str) -> None:
        where = f", at {place}" if place else ""
        super().__init__(
            f"{name} takes gradients inside ({call}{where}), but a trace is a forward pass without gradients. "
            "A step of training is traced with train=True: wb.trace(step, x, y, train=True), or workbench trace "
            "--train. Or return the value to differentiate, and take gradients of PyTorch's own result outside"
        )


class NoGradients(WorkbenchError):
    """`torch.compile(backend="npu")` would compute gradients that are not PyTorch's."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"torch.compile(backend='npu') cannot compute {what}. {advice}")


class NoTrainingStep(WorkbenchError):
    """The function cannot be captured as a training step."""

    def __init__(self, name: str, why: str, advice: str, place: str = "") -> None:
        super().__init__(
            f"{name} cannot be traced as a training step: {why}{f', at {place}' if place else ''}. {advice}"
        )


class IdleStep(UserWarning):
    """An optimizer of a training step has no gradient to step with."""


class ReshapedInput(WorkbenchError):
    """The function changes the shape or the memory of a tensor from outside in place."""

    @staticmethod
    def by(name: str, call: str, place: str, what: str = "an input") -> ReshapedInput:
        """The error for a call like `t_`; `call` and `place` are empty if they are not known."""
        by = f", by {call}" if call else ""
        where = f" at {place}" if place else ""
        return ReshapedInput(
            f"{name} gives {what} another shape or other memory in place{by}{where}. The tensors of a graph keep "
            "their shape: use an operation that returns a new tensor, as x.t() for x.t_()"
        )


class SharedElements(WorkbenchError):
    """The function changes a tensor in place whose elements share memory."""


class HiddenState(WorkbenchError):
    """The function replaces tensors that it holds, or fills containers among its inputs, in a way that a graph cannot
    record."""

    def __init__(self, name: str, what: str, advice: str = "") -> None:
        advice = advice or "Return them, or change a registered buffer in place: `buffer.copy_(...)`"
        super().__init__(
            f"{name} puts new tensors into {what} while it runs, but a graph records only results and changes of "
            f"tensors in place. {advice}."
        )
        self.reason, self.place = f"new tensors are put into {what}", ""


class MissingFake(WorkbenchError):
    """An op has no fake, so the shape of its result is unknown without computing it."""
