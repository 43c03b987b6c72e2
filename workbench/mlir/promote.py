# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Promotion to the scratchpad: from bufferized loops that work on DRAM to the scheduled form.

Every DRAM region that a linalg op touches gets a scratchpad buffer. It is loaded where the region is defined
(loop-invariant code motion has put that as far out as it may go, so what does not change in a loop is loaded
once), and stored back after its last user when it was written. Intermediate tiles become scratchpad buffers too.
Buffers have the static size of a full tile and stand at the top of the function; a ragged tile is a subview of
one. A buffer inside loops has several slots that iterations take in turn, so that the next tile's load can run
while this tile is worked on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import affine, linalg, memref

from workbench.mlir.affine import loop_bounds, range_of
from workbench.mlir.dialect import DRAM, SCRATCHPAD, SLOTS
from workbench.mlir.payload import linalg_ops, role_of

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass
class _Region:
    """A memref value that linalg ops use, and its users in program order."""

    value: ir.Value
    users: list[tuple[ir.Operation, int]] = field(default_factory=list)


def promote(module: ir.Module, buffers: int) -> None:
    """Rewrites the module in place; `buffers` is how many slots a buffer that is moved inside a loop gets."""
    (function,) = [op for op in module.body.operations if op.operation.name == "func.func"]
    with module.context, ir.Location.unknown():
        promoter = _Promoter(function.operation, buffers)
        promoter.promote_intermediates(module)
        promoter.stage_copies(module)
        promoter.promote_regions(module)
        promoter.free()


class _Promoter:
    """Makes buffers at the function's top, and the subviews of them that loops work on."""

    def __init__(self, function: ir.Operation, buffers: int) -> None:
        self.entry = function.regions[0].blocks[0]
        self.first = self.entry.operations[0]
        self.buffers = buffers
        self.allocated: list[ir.Value] = []

    def stage_copies(self, module: ir.Module) -> None:
        """Every copy is a `linalg.copy`; one from DRAM to DRAM goes through a scratchpad tile."""
        for op in _all(module, "memref.copy"):
            with ir.InsertionPoint(op), op.location:
                linalg.copy(op.operands[0], outs=[op.operands[1]])
            op.erase()
        for op in linalg_ops(module):
            if op.name == "linalg.copy" and _space(op.operands[0]) == _space(op.operands[1]) == DRAM:
                source, target = op.operands[0], op.operands[1]
                with ir.InsertionPoint(op), op.location:
                    tile = self.buffer(source, op.operation.block, self.buffers)
                    linalg.copy(source, outs=[tile])
                    linalg.copy(tile, outs=[target])
                op.erase()

    def promote_intermediates(self, module: ir.Module) -> None:
        """Tiles that live between two ops: never in DRAM."""
        for op in _all(module, "memref.alloc"):
            value = op.results[0]
            if _space(value) != DRAM:
                continue
            slots = self.buffers if any(role_of(user) == "contraction" for user in _linalg_users(value)) else 1
            with ir.InsertionPoint(op), op.location:
                tile = self.buffer(value, op.block, slots)
            _replace(value, tile)
            op.erase()

    def promote_regions(self, module: ir.Module) -> None:
        """Regions of the arguments: load before the first use, store after the last."""
        regions: dict[ir.Value, _Region] = {}
        for op in linalg_ops(module):
            for position, value in enumerate(op.operands):
                movement = op.name == "linalg.copy"
                if isinstance(value.type, ir.MemRefType) and _space(value) == DRAM and not movement:
                    regions.setdefault(value, _Region(value)).users.append((op, position))
        for region in regions.values():
            self._promote_region(region)

    def _promote_region(self, region: _Region) -> None:
        value = region.value
        block = self.entry if isinstance(value, ir.BlockArgument) else value.owner.operation.block
        where = self._after(value)
        place = ir.Location.fused([op.location for op, _ in region.users])
        with where, place:
            tile = self.buffer(value, block, self.buffers)
            if _reads(*region.users[0]):
                linalg.copy(value, outs=[tile])
        if any(_writes(op, position) for op, position in region.users):
            last = _ancestor_in(region.users[-1][0], block)
            with ir.InsertionPoint.after(last), place:
                linalg.copy(tile, outs=[value])
        for op, position in region.users:
            op.operands[position] = tile

    def _after(self, value: ir.Value) -> ir.InsertionPoint:
        if isinstance(value, ir.BlockArgument):
            return ir.InsertionPoint(self.first)
        return ir.InsertionPoint.after(value.owner)

    def buffer(self, like: ir.Value, block: ir.Block, slots: int) -> ir.Value:
        """A scratchpad tile of `like`'s extents at the insertion point, in a new buffer at the function's top."""
        loops = _loops_around(block, self.entry)
        slots = slots if loops else 1
        kind = ir.MemRefType(like.type)
        full = [_upper(extent, size) for extent, size in zip(kind.shape, _sizes(like), strict=True)]
        shape = [slots, *full] if slots > 1 else full
        space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), SCRATCHPAD)
        with ir.InsertionPoint(self.first):
            alloc = memref.AllocOp(ir.MemRefType.get(shape, kind.element_type, memory_space=space), [], [])
            alloc.attributes["alignment"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64)
            if slots > 1:
                alloc.attributes[SLOTS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), slots)
        self.allocated.append(alloc.result)
        sizes = [size if extent == _DYNAMIC else extent for extent, size in zip(kind.shape, _sizes(like), strict=True)]
        if slots == 1 and _DYNAMIC not in kind.shape:
            return alloc.result
        offsets: list[ir.Value | int] = [0] * len(full)
        if slots == 1:
            return subview(alloc.result, offsets, sizes)
        return subview(alloc.result, [_slot(loops, slots), *offsets], [1, *sizes], dropped=1)

    def free(self) -> None:
        with ir.InsertionPoint(self.entry.operations[len(self.entry.operations) - 1]):
            for value in self.allocated:
                memref.DeallocOp(value)


