"""Movements whose addresses are data: gathers and scatters in the scheduled form.

A gather is a `linalg.generic` whose body only loads an element of a memref in DRAM, at a position that its index
operands choose, and yields the element. A scatter stores an element, or adds to it, and yields nothing. So upstream's
ops alone express the movement, native code needs no special lowering, and one such op is one instruction of a DMA
queue.

    linalg.generic {...} ins(%ids : memref<8xi64, 1>) outs(%tile : memref<8x64xf32, 1>) {
    ^bb0(%id: i64, %old: f32):
      %row = arith.index_cast %id : i64 to index
      %column = linalg.index 1 : index
      %value = memref.load %table[%row, %column] : memref<50257x64xf32>
      linalg.yield %value : f32
    }

An index that may be negative is wrapped: `select(i < 0, i + extent, i)`. A subscript that no index chooses is a loop of
the op, shifted by values from outside the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from simulator.tileprogram.program import MAX_RANK, Indexed
from workbench.mlir.affine import compile_map, constant_of
from workbench.mlir.bindings import Value, integer, maker, makers_behind, segments
from workbench.mlir.linalg_loops import axis_loops, indexing_maps, iterators

ACCESSES = ("memref.load", "memref.store", "tensor.extract")
_PLACES = ("linalg.index", "affine.apply", "arith.constant", "arith.addi")


Reader = Callable[[Any], Any]
"""Returns a number from the state of a kernel that is being unrolled."""


class NotIndexed(ValueError):
    """The error for a linalg body that accesses memory in a way that no DMA queue could."""


@dataclass(frozen=True, slots=True)
class Place:
    """One subscript of an access to a memref: chosen by the index operand `operand`, or along the loop `loop`."""

    value: Value
    operand: int = -1
    wraps: bool = False
    loop: int = -1
    """The number of the loop; -1 if the subscript is not along a loop."""


@dataclass(frozen=True)
class IndexedOp:
    """A gather or a scatter."""

    op: ir.Operation
    memref: Value
    """The whole memref in DRAM whose elements the indices choose."""
    places: tuple[Place, ...]
    writes: bool
    combiner: str
    """The name of the op with which a scatter combines old and new elements; empty if it overwrites."""
    indices: tuple[int, ...]
    """Operand numbers of the indices."""
    moved: Value | None
    """The value that a scatter stores: an argument of the body, or a number from outside; None for a gather."""

    @property
    def skipped(self) -> int:
        """The number of outer loops beyond an instruction's rank: tiles have one iteration of these."""
        return max(0, len(iterators(self.op)) - MAX_RANK)

    def walks(self, place: Place) -> bool:
        """True if the access moves along an axis at all."""
        return place.operand >= 0 or place.loop >= self.skipped

    def dims(self, number: int) -> tuple[int, ...]:
        """The dims of the instruction's extent that the axes of an operand walk."""
        loops = axis_loops(indexing_maps(self.op)[number])
        return tuple(loop - self.skipped for loop in loops if loop is not None and loop >= self.skipped)

    @property
    def indexed(self) -> Indexed:
        """The access in the tile program's form. Axes along which it does not move are no axes of the box."""
        axes = tuple(
            place.loop - self.skipped if place.operand < 0 else -1 - self.indices.index(place.operand)
            for place in self.places
            if self.walks(place)
        )
        return Indexed(axes, tuple(map(self.dims, self.indices)), any(place.wraps for place in self.places))


def accesses_in(op: ir.Operation) -> list[ir.Operation]:
    """The loads and stores in the body of a linalg op."""
    if not op.name.startswith("linalg.") or not len(op.regions) or not len(op.regions[0].blocks):
        return []
    return [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name in ACCESSES]


