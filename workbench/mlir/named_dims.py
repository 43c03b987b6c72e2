"""The iteration space of a kernel's linalg ops, as one common set of named dims.

Every op of a kernel walks some part of the same iteration space: a softmax's maximum reduces the dim that its exponent
walks in parallel. Loops of two ops are the same dim if they index the same axis of a value that one op makes and the
other reads. A mapping names these dims: b, m, n, k in a matrix product; oc, ic, oh, ow, kh, kw and so on if a window
moves; d0, d1, ... in other kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch_mlir import ir

from workbench.mlir.bindings import Value, element_bytes, integer, integer_attribute, maker, shape_of
from workbench.mlir.dialect import PAD_LOW
from workbench.mlir.instruction_forms import class_counts, wide_counts
from workbench.mlir.linalg_loops import (
    axis_loops,
    axis_terms,
    indexing_maps,
    is_opened,
    iterators,
    loop_extents,
    loop_names,
    product_loops,
    role_of,
    window_loops,
)
from workbench.mlir.linalg_ops import constants_apart, linalg_ops
from workbench.mlir.memrefs import argument_of, memref_in_dram

ID = "npu.id"
"""Attribute on every linalg op of a kernel: its number, by which a script names it."""


@dataclass(frozen=True, slots=True)
class Access:
    """The indexing of one operand, input or output: the dims of each of its axes."""

    axes: tuple[tuple[tuple[str, int], ...], ...]
    """For each axis the sum of (dim, factor) that indexes it: mostly one dim with factor 1."""
    element_bytes: int
    is_output: bool
    value: str
    """The name of the tensor: equal for operands that are the same value."""
    nearest: tuple[int, ...]
    """The tensor's axes, in the order of their strides in DRAM, smallest first."""
    padded: bool = False
    """True if the operand is padded: a tile is loaded in part, and a vector pass fills the border."""
    argument: int = -1
    """The number of the kernel's argument that the operand is a part of; -1 for a value between two ops."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Every dim that indexes the operand."""
        return tuple(dim for terms in self.axes for dim, _ in terms)

    def extents(self, tile: Mapping[str, int]) -> tuple[int, ...]:
        """The extents of the box that a tile touches; along a sum of dims, the boxes of neighbouring tiles overlap."""
        return tuple(1 + sum(factor * (tile[dim] - 1) for dim, factor in terms) for terms in self.axes)

    def bytes(self, tile: Mapping[str, int]) -> int:
        return math.prod(self.extents(tile)) * self.element_bytes


@dataclass(frozen=True, slots=True)
class PayloadOp:
    """One linalg op: its role, the kernel's dim for each of its loops, the reduced dims, the operands."""

    id: int
    role: str
    """fill, copy, elementwise, reduction or contraction."""
    loops: tuple[str, ...]
    reduced: tuple[str, ...]
    accesses: tuple[Access, ...]
    operations: tuple[int, ...]
    """The number of operations on each point, by `OpClass`."""
    wide: tuple[int, ...]
    """The number of these that work on 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A kernel's ops over its named dims."""

    ops: tuple[PayloadOp, ...]
    dims: dict[str, int]
    reduced: tuple[str, ...]
    """Dims that some op reduces."""
    kinds: dict[str, str]
    """Dim -> its part in the kernel's matrix product: b, m, n or k; or w if it moves a window, in any kernel."""
    in_memory: tuple[str, ...]
    """All dims in the order of their strides in DRAM, the innermost last."""
    of: Payload | None = None
    """The whole payload, if this is a core's share of it."""
    near: frozenset[int] = frozenset()
    """The arguments that the common memory serves."""
    keeps_rows: bool = False
    """True if the reduced dims must stay whole, since the kernel with split reductions has other dims."""

    @property
    def in_dram(self) -> dict[str, int]:
        """Extents of the kernel's tensors in DRAM."""
        return self.dims if self.of is None else self.of.dims

    @property
    def last(self) -> PayloadOp:
        """The op that makes the kernel's outputs."""
        return self.ops[-1]

    @property
    def accesses(self) -> Iterator[Access]:
        """The operands of all ops."""
        return (access for op in self.ops for access in op.accesses)

    @property
    def made(self) -> frozenset[str]:
        """The values that the kernel's ops make."""
        return frozenset(access.value for access in self.accesses if access.is_output)

    @property
    def widest_bytes(self) -> int:
        """Bytes of the widest element of an operand."""
        return max(access.element_bytes for access in self.accesses)

    @property
    def stored_before_last(self) -> frozenset[str]:
        """The values that ops before the last one write to arguments."""
        return frozenset(
            access.value
            for op in self.ops
            for access in op.accesses
            if access.is_output and access.argument >= 0 and op is not self.last and op.role != "fill"
        )

    @property
    def results(self) -> frozenset[str]:
        """The values that are stored: results of the last op, and of earlier ops that write to arguments."""
        return self.stored_before_last | {access.value for access in self.last.accesses if access.is_output}

    @property
    def contraction(self) -> PayloadOp | None:
        return next((op for op in self.ops if op.role == "contraction"), None)

    @property
    def products(self) -> int:
        """The number of matrix products that the kernel's contraction is: several with a shared operand are one op."""
        product = self.contraction
        return 0 if product is None else sum(access.is_output for access in product.accesses)

    @property
    def factor_bytes(self) -> int:
        """Bytes of an element of the product's widest factor."""
        assert self.contraction is not None
        return max(access.element_bytes for access in self.contraction.accesses if not access.is_output)

    @property
    def prologue(self) -> tuple[PayloadOp, ...]:
        """The ops that make operands of the product, in order."""
        wanted, found = set[str](), list[PayloadOp]()
        for op in reversed(self.ops):
            if op is self.contraction or wanted.intersection(each.value for each in op.accesses if each.is_output):
                wanted.update(each.value for each in op.accesses if not each.is_output)
                found.append(op)
        return tuple(found[:0:-1])

    @property
    def rows(self) -> tuple[str, ...]:
        """Dims of a product's result that are reduced after the product: tiles must have them whole."""
        product = self.contraction
        return () if product is None else tuple(dim for dim in self.reduced if dim not in product.reduced)

    @property
    def windows(self) -> tuple[str, ...]:
        """Dims of windows: their points are walked one by one, and no instruction spans several."""
        return tuple(dim for dim, kind in self.kinds.items() if kind == "w")

    @property
    def parallel(self) -> tuple[str, ...]:
        return tuple(dim for dim in self.dims if dim not in self.reduced)


