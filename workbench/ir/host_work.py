"""The records of steps on the host, and of the work that PyTorch does there while Python runs between two graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BREAK = "python.graph_break.default"
"""The op of a node at which Python runs between two graphs; its results are the tensors that Python gives to the next
graph."""

MADE_BY_PYTHON = "python.tensor.default"
"""The op of tensors that no PyTorch operator made: they come from NumPy or Python's own numbers."""

WITHOUT_OPERATORS = "tensors made by Python"
"""The name of such tensors in labels. Only a lower bound of the work that made them is known."""

_MOST = 3
"""The most operators that a label names; further ones are counted."""


@dataclass(frozen=True, slots=True)
class HostWork:
    """The calls of one operator from one line of the user's code, between two graphs."""

    node: str
    """The captured node of the graph break."""
    op: str
    calls: int
    bytes_in: int
    """Bytes of the tensors that all calls together read in the host's memory, packed weights included."""
    bytes_out: int
    flops: int
    file: str | None = None
    line: int | None = None

    @property
    def name(self) -> str:
        """The operator as PyTorch writes it: `quantized::linear_dynamic`."""
        if self.op == MADE_BY_PYTHON:
            return WITHOUT_OPERATORS
        namespace, name, *_ = self.op.split(".")
        return f"{namespace}::{name}"


def between_text(work: Iterable[HostWork]) -> str:
    """`between graphs: quantized::linear_dynamic x2`: the operators with most operations first; empty without work."""
    calls, flops = dict[str, int](), dict[str, int]()
    for each in work:
        calls[each.name] = calls.get(each.name, 0) + each.calls
        flops[each.name] = flops.get(each.name, 0) + each.flops
    names = sorted(calls, key=lambda name: -flops[name])
    shown = [f"{name} x{calls[name]}" for name in names[:_MOST]]
    more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
    return f"between graphs: {', '.join([*shown, *more])}" if names else ""


@dataclass(frozen=True, slots=True)
class HostStep:
    """The cost of a launch that PyTorch computes on the host: its tensors go over the host link and back."""

    kernel: str
    op: str
    bytes_in: int
    bytes_out: int
    flops: int
    work: tuple[HostWork, ...] = ()
    """The operators that PyTorch computes in the step, if it is Python between two graphs."""

    @property
    def what(self) -> str:
        """The step in words: `PyTorch computes aten.mode.default`, or what runs between two graphs."""
        if self.op != BREAK:
            return f"PyTorch computes {self.op}"
        return between_text(self.work) or "Python runs between graphs"
