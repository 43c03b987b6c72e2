"""Inputs cut to the elements that the windows over them reach.

A window that moves in steps may leave a rest at the end. Where it has one position only, that loop will be folded away,
and the remaining loop must walk its axis from end to end.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import tensor

from workbench.mlir.bindings import Value, integers, maker, segments, shape_of
from workbench.mlir.linalg_loops import axis_terms, indexing_maps, is_opened, loop_extents
from workbench.mlir.linalg_ops import linalg_ops
from workbench.scheduling.passes.borders import padded_with, repadded


def tighten_windows(module: ir.Module) -> None:
    """Cuts the inputs of ops whose window does not move along some axis; in place."""
    with module.context:
        for op in linalg_ops(module):
            if is_opened(op) or not op.results:
                continue
            extents = loop_extents(op, shape_of)
            for position in range(segments(op)[0]):
                value = op.operands[position]
                if not isinstance(value.type, ir.RankedTensorType):
                    continue
                shape = shape_of(value)
                axes = zip(axis_terms(indexing_maps(op)[position]), shape, strict=True)
                reached = [_reached(terms, extents, extent) for terms, extent in axes]
                if reached != shape:
                    with ir.InsertionPoint(op), op.location:
                        op.operands[position] = _cut(value, reached)


def _reached(terms: Sequence[tuple[int, int]], extents: dict[int, int], extent: int) -> int:
    """Number of elements that a window reaches along an axis of `extent`; all of them where the window moves."""
    stands = len(terms) > 1 and any(extents[loop] == 1 for loop, _ in terms)
    return 1 + sum(factor * (extents[loop] - 1) for loop, factor in terms) if stands else extent


def _cut(value: Value, shape: list[int]) -> Value:
    """The first elements of a tensor along each axis; a padded one gets less padding where that suffices."""
    pad = maker(value)
    if pad is None or pad.name != "tensor.pad" or padded_with(pad) is None:
        kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
        zeros, ones = [0] * len(shape), [1] * len(shape)
        return tensor.ExtractSliceOp(kind, value, [], [], [], zeros, shape, ones).result
    low, source = integers(pad, "static_low"), pad.operands[0]
    inside = [min(own, extent - before) for own, extent, before in zip(shape_of(source), shape, low, strict=True)]
    assert min(inside) > 0, "a window that sees nothing but padding"
    high = [extent - before - own for extent, before, own in zip(shape, low, inside, strict=True)]
    return repadded(pad, source if inside == shape_of(source) else _cut(source, inside), low, high)
