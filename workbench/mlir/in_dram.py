"""The DRAM tensor that a value of a kernel is read from or written to, and the argument it is a part of."""

from __future__ import annotations

from torch_mlir import ir

from workbench.mlir.bindings import Value, maker, place_of_result, segments


def memref_in_dram(value: Value) -> ir.MemRefType | None:
    """The type of the DRAM tensor that a value is read from or written to; None for what lies between two ops."""
    found = in_dram(value)
    return None if found is None else ir.MemRefType(found.type)


def in_dram(value: Value) -> Value | None:
    """The DRAM tensor that a value is read from or written to."""
    if isinstance(value.type, ir.MemRefType):
        return value
    op = maker(value)
    if op is not None and op.name == "bufferization.to_tensor":
        return op.operands[0]
    if op is not None and op.name.startswith("linalg.") and len(op.results):
        start = op.operands[segments(op)[0] + place_of_result(op, value)]
        if (place := in_dram(start)) is not None:
            return place
    for use in value.uses:
        user = use.owner.operation
        if user.name == "bufferization.materialize_in_destination":
            return user.operands[1] if isinstance(user.operands[1].type, ir.MemRefType) else None
    return None


def argument_of(value: Value) -> int:
    """The number of the argument whose memory, or a view of it, a value is in; -1 for what lies between two ops."""
    there = in_dram(value)
    return -1 if there is None else argument_behind(there)


def argument_behind(memref: Value) -> int:
    """The number of the argument that a memref is a view of; -1 for other memory."""
    there = memref
    while (op := maker(there)) is not None:
        if not (op.name.startswith("memref.") and len(op.operands)):
            return -1
        there = op.operands[0]
    return ir.BlockArgument(there).arg_number
