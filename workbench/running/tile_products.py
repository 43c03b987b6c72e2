"""Replaces products of tiles by calls of a BLAS.

A product of f32 becomes a call of `sgemm` if its operands lie in memory as `sgemm` takes them: each is walked element
by element along one of its two dims. All other dims of the product, such as a batch or a window's places, become loops
around the call. A product of another type, with arithmetic in the body, unknown strides or few terms stays loops.

The call adds to the accumulator, as the op does. Only the order of the additions differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, func, llvm, memref

from workbench.ground.environment.blas_library import SGEMM
from workbench.ir.graph import row_major
from workbench.mlir.bindings import DYNAMIC_EXTENT, DYNAMIC_STRIDE, Value, copy, maker, segments, shape_of
from workbench.mlir.context import operations
from workbench.mlir.index_arithmetic import as_value, scf_loop
from workbench.mlir.linalg_loops import (
    axis_loops,
    axis_terms,
    indexing_maps,
    is_opened,
    iterators,
    loop_extents,
    product_loops,
)
from workbench.mlir.memrefs import recast

FEW: Final = 4096
"""The number of multiplications below which a call takes longer than loops."""

SHORT: Final = 32
"""The number of rows or columns below which a call gains little: it still reads all of the other factor."""

UNKNOWN: Final = 64
"""The extent that is assumed for a dim whose extent is only known in a run."""

WORTH: Final = 16
"""The multiplications for each element of an operand from which a copy of the operand is worth making."""

_ROW_MAJOR, _AS_IS, _TRANSPOSED = 101, 111, 112
_LARGEST: Final = 2**31 - 1

_Extent: TypeAlias = "int | tuple[Value, int]"
"""An extent: a number, or an operand and its axis with that extent."""


@dataclass(frozen=True, slots=True)
class _Dim:
    """A loop of a product, or several loops that walk each operand like one loop. `steps` counts elements of left,
    right and out."""

    extent: _Extent
    steps: tuple[int, int, int]


_ONCE: Final = _Dim(1, (0, 0, 0))


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of `sgemm` with row-major matrices, and the loops around it."""

    m: _Dim
    n: _Dim
    k: _Dim
    outer: tuple[_Dim, ...]
    order: tuple[int, int, int]
    """The operand of the op for left, right and out of the call: with swapped factors `sgemm` makes the transposed
    result."""

    @property
    def matrices(self) -> tuple[tuple[int, int] | None, ...]:
        """For left, right and out of the call: its form, as it is or transposed, and its leading dim; None if it does
        not fit."""
        left, right, out = self.order
        return (
            _matrix(self.m, self.k, left),
            _matrix(self.k, self.n, right),
            _matrix(self.m, self.n, out),
        )

    @property
    def fits(self) -> bool:
        *_, out = self.matrices
        return None not in self.matrices and out is not None and out[0] == _AS_IS

    @property
    def terms(self) -> int:
        return _terms((self.m, self.n, self.k))


def call_blas(module: ir.Module) -> None:
    """Replaces every product of tiles that a BLAS can take by a call; in place."""
    linalg = [op for op in operations(module.operation) if op.name.startswith("linalg.")]
    declared = False
    for op in linalg:
        if not is_plain_product(op) or not (groups := product_loops(op)):
            continue
        dims = _dims(op)
        if dims is None or _terms(dims) < FEW:
            continue
        call = _call_for(dims, groups)
        if call is None or min(_likely(call.m), _likely(call.n)) < SHORT:
            call = _packed(op, dims, groups, call) or call
        if call is None:
            continue
        if not declared:
            _declare(module)
            declared = True
        with op.context, op.location:
            _write(call, list(op.operands), ir.InsertionPoint(op))
        op.erase()


def _packed(
    op: ir.Operation, dims: Sequence[_Dim], groups: Mapping[str, Sequence[int]], now: _Call | None
) -> _Call | None:
    """Returns a better call for which one operand is copied before the op, so that its rows follow one another; None if
    there is no better call.

    Without the copy, each row of a padded image would be a call of its own, which reads all weights.
    """
    best, chosen = None, None
    if not is_opened(op) or any(not isinstance(dim.extent, int) for dim in dims):
        return None
    terms = _terms(dims)
    for place in range(2):
        loops = [loop for letter in ("bmk", "bnk")[place] for loop in groups[letter]]
        # In the order of the result and the other factor: otherwise they could not become one dim.
        loops.sort(key=lambda loop: (loop in groups["k"], -dims[loop].steps[2], -dims[loop].steps[1 - place]))
        size = math.prod(_likely(dims[loop]) for loop in loops)
        if terms < WORTH * size:
            continue
        laid, step = list(dims), size
        for loop in loops:
            step //= _likely(dims[loop])
            steps = list(dims[loop].steps)
            steps[place] = step
            laid[loop] = _Dim(dims[loop].extent, (steps[0], steps[1], steps[2]))
        call = _call_for(laid, groups)
        if call is not None and (best is None or call.terms > best.terms):
            best, chosen = call, (place, loops)
    if best is None or chosen is None or best.terms < 4 * (now.terms if now else 0):
        return None
    _pack(op, chosen[0], [_likely(dims[loop]) for loop in chosen[1]], chosen[1])
    return best