def subview(
    source: ir.Value, offsets: list[ir.Value | int], sizes: list[ir.Value | int], dropped: int = 0
) -> ir.Value:
    """A unit-stride subview without its first `dropped` axes, its type derived from the source's."""
    kind = ir.MemRefType(source.type)
    strides, offset = kind.get_strides_and_offset()
    where: int | None = offset if offset != _DYNAMIC_STRIDE else None
    for step, stride in zip(offsets, strides, strict=True):
        known = where is not None and isinstance(step, int) and stride != _DYNAMIC_STRIDE
        where = where + step * stride if known and where is not None and isinstance(step, int) else None
        if step == 0 and isinstance(step, int) and not known:
            where = None
    shape = [size if isinstance(size, int) else "?" for size in sizes][dropped:]
    steps = ["?" if stride == _DYNAMIC_STRIDE else stride for stride in strides][dropped:]
    text = "x".join([*map(str, shape), str(kind.element_type)])
    layout = f"strided<[{', '.join(map(str, steps))}], offset: {'?' if where is None else where}>"
    space = f", {_space(source)}" if _space(source) != DRAM else ""
    fixed = ir.ShapedType.get_dynamic_stride_or_offset()
    return memref.SubViewOp(
        ir.Type.parse(f"memref<{text}, {layout}{space}>"),
        source,
        [each for each in offsets if not isinstance(each, int)],
        [each for each in sizes if not isinstance(each, int)],
        [],
        [each if isinstance(each, int) else fixed for each in offsets],
        [each if isinstance(each, int) else fixed for each in sizes],
        [1] * len(sizes),
    ).result


_DYNAMIC_STRIDE = ir.ShapedType.get_dynamic_stride_or_offset()


