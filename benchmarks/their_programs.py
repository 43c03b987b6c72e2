"""The work of each family in the form that the compiler of the measured chip is known to give it.

The second column of `accuracy.py` simulates this form, so its error is the simulator's and not our compiler's. A
record is for a family, never for a row. It says the form in words, its evidence, what is asked of our compiler to get
it, and how often it moves the operands and the result; `accuracy.py` prints the bytes that were moved beside that.
Where nothing is known, and for every family that has no record, the form is our compiler's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from measured_tables import CYCLES, MICROSECONDS, Kind
from torch import Tensor, nn
from workloads import Encoder, Workload, family_of

from workbench.ir import KernelGraph, Node


@dataclass(frozen=True)
class Form:
    """The form that the measured compiler gives a family."""

    words: str
    evidence: str
    reads: int | None = None
    """Reads of the operands from DRAM, what is stored between kernels included; None if nobody says."""
    writes: int | None = None
    """Writes to DRAM of as much as the result."""
    rewritten: Callable[[Workload], Workload] | None = None
    """The same work in other ops, which say the passes."""
    apart: Sequence[tuple[str, str]] = ()
    """Ops (producer, consumer) that shall not share a kernel."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of `wb.trace`."""

    def asked_bytes(self, operands: int, result: int) -> int | None:
        """The bytes of DRAM that its passes mean."""
        return None if self.reads is None or self.writes is None else self.reads * operands + self.writes * result


def theirs(kind: Kind, name: str) -> Form | None:
    """The form of a workload on the chip that such a table measures, if it is known and not that of our compiler."""
    return FORMS[kind].get(family_of(name))