def _pack(op: ir.Operation, place: int, extents: list[int], loops: list[int]) -> None:
    """Copies an operand into a buffer that these loops walk in order, the last of them element by element."""
    given = op.operands[place]
    kind = ir.MemRefType(given.type)
    strides = row_major(extents)
    axes = axis_loops(indexing_maps(op)[place])
    with op.context, op.location, ir.InsertionPoint(op):
        buffer = memref.AllocOp(ir.MemRefType.get([math.prod(extents)], kind.element_type), [], []).result
        laid = recast(buffer, shape_of(given), [0 if loop is None else strides[loops.index(loop)] for loop in axes], 0)
        copy(given, laid)
    with op.context, op.location, ir.InsertionPoint.after(op):
        memref.DeallocOp(buffer)
    op.operands[place] = laid


def _call_for(dims: Sequence[_Dim], groups: Mapping[str, Sequence[int]]) -> _Call | None:
    """Returns the largest call that does a part of the product's loops; None if no call fits its operands."""
    bundles = {letter: _merged([dims[loop] for loop in loops]) for letter, loops in groups.items()}
    named = {loop for loops in groups.values() for loop in loops}
    rest = [*bundles["b"], *(dims[loop] for loop in range(len(dims)) if loop not in named)]
    found = [
        call
        for m, n, k in product(bundles["m"] or [_ONCE], bundles["n"] or [_ONCE], bundles["k"])
        for call in _both_ways(m, n, k, [*rest, *(each for letter in "mnk" for each in bundles[letter])])
        if call.fits
    ]
    return max(found, key=lambda each: each.terms, default=None)


def _both_ways(m: _Dim, n: _Dim, k: _Dim, every: Sequence[_Dim]) -> Iterator[_Call]:
    outer = tuple(each for each in every if each is not m and each is not n and each is not k)
    yield _Call(m, n, k, outer, (0, 1, 2))
    yield _Call(n, m, k, outer, (1, 0, 2))


def is_plain_product(op: ir.Operation) -> bool:
    """True if an op only adds products of two f32 memrefs to a third memref."""
    if len(op.operands) != 3 or "operandSegmentSizes" not in op.attributes or segments(op) != [2, 1]:
        return False
    kinds = [value.type for value in op.operands]
    if not all(isinstance(kind, ir.MemRefType) and isinstance(kind.element_type, ir.F32Type) for kind in kinds):
        return False
    names = [each.operation.name for each in op.regions[0].blocks[0].operations]
    return names == ["arith.mulf", "arith.addf", "linalg.yield"]


def _dims(op: ir.Operation) -> list[_Dim] | None:
    """The loops of an op; None if an extent or a stride is not known well enough for a call."""
    count = len(iterators(op))
    found = loop_extents(op, lambda value: [(value, axis) for axis in range(len(shape_of(value)))])
    steps = [[0, 0, 0] for _ in range(count)]
    for place, (value, indexing) in enumerate(zip(op.operands, indexing_maps(op), strict=True)):
        strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
        if DYNAMIC_STRIDE in strides or (DYNAMIC_EXTENT in shape_of(value) and not _within_a_buffer(op, value)):
            return None
        for terms, stride in zip(axis_terms(indexing), strides, strict=True):
            for loop, factor in terms:
                steps[loop][place] += factor * stride
    if len(found) != count or any(step < 0 for each in steps for step in each):
        return None
    return [_Dim(_extent(*found[loop]), (steps[loop][0], steps[loop][1], steps[loop][2])) for loop in range(count)]


def _extent(value: Value, axis: int) -> _Extent:
    size = shape_of(value)[axis]
    return (value, axis) if size == DYNAMIC_EXTENT else size


