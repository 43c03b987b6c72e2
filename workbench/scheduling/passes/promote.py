"""Promotion to the scratchpad: from bufferized loops that work on DRAM to the scheduled form.

Every DRAM region that a linalg op touches gets a scratchpad buffer. The region is loaded where it is defined
(loop-invariant code motion has hoisted that point as far as possible, so a loop-invariant region is loaded once), and
stored back after the last write. Intermediate tiles become scratchpad buffers too. Buffers have the static size of a
full tile and are allocated at the top of the function; a ragged tile is a subview of a buffer. A buffer inside loops
has several slots that iterations use in turn, so that the next tile's load can run while this tile is in use.

If work is spread over cores, each core has its own scratchpad: regions inside an `scf.forall` are loaded inside, and
their buffers are allocated at the top of its body.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import affine, memref

from simulator.tileprogram.program import Access
from workbench.mlir.affine import loop_bounds
from workbench.mlir.bindings import (
    Index,
    Value,
    ancestor_in,
    block_of,
    copy,
    function_of,
    integer_attribute,
    kept_axes,
    maker,
    named,
    owner_of,
    shape_of,
    space_of,
    subview_groups,
)
from workbench.mlir.context import operations
from workbench.mlir.dialect import DRAM, SCRATCHPAD, SLOTS
from workbench.mlir.indexed_moves import accesses_in
from workbench.mlir.instruction_forms import access_of
from workbench.mlir.linalg_loops import role_of
from workbench.mlir.linalg_ops import linalg_ops, passed_through
from workbench.mlir.memrefs import full_shape, mixed_shape, replace, root_of, subview, uses_of
from workbench.mlir.named_dims import keep_id
from workbench.scheduling.passes.kernel_pass import KernelPass
from workbench.scheduling.passes.padded_views import load, with_all_axes


@dataclass
class _Region:
    """A memref value that linalg ops use, and its users in program order."""

    value: Value
    users: list[tuple[ir.Operation, int]] = field(default_factory=list[tuple[ir.Operation, int]])


@dataclass(frozen=True)
class Promote(KernelPass):
    """Gives tiles their buffers in the scratchpad, with loads and stores; buffers in loops get `buffers` slots."""

    name = "npu-promote"

    buffers: int

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            promoter = _Promoter(function_of(module), self.buffers)
            promoter.promote_intermediates(module)
            promoter.store_twice(module)
            promoter.stage_copies(module)
            promoter.promote_regions(module)
            promoter.free()


class _Promoter:
    """Makes buffers at the top of the function or of the cores' bodies, and the subviews that loops work on."""

    def __init__(self, function: ir.Operation, buffers: int) -> None:
        self.entry = function.regions[0].blocks[0]
        spread = [op.regions[0].blocks[0] for op in operations(function) if op.name == "scf.forall"]
        # Buffers go before the first op that is no alloc: allocs at the top become buffers themselves.
        self.first = {block: _first_of(block) for block in (self.entry, *spread)}
        self.buffers = buffers
        self.allocated: dict[ir.Block, list[Value]] = {block: [] for block in self.first}
        self.twins: list[tuple[Value, Value]] = []
        """(result, another result with equal values): each tile of the first is also stored to the second."""

    def store_twice(self, module: ir.Module) -> None:
        """Removes copies of a whole result to another result; each tile will be stored twice instead."""
        for op in named(module, "memref.copy"):
            source, target = op.operands
            made, first = maker(target), self.first[self.entry]
            whole = made is None or [maker(each) for each in made.operands] == [None]
            if whole and _is_written_by_tiles(source, op):
                if made is not None and made != first:
                    made.move_before(first)
                self.twins.append((source, target))
                op.erase()

    def stage_copies(self, module: ir.Module) -> None:
        """Makes every copy a `linalg.copy`. One from DRAM to DRAM goes through a scratchpad tile or, if it transposes,
        through two with a vector pass between them, which moves whole vectors where a DMA would move single elements.
        """
        for op in named(module, "memref.copy"):
            with ir.InsertionPoint(op), op.location:
                moved = copy(op.operands[0], op.operands[1])
            if op == self.first.get(op.block):  # so that buffers do not go before an erased op
                self.first[op.block] = moved
            op.erase()
        for op in linalg_ops(module):
            if op.name == "linalg.copy" and space_of(op.operands[0]) == space_of(op.operands[1]) == DRAM:
                with ir.InsertionPoint(op), op.location:
                    if _transposed(*op.operands):
                        self._as_pass(op)
                    else:
                        op.operands[0] = self.loaded(op.operands[0], op.operation.block)

    def _as_pass(self, op: ir.Operation) -> None:
        """Replaces a transposing copy by a load and a vector pass."""
        source, target = op.operands
        passed = passed_through(self.loaded(source, op.operation.block), target)
        keep_id(op, passed)
        if (block := op.operation.block) in self.first and self.first[block] == op.operation:
            self.first[block] = passed
        op.operation.erase()

    def promote_intermediates(self, module: ir.Module) -> None:
        """Replaces DRAM allocs for tiles between two ops by scratchpad buffers."""
        for op in named(module, "memref.alloc"):
            value = op.results[0]
            if space_of(value) != DRAM:
                continue
            moved = any(role_of(user) == "contraction" or accesses_in(user) for user, _ in _linalg_uses(value))
            slots = self.buffers if moved else 1
            with ir.InsertionPoint(op), op.location:
                tile = self.buffer(value, op.block, slots)
            replace(value, tile)
            op.erase()

    def promote_regions(self, module: ir.Module) -> None:
        """Gives regions of the arguments a tile: loaded before the first use, stored after the last write."""
        regions: dict[tuple[Value, ir.Block], _Region] = {}
        for op in linalg_ops(module):
            for position, value in enumerate(op.operands):
                movement = op.name == "linalg.copy"
                if isinstance(value.type, ir.MemRefType) and space_of(value) == DRAM and not movement:
                    key = value, self._home(block_of(op))
                    regions.setdefault(key, _Region(value)).users.append((op, position))
        for (_, home), region in regions.items():
            self._promote_region(region, home)

    def _promote_region(self, region: _Region, home: ir.Block) -> None:
        value = region.value
        made_by = maker(value)
        if made_by is None or self._home(block_of(made_by)) != home:  # defined outside the cores' work: each core loads
            block, where = home, ir.InsertionPoint(self.first[home])
        else:
            block, where = block_of(made_by), ir.InsertionPoint.after(made_by)
        place = ir.Location.fused([op.location for op, _ in region.users])
        with where, place:
            overwrites = access_of(*region.users[0]) == Access.WRITE
            tile = self.buffer(value, block, self.buffers) if overwrites else self.loaded(value, block)
        if writers := [op for op, position in region.users if access_of(op, position) != Access.READ]:
            with ir.InsertionPoint.after(ancestor_in(writers[-1], block)), place:
                copy(tile, value)
                for source, twin in self.twins:
                    if root_of(source) == root_of(value):
                        self._store(tile, value, _same_part(value, source, twin), block)
        for op, position in region.users:
            op.operands[position] = tile

    def _store(self, tile: Value, like: Value, target: Value, block: ir.Block) -> None:
        """Stores a tile with the layout of its region `like`; after a transposing pass if the target needs one."""
        if _transposed(like, target):
            turned = self.buffer(target, block, self.buffers)
            passed_through(tile, turned)
            tile = turned
        copy(tile, target)

    def _home(self, block: ir.Block) -> ir.Block:
        """The block with the buffers of a block's ops: the body of the `scf.forall` around, or else the function's."""
        while block not in self.first:
            block = block_of(owner_of(block))
        return block

    def loaded(self, value: Value, block: ir.Block) -> Value:
        """A tile with the contents of a DRAM region, loaded at the insertion point."""
        whole, dropped = with_all_axes(value)
        tile = self.buffer(whole, block, self.buffers)
        load(whole, tile)
        return subview(tile, [0] * len(mixed_shape(whole)), mixed_shape(whole), dropped) if dropped else tile

    def buffer(self, like: Value, block: ir.Block, slots: int) -> Value:
        """A scratchpad tile with `like`'s extents at the insertion point, in a new buffer at the top of its home."""
        home = self._home(block)
        loops = _loops_around(block, home)
        slots = slots if loops else 1
        shape = full_shape(like)
        with ir.InsertionPoint(self.first[home]):
            element, space = ir.MemRefType(like.type).element_type, integer_attribute(SCRATCHPAD)
            kind = ir.MemRefType.get([slots, *shape] if slots > 1 else shape, element, memory_space=space)
            alloc = memref.AllocOp(kind, [], [])
            alloc.attributes["alignment"] = integer_attribute(64)
            if slots > 1:
                alloc.attributes[SLOTS] = integer_attribute(slots)
        self.allocated[home].append(alloc.result)
        start: list[Index] = [0] * len(shape)
        if slots > 1:
            return subview(alloc.result, [_slot(loops, slots), *start], [1, *mixed_shape(like)], dropped=[0])
        if mixed_shape(like) == shape:
            return alloc.result
        return subview(alloc.result, start, mixed_shape(like))

    def free(self) -> None:
        for home, values in self.allocated.items():
            with ir.InsertionPoint(home.operations[len(home.operations) - 1]):
                for value in values:
                    memref.DeallocOp(value)


