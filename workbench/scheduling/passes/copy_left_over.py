"""Makes a copy for each result that equals an argument or a part of one."""

from __future__ import annotations

from torch_mlir import ir

from workbench.mlir.bindings import Value, copy, integers, maker, named, shape_of
from workbench.mlir.memrefs import memref_behind, subview
from workbench.scheduling.passes.kernel_pass import module_pass


@module_pass("npu-copy-left-over")
def copy_left_over(module: ir.Module) -> None:
    """Copies each result that after folding equals an argument (such as a sum over one element) or a slice of an
    argument (such as a pool whose windows are single elements)."""
    for op in named(module, "bufferization.materialize_in_destination"):
        target = op.operands[1]
        with ir.InsertionPoint(op), op.location:
            source = memref_behind(op.operands[0]) or _slice_behind(op.operands[0], target)
            if source is not None:
                copy(source, target)
        if source is not None:  # outside the block above, whose insertion point is at the op
            op.erase()


def _slice_behind(value: Value, target: Value) -> Value | None:
    """The part of a memref that a static slice reads, without extents of one, which results do not have."""
    slicing = maker(value, "tensor.extract_slice")
    if slicing is None or len(slicing.operands) > 1:
        return None
    whole = memref_behind(slicing.operands[0])
    starts, sizes, steps = (integers(slicing, f"static_{name}") for name in ("offsets", "sizes", "strides"))
    dropped = [axis for axis, size in enumerate(sizes) if size == 1]
    if whole is None or [size for size in sizes if size != 1] != shape_of(target):
        return None
    return subview(whole, [*starts], [*sizes], dropped, steps)