def _within_a_buffer(op: ir.Operation, value: Value) -> bool:
    """True if an operand is a part of a buffer, and one loop walks each of its axes: then no two of its rows overlap,
    however long they are."""
    source = maker(value)
    while source is not None and source.name in ("memref.subview", "memref.reinterpret_cast"):
        source = maker(source.operands[0])
    return source is not None and source.name == "memref.alloc" and is_opened(op)


def _merged(dims: list[_Dim]) -> list[_Dim]:
    """Merges dims that walk all operands as one dim would."""
    for outer, inner in product(dims, dims):
        if outer is inner or not isinstance(outer.extent, int) or not isinstance(inner.extent, int):
            continue
        if all(far == near * inner.extent for far, near in zip(outer.steps, inner.steps, strict=True)):
            rest = [each for each in dims if each is not outer and each is not inner]
            return _merged([*rest, _Dim(outer.extent * inner.extent, inner.steps)])
    return dims


def _terms(dims: Sequence[_Dim]) -> int:
    """The approximate number of multiplications."""
    return math.prod(map(_likely, dims))


def _likely(dim: _Dim) -> int:
    return dim.extent if isinstance(dim.extent, int) else UNKNOWN


def _matrix(rows: _Dim, columns: _Dim, operand: int) -> tuple[int, int] | None:
    """The form of a matrix, as it is or transposed, and the elements from one of its rows to the next; None if neither
    form fits.

    The library refuses rows that are longer than this distance. A row of unknown length is one of a buffer's rows,
    which do not overlap, so any distance of 2 or more fits.
    """
    for form, far, near in ((_AS_IS, rows, columns), (_TRANSPOSED, columns, rows)):
        if near.extent != 1 and near.steps[operand] != 1:
            continue
        lead = far.steps[operand]
        if isinstance(near.extent, int):
            least = max(near.extent, 1)
            lead = least if far.extent == 1 else lead
        else:
            least = 2
        if least <= lead <= _LARGEST:
            return form, lead
    return None


def _declare(module: ir.Module) -> None:
    with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(module.body):
        number, single, pointer = ir.IntegerType.get_signless(32), ir.F32Type.get(), ir.Type.parse("!llvm.ptr")
        kinds = [*[number] * 6, single, pointer, number, pointer, number, single, pointer, number]
        func.FuncOp(SGEMM, ir.FunctionType.get(kinds, []), visibility="private")


def _write(call: _Call, operands: Sequence[Value], point: ir.InsertionPoint) -> None:
    with point:
        sizes = [_size(dim) for dim in (call.m, call.n, call.k)]
        places = [memref.ExtractStridedMetadataOp(value).offset for value in operands]
        starts = [memref.ExtractAlignedPointerAsIndexOp(value).result for value in operands]
        ends = [_size(dim, as_index=True) for dim in call.outer]
    for dim, end in zip(call.outer, ends, strict=True):
        with point:
            iteration, inside = scf_loop(end)
        point = ir.InsertionPoint(inside)
        with point:
            places = [_moved(place, iteration, step) for place, step in zip(places, dim.steps, strict=True)]
    with point:
        pointers = [_pointer(start, place) for start, place in zip(starts, places, strict=True)]
        left, right, out = call.matrices
        assert left and right and out, "only what fits is called"
        first, second, third = (pointers[place] for place in call.order)
        single = arith.ConstantOp(ir.F32Type.get(), 1.0).result
        forms = [_word(each) for each in (_ROW_MAJOR, left[0], right[0])]
        func.CallOp(
            [], SGEMM,
            [*forms, *sizes, single, first, _word(left[1]), second, _word(right[1]), single, third, _word(out[1])],
        )  # fmt: skip


def _size(dim: _Dim, *, as_index: bool = False) -> Value:
    if isinstance(dim.extent, int):
        return as_value(dim.extent) if as_index else _word(dim.extent)
    value, axis = dim.extent
    found = memref.DimOp(value, as_value(axis)).result
    return found if as_index else arith.IndexCastOp(ir.IntegerType.get_signless(32), found).result


def _moved(place: Value, iteration: Value, step: int) -> Value:
    return arith.AddIOp(place, arith.MulIOp(iteration, as_value(step)).result).result if step else place


def _pointer(start: Value, place: Value) -> Value:
    """The address of an element, as a pointer of C."""
    address = arith.AddIOp(start, arith.MulIOp(place, as_value(4)).result).result
    long = arith.IndexCastOp(ir.IntegerType.get_signless(64), address).result
    return llvm.IntToPtrOp(ir.Type.parse("!llvm.ptr"), long).result


def _word(value: int) -> Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(32), value).result