def kept_apart(graph: KernelGraph, ops: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The nodes of a graph that a form keeps apart, as `fusion=` takes them; conversions between them do not count."""
    nodes, made_by = [lowered.node for lowered in graph.nodes], dict[str, Node]()
    for node in nodes:
        origin = made_by.get(node.operands[0], node) if node.op == "aten._to_copy.default" else node
        made_by |= dict.fromkeys(node.results, origin)
    edges = [(made_by[value], node) for node in nodes for value in node.operands if value in made_by]
    return [(producer.name, node.name) for producer, node in edges if (producer.op, node.op) in ops]


def softmax_in_three(x: Tensor) -> Tensor:
    """Reads its tensor in each of three kernels, and stores no exponential but the quotients."""
    highest = x.amax(1, keepdim=True)
    total = (x - highest).exp().sum(1, keepdim=True)
    return (x - highest).exp() / total


def attend_in_three(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention that writes its scores once and reads them twice: for the sums, and for the second product.

    The chip stores scores and computes their exponentials wherever it reads them. No kernel of ours has ops before a
    product, so here the exponentials are stored: as many bytes, and as many passes.
    """
    scores = (k @ q.transpose(-2, -1) / math.sqrt(q.shape[-1])).exp()
    return v.transpose(-2, -1) @ scores / scores.sum(-2, keepdim=True)


class RewrittenNorm(nn.Module):
    """A layer norm in other ops, with the same weights."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps


class StatisticsFirst(RewrittenNorm):
    """Layer norm with the sums of a row and of its squares in one pass, before the pass that normalises.

    A kernel of ours makes one value, here 1 / deviation. So the kernel that normalises sums its row again, in the
    scratchpad: that moves no byte more, but costs the vector unit one sum.
    """

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        inverse = ((x * x).mean(-1, keepdim=True) - mean * mean + self.eps).rsqrt()
        normal = (x - x.mean(-1, keepdim=True)) * inverse
        return torch.addcmul(self.bias, normal, self.weight)


class BatchNormOfRows(RewrittenNorm):
    """Layer norm as PyTorch writes it for compilers that have none: a batch norm in training whose batches are rows.

    The mean, the variance about it, the normalised row, and that scaled and shifted: each op reads its whole operand.
    """

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) * (x - mean)).mean(-1, keepdim=True)
        normal = (x - mean) * (variance + self.eps).rsqrt()
        return torch.addcmul(self.bias, normal, self.weight)


def softmax(given: Workload) -> Workload:
    return replace(given, function=softmax_in_three)


def attention(given: Workload) -> Workload:
    return replace(given, function=attend_in_three)


def norm_as(kind: type[RewrittenNorm]) -> Callable[[Workload], Workload]:
    def rewritten(given: Workload) -> Workload:
        assert isinstance(given.function, nn.LayerNorm)
        return replace(given, function=kind(given.function))

    return rewritten


def encoder(given: Workload) -> Workload:
    """The block with its norms and its attention each in the form that they have alone."""
    block = deepcopy(given.function)
    assert isinstance(block, Encoder)
    block.norm1, block.norm2 = BatchNormOfRows(block.norm1), BatchNormOfRows(block.norm2)
    block.attend = attend_in_three
    return replace(given, function=block)


_MAXIMUM_ALONE = ("aten.amax.default", "aten.sub.Tensor")
_SUM_ALONE = ("aten.sum.dim_IntList", "aten.div.Tensor")
_STATISTICS_ALONE = ("aten.rsqrt.default", "aten.mul.Tensor")
_SCALE_ALONE = ("aten.mul.Tensor", "aten.addcmul.default")

_MEAN_ALONE = ("aten.mean.dim", "aten.sub.Tensor")

_SIX_PASSES = (
    "PyTorch's source writes layer norm, for compilers that have none, as a batch norm in training over [1, rows, "
    "columns], whose var_mean is a mean and then a mean of squared differences, and addcmul with weight and bias. That "
    "each of the four is a kernel is not published: forms of three, four, five and six passes were tried on the row"
)

FUSED_BY_US_ALONE = (
    "several results",
    "product prologue",
    "rows of a product",
    "products of one operand",
    "reductions of one operand",
)
"""Rules of fusion for kernels of which nothing says that the chips' compiler makes them."""
_WITHOUT_THEM = {"fusion": {"off": [*FUSED_BY_US_ALONE]}}

_OF_TPU_V3: dict[str, Form] = {
    "softmax": Form(
        "three kernels: maximum (read), sum of exponentials (read), quotient (read, write)",
        "the measured rows are four passes at 80% of the memory's peak and a launch each, to a few percent",
        reads=3,
        writes=1,
        rewritten=softmax,
        apart=(_MAXIMUM_ALONE, _SUM_ALONE),
    ),
    "layernorm": Form(
        "four kernels: mean (read), variance (read), normalise (read, write), scale and shift (read, write)",
        _SIX_PASSES,
        reads=4,
        writes=2,
        rewritten=norm_as(BatchNormOfRows),
        apart=(_MEAN_ALONE, _STATISTICS_ALONE, _SCALE_ALONE),
        options=_WITHOUT_THEM,
    ),
    "attention": Form(
        "scores written once and read twice: for the sums of their exponentials, and by the second product",
        "the measured row is three passes over the scores at 80% of the memory's peak",
        rewritten=attention,
    ),
    "resnet": Form(
        "ours, with one result a kernel and nothing before a product",
        "nothing says that the chip's compiler makes such kernels",
        options=_WITHOUT_THEM,
    ),
    "bert": Form(
        "its layer norms and its attention as alone; else ours, with one result a kernel and nothing before a product",
        "that of layer norms and attention; nothing says that the chip's compiler makes other kernels",
        rewritten=encoder,
        apart=(_MEAN_ALONE, _STATISTICS_ALONE, _SCALE_ALONE),
        options=_WITHOUT_THEM,
    ),
}

_ONE_KERNEL = Form(
    "one kernel: operands read and result written once, in blocks of 8 x 128 with the axis of least padding as lanes",
    "XLA fuses elementwise ops; a tensor whose lane axis has 64 elements takes as long on the chip as one of 128",
    reads=1,
    writes=1,
)

_PIECES = {"k0_*": {"tile": {"d0": 64, "d1": 2**20}, "buffers": 8, "cores": {"d0": 2}}}
"""Whole rows, 64 at a time, and eight such pieces of each core on their way: of 12 settings."""


def streamed(given: Workload) -> Workload:
    """A copy in pieces; one of a single row or column is one piece, as our compiler has it."""
    (x,) = given.inputs
    options = {"layout": "given"} if 1 in x.shape else {"layout": "given", "mapping": _PIECES}
    return replace(given, options={**given.options, **options})


_OF_TPU_V4: dict[str, Form] = {
    **dict.fromkeys(("add", "mul", "sub", "div", "relu", "tanh", "sigmoid", "batchnorm"), _ONE_KERNEL),
    "copy": Form(
        "a stream from one memory to the other, in pieces that are small beside it; rows lie whole, as they are given",
        "XLA copies between memories by DMA, which has no tiles. Of the table: 1,675 columns take 0.89 of the time of "
        "2,048, so they are padded to 1,792 lanes, as they are not where rows are the lanes",
        reads=1,
        writes=0,
        rewritten=streamed,
    ),
    "layernorm": Form(
        "two kernels: statistics (read), then normalise, scale and shift (read, write)",
        "the chip's layer norms move three passes over memory",
        reads=2,
        writes=1,
        rewritten=norm_as(StatisticsFirst),
        apart=(_STATISTICS_ALONE,),
        options=_WITHOUT_THEM,
    ),
}

FORMS: dict[Kind, dict[str, Form]] = {CYCLES: _OF_TPU_V3, MICROSECONDS: _OF_TPU_V4}