def _slot(loops: list[ir.Operation], slots: int) -> ir.Value:
    """Which slot an iteration uses: the number of iterations before it, modulo the slots."""
    number = ir.AffineConstantExpr.get(0)
    variables: list[ir.Value] = []
    for loop in loops:
        low, high, step = loop_bounds(loop)
        trips = -(-(high - low) // step)
        variable = ir.AffineDimExpr.get(len(variables))
        variables.append(loop.regions[0].blocks[0].arguments[0])
        count = ir.AffineExpr.get_floor_div(variable - low if low else variable, step)
        number = number * trips + count
    expr = ir.AffineExpr.get_mod(number, slots)
    return affine.AffineApplyOp(ir.AffineMap.get(len(variables), 0, [expr]), variables).result


def _loops_around(block: ir.Block, entry: ir.Block) -> list[ir.Operation]:
    """The `scf.for` ops around a block, outermost first."""
    found: list[ir.Operation] = []
    while block != entry:
        owner = block.owner.operation
        if owner.name == "scf.for":
            found.insert(0, owner)
        block = owner.block
    return found


def _sizes(value: ir.Value) -> list[ir.Value | None]:
    """The SSA value behind each dynamic extent of a memref; None for static ones."""
    kind = ir.MemRefType(value.type)
    if _DYNAMIC not in kind.shape:
        return [None] * len(kind.shape)
    owner = value.owner.operation
    if owner.name == "memref.alloc":
        dynamic = list(owner.operands)
    elif owner.name == "memref.subview":
        return _subview_sizes(owner, kind)
    else:
        raise AssertionError(f"{owner.name} makes a memref of dynamic extents")
    return [dynamic.pop(0) if extent == _DYNAMIC else None for extent in kind.shape]


def _subview_sizes(op: ir.Operation, kind: ir.MemRefType) -> list[ir.Value | None]:
    """Sizes of a subview's kept axes. An axis is dropped only when it is a static one."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    first = segments[0] + segments[1]
    dynamic = list(op.operands)[first : first + segments[2]]
    return [dynamic.pop(0) if extent == _DYNAMIC else None for extent in kind.shape]


def _upper(extent: int, size: ir.Value | None) -> int:
    return range_of(size).high if extent == _DYNAMIC and size is not None else extent


def _space(value: ir.Value) -> int:
    space = ir.MemRefType(value.type).memory_space
    return DRAM if space is None else ir.IntegerAttr(space).value


def _all(module: ir.Module, name: str) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _linalg_users(value: ir.Value) -> list[ir.Operation]:
    """The linalg ops that use a memref or a subview of it."""
    found: list[ir.Operation] = []
    for use in value.uses:
        op = use.owner.operation
        found += [op] if op.name.startswith("linalg.") else [u for result in op.results for u in _linalg_users(result)]
    return found


def _replace(old: ir.Value, new: ir.Value) -> None:
    """Puts `new` in the place of `old`, rebuilding the subviews of it, whose types follow their source's."""
    for use in list(old.uses):
        op = use.owner.operation
        if op.name in ("memref.collapse_shape", "memref.expand_shape"):
            with ir.InsertionPoint(op), op.location:
                _replace(op.results[0], _reshape(new, list(ir.MemRefType(op.results[0].type).shape)))
            op.erase()
            continue
        if op.name != "memref.subview":
            op.operands[use.operand_number] = new
            continue
        offsets, sizes = _mixed(op)
        if all(isinstance(offset, int) and offset == 0 for offset in offsets) and _same_extent(op, old):
            _replace(op.results[0], new)
        else:
            with ir.InsertionPoint(op), op.location:
                _replace(op.results[0], subview(new, offsets, sizes))
        op.erase()


def _reshape(source: ir.Value, shape: list[int]) -> ir.Value:
    """`source` with unit extents added or dropped; strides of added ones are the extent inside times its stride."""
    kind = ir.MemRefType(source.type)
    strides, offset = kind.get_strides_and_offset()
    kept = [stride for extent, stride in zip(kind.shape, strides, strict=True) if extent != 1]
    assert [extent for extent in shape if extent != 1] == [extent for extent in kind.shape if extent != 1]
    laid: list[int] = []
    inner = 1
    for extent in reversed(shape):
        stride = kept.pop() if extent != 1 else inner
        laid.insert(0, stride)
        inner = extent * stride
    where = "?" if offset == _DYNAMIC_STRIDE else offset
    text = "x".join([*map(str, shape), str(kind.element_type)])
    result = ir.Type.parse(f"memref<{text}, strided<{laid}, offset: {where}>, {_space(source)}>")
    if where != "?":
        return memref.ReinterpretCastOp(result, source, [], [], [], [offset], shape, laid).result
    place = memref.ExtractStridedMetadataOp(source)
    return memref.ReinterpretCastOp(result, source, [place.offset], [], [], [_DYNAMIC_STRIDE], shape, laid).result


def _same_extent(op: ir.Operation, source: ir.Value) -> bool:
    """Whether a subview from the origin takes all of its source."""
    _, sizes = _mixed(op)
    whole = [
        extent if extent != _DYNAMIC else size
        for extent, size in zip(ir.MemRefType(source.type).shape, _sizes(source), strict=True)
    ]
    return whole == sizes


def _mixed(op: ir.Operation) -> tuple[list[ir.Value | int], list[ir.Value | int]]:
    """Offsets and sizes of a subview, each a number or an SSA value."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands = list(op.operands)
    offsets = operands[1 : 1 + segments[1]]
    sizes = operands[1 + segments[1] : 1 + segments[1] + segments[2]]
    fixed = ir.ShapedType.get_dynamic_stride_or_offset()

    def mixed(name: str, dynamic: list[ir.Value]) -> list[ir.Value | int]:
        static = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        return [dynamic.pop(0) if each == fixed else each for each in static]

    return mixed("static_offsets", offsets), mixed("static_sizes", sizes)


def _reads(op: ir.Operation, position: int) -> bool:
    """Whether the op uses the old contents of this operand."""
    if not _writes(op, position):
        return True
    if op.name in ("linalg.fill", "linalg.copy"):
        return False
    if not op.regions or not len(op.regions[0].blocks):
        return True
    return bool(list(op.regions[0].blocks[0].arguments[position].uses))


def _writes(op: ir.Operation, position: int) -> bool:
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    return position >= segments[0]


def _ancestor_in(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of `block` that `op` is in."""
    while op.block != block:
        op = op.block.owner.operation
    return op