def tag(module: ir.Module) -> None:
    """Gives every linalg op its id, in program order, and every reader of a constant its own copy of the constant."""
    constants_apart(module)
    for number, op in enumerate(linalg_ops(module)):
        op.attributes[ID] = integer_attribute(number)


def keep_id(op: ir.Operation, new: ir.Operation) -> None:
    """Gives the op `new` the id of `op`, which it replaces, if that has one."""
    if ID in op.attributes:
        new.attributes[ID] = op.attributes[ID]


class _Classes:
    """Union-find over (op, loop) and (value, axis)."""

    def __init__(self) -> None:
        self.parent: dict[object, object] = {}

    def find(self, item: object) -> object:
        self.parent.setdefault(item, item)
        while self.parent[item] != item:
            item = self.parent[item]
        return item

    def join(self, left: object, right: object) -> None:
        self.parent[self.find(left)] = self.find(right)


def analyse(module: ir.Module) -> Payload:
    """The payload of a tagged module of linalg ops on tensors (or a copy on memrefs)."""
    ops = linalg_ops(module)
    classes = _Classes()
    values: dict[Value, str] = {}
    made: set[Value] = {result for op in ops for result in op.results}
    for number, op in enumerate(ops):
        results = zip(op.results, indexing_maps(op)[len(op.operands) - len(op.results) :], strict=True)
        for value, indexing in (*_operands(op), *results):
            key = values.setdefault(value, f"v{len(values)}")
            for axis, loop in enumerate(axis_loops(indexing)):
                if loop is not None and value in made:
                    classes.join((number, loop), (key, axis))
    _join_through_arguments(ops, classes, made)
    _join_reductions(ops, classes)
    names = _name_dims(ops, classes)
    described = tuple(_describe(number, op, names, classes, values) for number, op in enumerate(ops))
    extents: dict[str, int] = {}
    for op, description in zip(ops, described, strict=True):
        for loop, extent in loop_extents(op, shape_of).items():
            extents.setdefault(description.loops[loop], extent)
    dims = {name: extents[name] for name in dict.fromkeys(names.values())}
    reduced = tuple(dim for dim in dims if any(dim in op.reduced for op in described))
    return Payload(described, dims, reduced, _kinds(ops, described), _in_memory(ops, described, dims))


def _in_memory(ops: list[ir.Operation], described: tuple[PayloadOp, ...], dims: Mapping[str, int]) -> tuple[str, ...]:
    """The dims in the order of the DRAM tensor with the most dims; dims that it lacks come first."""
    found: list[str] = []
    for op, description in zip(ops, described, strict=True):
        for value, access in zip([value for value, _ in _operands(op)], description.accesses, strict=True):
            memref = memref_in_dram(op.results[0] if access.is_output and len(op.results) else value)
            if memref is None or len(access.dims) <= len(found):
                continue
            strides, _ = memref.get_strides_and_offset()
            axes = sorted(zip(strides, access.axes, strict=True), key=lambda each: -abs(each[0]))
            found = [dim for _, terms in axes for dim, _ in terms]
    return (*(dim for dim in dims if dim not in found), *dict.fromkeys(found))


