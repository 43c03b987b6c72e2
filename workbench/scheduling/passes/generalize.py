"""Rewrites named ops as generic ops where their loops must be separated, and cuts inputs to the part that windows read.

A window that moves in steps may leave a rest of an axis unread. If it has only one position, the loop over positions is
folded away, and the remaining loop must walk its axis from end to end.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import tensor
from torch_mlir.dialects.transform import interpreter

from workbench.mlir.bindings import Value, integers, maker, segments, shape_of
from workbench.mlir.linalg_loops import axis_terms, indexing_maps, is_opened, loop_extents, role_of
from workbench.mlir.linalg_ops import linalg_ops
from workbench.scheduling.passes.attach_script import SCRIPTED
from workbench.scheduling.passes.borders import padded_with, repadded
from workbench.scheduling.passes.kernel_pass import module_pass

_GENERALIZE = f"""\
module attributes {{{SCRIPTED}}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op) {{
    %named = transform.structured.match attributes {{npu.open}} in %root : (!transform.any_op) -> !transform.any_op
    %generic = transform.structured.generalize %named : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}"""


@module_pass("npu-generalize")
def generalize(module: ir.Module) -> None:
    """Rewrites named ops as generic ops where their loops must be separated.

    These are convolutions and pools, and matrix products with an extent of one: between such a named product and its
    neighbours a reshape would stay, which fusion cannot cross.
    """
    named = [op for op in linalg_ops(module) if op.name != "linalg.generic" and (not is_opened(op) or _is_thin(op))]
    for op in named:
        op.attributes["npu.open"] = ir.UnitAttr.get()
    if named:
        script = ir.Module.parse(_GENERALIZE)
        interpreter.apply_named_sequence(module, script.body.operations[0], script)
    for op in linalg_ops(module):
        if "npu.open" in op.attributes:
            del op.attributes["npu.open"]
    _tighten_windows(module)


def _is_thin(op: ir.Operation) -> bool:
    return role_of(op) == "contraction" and any(1 in shape_of(value) for value in op.operands)


def _tighten_windows(module: ir.Module) -> None:
    """Cuts the inputs of ops whose window has only one position along some axis; in place."""
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
    """The number of elements that a window with one position reaches along an axis; `extent` for other windows."""
    stands = len(terms) > 1 and any(extents[loop] == 1 for loop, _ in terms)
    return 1 + sum(factor * (extents[loop] - 1) for loop, factor in terms) if stands else extent


def _cut(value: Value, shape: list[int]) -> Value:
    """The first `shape` elements of a tensor; if it is padded, its padding is reduced first."""
    pad = maker(value, "tensor.pad")
    if pad is None or padded_with(pad) is None:
        kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
        zeros, ones = [0] * len(shape), [1] * len(shape)
        return tensor.ExtractSliceOp(kind, value, [], [], [], zeros, shape, ones).result
    low, source = integers(pad, "static_low"), pad.operands[0]
    inside = [min(own, extent - before) for own, extent, before in zip(shape_of(source), shape, low, strict=True)]
    assert min(inside) > 0, "a window that sees nothing but padding"
    high = [extent - before - own for extent, before, own in zip(shape, low, inside, strict=True)]
    return repadded(pad, source if inside == shape_of(source) else _cut(source, inside), low, high)
