"""Describes an op of the scheduled form as an instruction: the parts that all its iterations share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir

from simulator.tileprogram.program import Access, OpClass, Opcode, Operand, Space
from workbench.mlir.bindings import Value, constant, number_bytes, segments
from workbench.mlir.indexed_moves import IndexedOp, read_indexed
from workbench.mlir.linalg_loops import axis_loops, indexing_maps, iterators, product_loops, role_of
from workbench.mlir.location_ids import origins_of

Axes: TypeAlias = "tuple[tuple[int, int], ...]"
"""Axes of operands, as (operand, axis)."""


@dataclass(frozen=True, slots=True)
class Description:
    """A linalg op on memrefs, as everything about its instructions except the boxes."""

    role: str
    memrefs: tuple[Value, ...]
    accesses: tuple[Access, ...]
    class_counts: tuple[int, ...]
    """For VECTOR: the number of operations per iteration point in the body, by `OpClass`."""
    wide_counts: tuple[int, ...]
    """For VECTOR: the number of these that work on 64-bit numbers."""
    reduction: int
    """A bit mask: bit d is set if loop d reduces."""
    sources: tuple[tuple[tuple[int, int], ...], ...]
    """For each entry of the extent, the operands' axes (operand, axis) whose product it is."""
    origins: tuple[int, ...]
    zeroes: bool
    """True if the op fills its box with zero."""
    walked: tuple[Axes, ...]
    """For each loop, all axes that it walks."""
    products: tuple[tuple[int, ...], ...] = ()
    """For a contraction: the loops over batch, m, n and k."""
    indexed: IndexedOp | None = None
    """The op as a gather or scatter, None for other ops. The last of the memrefs is then the indexed memory."""

    def extent(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The iteration space of an instruction whose operands have these shapes."""
        return tuple(math.prod(shapes[operand][axis] for operand, axis in places) for places in self.sources)

    @property
    def walks(self) -> tuple[int, ...]:
        """For each memref, a bit mask of the loops that walk it: bit d for loop d."""
        return tuple(
            sum(1 << loop for loop, axes in enumerate(self.walked) if number in dict(axes))
            for number in range(len(self.memrefs))
        )

    def opcode(self, operands: Sequence[Operand]) -> Opcode:
        if self.role == "contraction":
            return Opcode.MATMUL
        if self.indexed is not None:
            return Opcode.SCATTER if self.indexed.writes else Opcode.GATHER
        if self.role != "copy":
            return Opcode.VECTOR
        source, target = operands[0].space, operands[1].space
        if source == target:
            return Opcode.COPY
        return Opcode.LOAD if source == Space.DRAM else Opcode.STORE


def describe(op: ir.Operation) -> Description:
    """The description of a linalg op of the scheduled form."""
    role, kinds = role_of(op), iterators(op)
    memrefs: list[Value] = []
    accesses: list[Access] = []
    walked: dict[int, list[tuple[int, int]]] = {}
    for position, (value, indexing) in enumerate(zip(op.operands, indexing_maps(op), strict=True)):
        if not isinstance(value.type, ir.MemRefType):
            continue
        for axis, loop in enumerate(axis_loops(indexing)):
            if loop is not None:
                walked.setdefault(loop, []).append((len(memrefs), axis))
        memrefs.append(value)
        accesses.append(access_of(op, position))
    products = list(product_loops(op).values()) if role == "contraction" else []
    groups = products or [[loop] for loop in range(len(kinds))]
    indexed = read_indexed(op)
    body = op.regions[0].blocks[0].operations
    computes = role not in ("contraction", "copy") and indexed is None
    if indexed is not None:
        memrefs.append(indexed.memref)
        accesses.append(_access_at(indexed))
    return Description(
        role,
        tuple(memrefs),
        tuple(accesses),
        class_counts(body) if computes else _NOTHING,
        wide_counts(body) if computes else _NOTHING,
        sum(1 << loop for loop, kind in enumerate(kinds) if kind == "reduction"),
        tuple(tuple(walked[loop][0] for loop in group) for group in groups),
        origins_of(op),
        op.name == "linalg.fill" and _is_zero(op.operands[0]),
        tuple(tuple(walked.get(loop, ())) for loop in range(len(kinds))),
        tuple(map(tuple, products)),
        indexed,
    )


def _access_at(indexed: IndexedOp) -> Access:
    if not indexed.writes:
        return Access.READ
    return Access.READ_WRITE if indexed.combiner else Access.WRITE


def _is_zero(value: Value) -> bool:
    if (number := constant(value)) is None:
        return False
    kind = ir.FloatAttr if isinstance(number, ir.FloatAttr) else ir.IntegerAttr
    return kind(number).value == 0


def access_of(op: ir.Operation, position: int) -> Access:
    """The access of a linalg op's operand: an output is also read if the body uses its old value."""
    if position < segments(op)[0]:
        return Access.READ
    overwrites = op.name in ("linalg.fill", "linalg.copy")
    used = not overwrites and bool(list(op.regions[0].blocks[0].arguments[position].uses))
    return Access.READ_WRITE if used else Access.WRITE


_CONVERSIONS = {"extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "index_cast"}
_SLOW = {"divf", "remf", "divsi", "divui", "remsi", "remui"}
_SIMPLE_MATH = {"absf", "absi", "copysign", "fma", "isnan", "isinf", "isfinite", "ctpop", "floor", "ceil", "round"}
_FREE = {"linalg.yield", "linalg.index", "arith.constant"}
_NOTHING = (0,) * len(OpClass)
_WORD = 4
"""Bytes of a word; wider numbers are wide."""


def class_counts(body: Iterable[ir.OpView]) -> tuple[int, ...]:
    """The number of operations on data in a body, by `OpClass`; a body without any counts as one move."""
    counts = _counted(body)
    if not any(counts):
        counts[OpClass.MOVE] = 1
    return tuple(counts)


def wide_counts(body: Iterable[ir.OpView]) -> tuple[int, ...]:
    """The number of operations in a body that read or make 64-bit numbers, by `OpClass`."""
    ops = list(body)
    counts = _counted(ops, wider_than=_WORD)
    if not any(_counted(ops)):
        counts[OpClass.MOVE] = int(any(_widest_of(op.operation) > _WORD for op in ops))
    return tuple(counts)


def _counted(body: Iterable[ir.OpView], wider_than: int = 0) -> list[int]:
    """The number of operations on numbers wider than `wider_than` bytes, by class.

    Of two branches, the larger number counts, class by class.
    """
    counts = [0] * len(OpClass)
    for inner in body:
        kind = op_class(inner.operation)
        if kind is not None and _widest_of(inner.operation) > wider_than:
            counts[kind] += 1
        branches = [
            _counted(block.operations, wider_than) for region in inner.operation.regions for block in region.blocks
        ]
        for each in OpClass:
            counts[each] += max((branch[each] for branch in branches), default=0)
    return counts


def op_class(op: ir.Operation) -> OpClass | None:
    """The class of an operation on data; None for any other op and for ops without cost."""
    dialect, _, name = op.name.partition(".")
    if op.name in _FREE or dialect not in ("arith", "math") or _only_indices(op):
        return None
    if (dialect == "math" and name not in _SIMPLE_MATH) or name in _SLOW:
        return OpClass.SPECIAL
    return OpClass.CONVERT if name in _CONVERSIONS else OpClass.ALU


def widest_number(body: Iterable[ir.OpView]) -> int:
    """Bytes of the widest number that a body computes with; indices do not count."""
    numbers = [op.operation for op in body if op.operation.name.startswith(("arith.", "math."))]
    return max((_widest_of(op) for op in numbers if op.name not in _FREE), default=0)


def _widest_of(op: ir.Operation) -> int:
    values = (*op.operands, *op.results)
    return max((number_bytes(each.type) for each in values if not isinstance(each.type, ir.IndexType)), default=0)


def _only_indices(op: ir.Operation) -> bool:
    """True for index arithmetic, which takes no time of the unit."""
    return all(isinstance(value.type, ir.IndexType) for value in (*op.operands, *op.results))
