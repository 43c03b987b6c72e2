"""Fuses elementwise neighbours, and takes reshapes between ops to the kernel's border, where tiling sees none.

The channels of a grouped convolution are two dims of its result and one of what follows.
"""

from __future__ import annotations

from torch_mlir import ir

from workbench.mlir.bindings import maker, named, shape_of
from workbench.scheduling.pass_pipeline import PassTrace

_FUSE = "func.func(linalg-fuse-elementwise-ops),canonicalize,cse"


def fuse(trace: PassTrace, name: str) -> None:
    """Fuses elementwise neighbours, until no reshape is left between two ops or none goes away any more.

    MLIR moves an op across its reshape when nothing else reads it. An op that two others read has two equal reshapes
    at first, which are one after a round; the next round moves the op.
    """
    trace.run(name, _FUSE)
    left, before = reshapes_between(trace.module), 0
    while left not in (0, before):
        trace.run("fuse across reshapes", _FUSE)
        left, before = reshapes_between(trace.module), left


def reshapes_between(module: ir.Module) -> int:
    """Counts the reshapes between two linalg ops that split or merge a dim."""
    found = [op for name in ("tensor.expand_shape", "tensor.collapse_shape") for op in named(module, name)]
    return sum(_changes_dims(op) and _is_linalg(maker(op.operands[0])) and _is_read_by_linalg(op) for op in found)


def _changes_dims(op: ir.Operation) -> bool:
    """True for a reshape that does more than add or drop extents of one."""
    before, after = ([each for each in shape_of(value) if each != 1] for value in (op.operands[0], op.results[0]))
    return before != after


def _is_read_by_linalg(op: ir.Operation) -> bool:
    return any(_is_linalg(use.owner.operation) for use in op.results[0].uses)


def _is_linalg(op: ir.Operation | None) -> bool:
    return op is not None and op.name.startswith("linalg.")
