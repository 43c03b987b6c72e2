"""What can go wrong where numbers are computed: natively, in the worker, in a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simulator.errors import WorkbenchError


class Stopped(WorkbenchError):
    """Work in the background was told to stop: what it was making is not there, and nothing else has changed."""

    def __init__(self) -> None:
        super().__init__("the work was stopped before it was done; ask again to have it done")


class NativeArgumentError(WorkbenchError):
    """A compiled kernel was called with tensors that are not laid out as its type says."""


class MissingFunctions(WorkbenchError):
    """Machine code calls functions that this process does not have: it is not run."""

    def __init__(self, kernel: str, functions: Sequence[str], target: str) -> None:
        named = ", ".join(functions) or "(the compiler told their names on stderr)"
        super().__init__(
            f"machine code of {kernel} calls functions that this process does not have: {named}. It was not run. "
            f"It was made for {target}, which has no instructions for what they do: compute in f32 there, or leave the "
            "op out of the traced function; then report it with the output of `workbench doctor`"
        )
        self.kernel, self.functions = kernel, tuple(functions)


class NativeInputError(WorkbenchError):
    """A traced function was run on inputs that are not like the traced ones."""


class NoData(WorkbenchError):
    """Numbers were asked of tensors on the meta device, which have none."""


class Bounded(Protocol):
    """Indices and their bounds, as the record of a kernel has them: `workbench.ir.Bound`."""

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
    """An index that a tensor holds lies outside of what it chooses from."""

    def __init__(self, bound: Bounded, index: int) -> None:
        self.bound, self.index = bound, index
        below = f", where {bound.low} to -1 count from the end" if bound.low < 0 else ""
        super().__init__(
            f"{bound.node} at {bound.place}: its {bound.argument} ({bound.value}) hold {index}; expected {bound.low} "
            f"to {bound.high - 1}{below}. Give it indices in that range: a kernel is not launched with others"
        )


class ReplayError(WorkbenchError):
    """A tile program cannot be replayed: an instruction has no meaning in numpy, or reaches outside its memory."""


class KernelFault(WorkbenchError):
    """A kernel did in a worker process what would have taken this one down. Its subclasses say what."""

    happened = "went wrong"
    advice = ""

    def __init__(self, kernel: str, nodes: tuple[str, ...], stage: str, reason: str, said: str = "") -> None:
        listed = "".join(f"\n  {node}" for node in nodes)
        heard = "".join(f"\n    {line}" for line in said.splitlines()[:_HEARD_LINES])
        super().__init__(
            f"kernel {kernel} {self.happened} (stage: {stage}): {reason}. It was tried in a worker process; this"
            f" process is unharmed. Its nodes:{listed}{f'{chr(10)}  It said:{heard}' if heard else ''}\n{self.advice}"
        )
        self.kernel, self.nodes, self.stage, self.reason, self.said = kernel, nodes, stage, reason, said


_HEARD_LINES = 8
"""The beginning says why; the stack dump after it is for those who build the library."""


class KernelCrashed(KernelFault):
    """Importing, scheduling, compiling or running a kernel ends the process that does it."""

    happened = "ends the process that works on it"
    advice = (
        "If the kernel is yours (a builder, a template, a schedule), mend it; what is remembered of it is for this"
        " text alone. For an op that is not yours, write a builder (`workbench new-op`), or compute it on the host:"
        " leave it out of the traced function"
    )


class KernelHung(KernelFault):
    """A kernel does not come back."""

    happened = "does not come back"
    advice = (
        "If it only needs longer, set ATEN_WORKBENCH_WORKER_TIMEOUT to more seconds; otherwise look for a loop that"
        " has no end"
    )


class KernelOverran(KernelFault):
    """A kernel writes to memory that is not its own."""

    happened = "writes where it must not"
    advice = (
        "Offsets and sizes of every subview, load and store must stay within the extents, and no memref may be cast"
        " to a larger one"
    )


class WorkerUnavailable(WorkbenchError):
    """There is no process that could try what is not known to be safe."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the worker process, which tries kernels that are not known to be safe, is not available: {reason}. With"
            " ATEN_WORKBENCH_WORKER=off they are compiled and run in this process at once, which a fault in one of"
            " them would end"
        )


class NoCommonMemory(UserWarning):
    """What stays in the common memory is left to a heuristic, and the machine has none."""


class EmptyTable(UserWarning):
    """A table has no rows because of what the machine has, or of what was not asked for."""