def read_indexed(op: ir.Operation) -> IndexedOp | None:
    """Reads an op as a gather or scatter; None if its body accesses no memory. `NotIndexed` for other accesses."""
    accesses = accesses_in(op)
    if not accesses:
        return None
    block = op.regions[0].blocks[0]
    *body, ret = [each.operation for each in block.operations]
    last = accesses[-1]
    writes = last.name == "memref.store"
    memref, positions = last.operands[int(writes)], list(last.operands)[int(writes) + 1 :]
    places = tuple(_place(value, block) for value in positions)
    known = body_slice(positions, block)
    combiner, moved = "", None
    if writes:
        moved = last.operands[0]
        combined = maker(moved)
        old = accesses[0] if len(accesses) == 2 else None
        if old is not None:
            _same_place(old, memref, positions)
            if combined is None or combined not in body or old.results[0] not in list(combined.operands):
                raise NotIndexed("it does not store its loaded value, combined with one other value")
            combiner = combined.name
            (moved,) = [value for value in combined.operands if value != old.results[0]] or [old.results[0]]
            known += [old, combined]
        if len(list(ret.operands)):
            raise NotIndexed("a scatter has no other output")
    elif list(ret.operands) != [last.results[0]]:
        raise NotIndexed("it computes with the loaded value: use an op of its own for that, on a scratchpad tile")
    extra = [each for each in body if each not in known and each != last and each.name != "arith.constant"]
    if len(accesses) > 1 + bool(combiner) or extra:
        raise NotIndexed(f"beside its one access it has {', '.join(each.name for each in extra) or 'others'}")
    indices = tuple(sorted({place.operand for place in places if place.operand >= 0}))
    inputs = segments(op)[0]
    others = [n for n in range(inputs) if n not in indices and list(block.arguments[n].uses)]
    if not indices or (others and (not writes or [block.arguments[n] for n in others] != [moved])):
        raise NotIndexed("its operands are indices and, for a scatter, the stored values")
    return IndexedOp(op, memref, places, writes, combiner, indices, moved)


def _same_place(old: ir.Operation, memref: Value, positions: Sequence[Value]) -> None:
    if old.name != "memref.load" or list(old.operands) != [memref, *positions]:
        raise NotIndexed("it loads from one place and stores to another")


def _place(value: Value, block: ir.Block) -> Place:
    """Reads a subscript; an index may be wrapped before or after the cast to `index`."""
    cast = maker(value)
    inner, wrapped = value, False
    for _ in range(2):
        if cast is not None and cast.block == block and cast.name == "arith.select":
            inner, wrapped = _wrapped(cast), True
            cast = maker(inner)
        if cast is not None and cast.block == block and cast.name in ("arith.index_cast", "arith.index_castui"):
            inner = cast.operands[0]
            cast = maker(inner)
    if isinstance(inner, ir.BlockArgument) and inner.owner == block:
        return Place(value, inner.arg_number, wrapped)
    ops = body_slice([value], block)
    strange = [op.name for op in ops if op.name not in _PLACES]
    if strange:
        raise NotIndexed(
            f"a place is computed by {', '.join(strange)}: expected an index, or a loop variable and a shift"
        )
    loops = {integer(op, "dim") for op in ops if op.name == "linalg.index"}
    if len(loops) > 1:
        raise NotIndexed("a place moves along two loops")
    if loops:
        start, next_one = (shift(value, block, lambda _: lambda _: 0, at)(None) for at in (0, 1))
        if next_one - start != 1:
            raise NotIndexed(f"a place moves by {next_one - start} in each iteration, not by 1")
    return Place(value, loop=loops.pop() if loops else -1)


def shift(value: Value, block: ir.Block, outside: Callable[[Value], Reader], at: int = 0) -> Reader:
    """Returns a reader of a subscript along a loop, in the loop's iteration `at`; `outside` reads values from outside
    the block."""
    op = maker(value)
    constant = constant_of(value)
    if constant is not None:
        return lambda state: constant
    if op is None or op.block != block:
        return outside(value)
    if op.name == "linalg.index":
        return lambda state: at
    operands = [shift(operand, block, outside, at) for operand in op.operands]
    if op.name == "arith.addi":
        return lambda state: sum(read(state) for read in operands)
    (made,) = compile_map(op)
    return lambda state: made([read(state) for read in operands])


def _wrapped(select: ir.Operation) -> Value:
    """The index behind `select(i < 0, i + extent, i)`."""
    test, added, plain = (select.operands[number] for number in range(3))
    compare, plus = maker(test), maker(added)
    if (
        compare is None
        or plus is None
        or compare.name != "arith.cmpi"
        or plus.name != "arith.addi"
        or compare.operands[0] != plain
        or plain not in list(plus.operands)
        or constant_of(compare.operands[1]) != 0
    ):
        raise NotIndexed("a place is selected in another way than select(i < 0, i + extent, i)")
    return plain


def body_slice(values: Sequence[Value], block: ir.Block, without: Sequence[ir.Operation] = ()) -> list[ir.Operation]:
    """The ops of a body that these values depend on, without the ops `without` and ops needed only for those."""
    return makers_behind(values, lambda op: op.block == block and op not in without)