def _first_of(block: ir.Block) -> ir.Operation:
    return next(op.operation for op in block.operations if op.operation.name != "memref.alloc")


def _slot(loops: list[ir.Operation], slots: int) -> Value:
    """The slot that an iteration uses: the number of iterations before it, modulo the number of slots."""
    number = ir.AffineConstantExpr.get(0)
    variables: list[Value] = []
    for loop in loops:
        low, high, step = loop_bounds(loop)
        trips = -(-(high - low) // step)
        variable = ir.AffineDimExpr.get(len(variables))
        variables.append(loop.regions[0].blocks[0].arguments[0])
        count = ir.AffineExpr.get_floor_div(variable - low if low else variable, step)
        number = number * trips + count
    expr = ir.AffineExpr.get_mod(number, slots)
    return affine.AffineApplyOp(ir.AffineMap.get(len(variables), 0, [expr]), variables).result


def _loops_around(block: ir.Block, home: ir.Block) -> list[ir.Operation]:
    """The `scf.for` ops around a block, inside the block `home`, outermost first."""
    found: list[ir.Operation] = []
    while block != home:
        owner = owner_of(block)
        if owner.name == "scf.for":
            found.insert(0, owner)
        block = block_of(owner)
    return found


def _transposed(source: Value, target: Value) -> bool:
    """True if two views are contiguous along different axes; False if the source is broadcast along the target's."""
    strides, others = ([*ir.MemRefType(each.type).get_strides_and_offset()[0]] for each in (source, target))
    long = [axis for axis, extent in enumerate(shape_of(target)) if extent != 1]
    reads, writes = ([axis for axis in long if each[axis] == 1] for each in (strides, others))
    return bool(reads and writes) and strides[writes[-1]] not in (0, 1)


def _is_written_by_tiles(result: Value, copied: ir.Operation) -> bool:
    """True if linalg ops write all tiles of a result; the op `copied`, which copies it, does not count."""
    made = maker(result)
    if made is not None and len(list(made.operands[0].uses)) > 1:
        return False
    written = False
    for use in result.uses:
        op = use.owner.operation
        if op == copied:
            continue
        users = _linalg_uses(op.results[0]) if op.name == "memref.subview" else [(op, use.operand_number)]
        if not all(user.name.startswith("linalg.") and user.name != "linalg.copy" for user, _ in users):
            return False
        written = written or any(access_of(user, place) != Access.READ for user, place in users)
    return written


def _same_part(view: Value, whole: Value, other: Value) -> Value:
    """The part of `other` at the place that `view` has in `whole`, by the same subviews."""
    if view == whole:
        return other
    made = maker(view)
    assert made is not None, "a view of it"
    offsets, sizes, steps = subview_groups(made)
    dropped = [axis for axis in range(len(sizes)) if axis not in kept_axes(made)]
    source = _same_part(made.operands[0], whole, other)
    return subview(source, offsets, sizes, dropped, [int(str(each)) for each in steps])


def _linalg_uses(value: Value) -> list[tuple[ir.Operation, int]]:
    """The linalg ops that use a memref or a view of it, each with the number of the operand."""
    return [(op, place) for op, place in uses_of(value) if op.name.startswith("linalg.")]