def _kinds(ops: list[ir.Operation], described: tuple[PayloadOp, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for op, description in zip(ops, described, strict=True):
        for letter, loops in product_loops(op).items():
            found |= {description.loops[loop]: letter for loop in loops}
    for op, description in zip(ops, described, strict=True):
        found |= {description.loops[loop]: "w" for loop in window_loops(op)}
    return found


def _join_through_arguments(ops: list[ir.Operation], classes: _Classes, made: set[Value]) -> None:
    """Joins the loops of vector ops that read one axis of an argument, unless two loops of one op became one dim."""
    readers: dict[tuple[Value, int], tuple[int, int]] = {}
    for number, op in enumerate(ops):
        if role_of(op) == "contraction":
            continue
        for value, indexing in _operands(op):
            for axis, loop in enumerate(axis_loops(indexing)):
                if loop is None or value in made:
                    continue
                other = readers.setdefault((value, axis), (number, loop))
                if not _would_merge_loops(ops, classes, (number, loop), other):
                    classes.join((number, loop), other)


def _join_reductions(ops: list[ir.Operation], classes: _Classes) -> None:
    """Joins the loops of reductions over spaces of equal size, even if they read different tensors: as separate dims,
    each point of one space would be combined with all points of the other."""
    first: dict[tuple[object, ...], int] = {}
    for number, op in enumerate(ops):
        if role_of(op) != "reduction" or not is_opened(op):
            continue
        kinds, extents = iterators(op), loop_extents(op, shape_of)
        alike = first.setdefault((*kinds, *(extents[loop] for loop in range(len(kinds)))), number)
        for loop in range(len(kinds)):
            if not _would_merge_loops(ops, classes, (number, loop), (alike, loop)):
                classes.join((number, loop), (alike, loop))


def _would_merge_loops(ops: list[ir.Operation], classes: _Classes, left: object, right: object) -> bool:
    roots = {classes.find(left), classes.find(right)}
    if len(roots) == 1:
        return False
    return any(
        sum(classes.find((number, loop)) in roots for loop in range(len(iterators(op)))) > 1
        for number, op in enumerate(ops)
    )


def _operands(op: ir.Operation) -> Iterator[tuple[Value, ir.AffineMap]]:
    for value, indexing in zip(op.operands, indexing_maps(op), strict=True):
        if isinstance(value.type, ir.ShapedType):
            yield value, indexing


def _anchor(ops: list[ir.Operation]) -> int:
    """The number of the op whose loops name the dims: the contraction, else one with a window, else the last with the
    most loops."""
    roles = [role_of(op) for op in ops]
    if "contraction" in roles:
        return roles.index("contraction")
    if not all(is_opened(op) for op in ops):
        return next(number for number, op in enumerate(ops) if not is_opened(op))
    return max(range(len(ops)), key=lambda number: (len(iterators(ops[number])), number))


def _name_dims(ops: list[ir.Operation], classes: _Classes) -> dict[object, str]:
    anchor = _anchor(ops)
    given = loop_names(ops[anchor])
    names: dict[object, str] = {}
    for number in (anchor, *range(len(ops))):
        for loop in _written_first(ops[number]):
            root = classes.find((number, loop))
            if root not in names:
                own = given.get(loop) if number == anchor else None
                names[root] = own or f"d{len(names)}"
    return names


def _written_first(op: ir.Operation) -> list[int]:
    """An op's loops; if it moves a window, the loops over the result come first, in the order of the result's axes."""
    loops = list(range(len(iterators(op))))
    if is_opened(op):
        return loops
    written = [loop for loop in axis_loops(indexing_maps(op)[-1]) if loop is not None]
    return written + [loop for loop in loops if loop not in written]


def _describe(
    number: int, op: ir.Operation, names: dict[object, str], classes: _Classes, values: dict[Value, str]
) -> PayloadOp:
    kinds = iterators(op)
    loops = tuple(names[classes.find((number, loop))] for loop in range(len(kinds)))
    inputs = len(op.operands) - max(len(op.results), 1)
    accesses: list[Access] = []
    for position, (value, indexing) in enumerate(zip(op.operands, indexing_maps(op), strict=True)):
        if not isinstance(value.type, ir.ShapedType):
            continue
        axes = tuple(tuple((loops[loop], factor) for loop, factor in terms) for terms in axis_terms(indexing))
        tensor: Value = op.results[position - inputs] if position >= inputs and len(op.results) else value
        kind, padded = ir.ShapedType(value.type), _is_padded(value)
        known = position >= inputs, values[tensor], _nearest(tensor), padded, argument_of(tensor)
        accesses.append(Access(axes, element_bytes(kind), *known))
    reduced = tuple(dim for dim, kind in zip(loops, kinds, strict=True) if kind == "reduction")
    body = op.regions[0].blocks[0].operations
    counts = class_counts(body), wide_counts(body)
    return PayloadOp(integer(op, ID), role_of(op), loops, reduced, tuple(accesses), *counts)


def _nearest(value: Value) -> tuple[int, ...]:
    """The axes in the order of their strides in DRAM, smallest first; of a value not in DRAM, as if contiguous."""
    memref = memref_in_dram(value)
    if memref is None:
        return tuple(range(len(shape_of(value))))[::-1]
    strides, _ = memref.get_strides_and_offset()
    return tuple(sorted(range(len(strides))[::-1], key=lambda axis: abs(strides[axis])))


def _is_padded(value: Value) -> bool:
    """True if the value is read through a view that reaches beyond its memref."""
    while (op := maker(value, "bufferization.to_tensor", "memref.subview")) is not None:
        value = op.operands[0]
    view = maker(value)
    return view is not None and PAD_LOW in view.attributes
