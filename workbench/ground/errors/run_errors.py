"""Errors while numbers are computed: natively, in the worker, in a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workbench.ground.errors.capture_errors import InputMismatch
from workbench.ground.errors.workbench_error import WorkbenchError


class Stopped(WorkbenchError):
    """Work in the background was stopped: it has no result, and nothing else has changed."""

    def __init__(self) -> None:
        super().__init__("the work was stopped before it was done; start it again if you need it")


class NativeArgumentError(WorkbenchError):
    """A compiled kernel was called with tensors of another layout than its type's."""


class MissingFunctions(WorkbenchError):
    """Machine code calls functions that this process does not have: it is not run."""

    def __init__(self, kernel: str, functions: Sequence[str], target: str) -> None:
        named = ", ".join(functions) or "(the compiler printed their names on stderr)"
        super().__init__(
            f"machine code of {kernel} calls functions that this process does not have: {named}. It was not run. "
            f"It was compiled for {target}, which lacks the instructions that they replace. Compute in f32, or "
            "leave the op out of the traced function; and report this error with the output of `workbench doctor`"
        )
        self.kernel, self.functions = kernel, tuple(functions)


class NativeInputError(InputMismatch):
    """A traced function was run on inputs of other types or shapes than the traced ones."""


class NoData(WorkbenchError):
    """A computation needs numbers of tensors on the meta device, which have none."""


class Bounded(Protocol):
    """Indices and their bounds, as in the record of a kernel: `workbench.ir.Bound`."""

    @property
    def value(self) -> str: ...
    @property
    def low(self) -> int: ...
    @property
    def high(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def argument(self) -> str: ...
    @property
    def place(self) -> str: ...


class IndexOutOfRange(WorkbenchError, IndexError):
    """An index in a tensor is out of range."""

    def __init__(self, bound: Bounded, index: int, path: str = "") -> None:
        """`path` is the path of the user's input that holds the index; empty if it is not known."""
        self.bound, self.index = bound, index
        hold = "hold" if bound.argument.endswith("s") else "holds"
        below = f", where {bound.low} to -1 count from the end" if bound.low < 0 else ""
        super().__init__(
            f"{bound.node} at {bound.place}: its {bound.argument} ({path or bound.value}) {hold} {index}; expected "
            f"{bound.low} to {bound.high - 1}{below}. Give it indices in that range: kernels are launched only "
            "with these"
        )


class IndexType(WorkbenchError, TypeError):
    """Indices or labels have a type that PyTorch does not take for them."""

    def __init__(self, node: str, place: str, argument: str, name: str, dtype: str) -> None:
        super().__init__(
            f"{node} at {place}: its {argument} ({name}) has type {dtype}; expected i64, as in PyTorch. Give "
            f"{name}.long()"
        )


class ReplayError(WorkbenchError):
    """A tile program cannot be replayed: an instruction has no meaning in numpy, or reaches outside its memory."""


class KernelFault(WorkbenchError):
    """A kernel did something in a worker process that would have ended this process. The subclasses name the fault."""

    happened = "went wrong"
    advice = ""

    def __init__(self, kernel: str, nodes: tuple[str, ...], stage: str, reason: str, said: str = "") -> None:
        listed = "".join(f"\n  {node}" for node in nodes)
        heard = "".join(f"\n    {line}" for line in said.splitlines()[:_HEARD_LINES])
        heard = f"\n  The worker said:{heard}" if heard else ""
        super().__init__(
            f"kernel {kernel} {self.happened} (stage: {stage}): {reason}. It was tried in a worker process; this"
            f" process is unharmed. The kernel's nodes:{listed}{heard}\n{self.advice}"
        )
        self.kernel, self.nodes, self.stage, self.reason, self.said = kernel, nodes, stage, reason, said


_HEARD_LINES = 8
"""The most lines of the output in an error: the first have the reason; the stack dump after them is for developers of
the library."""


class KernelCrashed(KernelFault):
    """Importing, scheduling, compiling or running a kernel ends its process."""

    happened = "ends the process that works on it"
    advice = (
        "If the kernel is yours (a builder, a template, a schedule), mend it; this verdict is kept for this "
        "text alone, so the new text is tried anew. For an op that is not yours, write a builder (`workbench "
        "new-op`), or leave the op out of the traced function, to compute it on the host"
    )


class KernelHung(KernelFault):
    """A kernel does not return."""

    happened = "does not return"
    advice = (
        "If it only needs more time, set ATEN_WORKBENCH_WORKER_TIMEOUT to more seconds; otherwise look for a "
        "loop that has no end"
    )


class KernelOverran(KernelFault):
    """A kernel writes to memory that is not its own."""

    happened = "writes where it must not"
    advice = (
        "Offsets and sizes of every subview, load and store must stay within the extents, and no memref may be cast"
        " to a larger one"
    )


class WorkerUnavailable(WorkbenchError):
    """There is no worker process to try kernels that are not known to be safe."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the worker process, which tries kernels that are not known to be safe, is not available: {reason}. "
            "With ATEN_WORKBENCH_WORKER=off they are compiled and run in this process without a trial, and a "
            "fault in one would end it"
        )


class NoCommonMemory(UserWarning):
    """A heuristic should fill the common memory, but the machine has none."""


class EmptyTable(UserWarning):
    """A table has no rows, since the machine lacks the unit, or an option was not given."""
