"""Stores several results of different shapes: each is written to memory, tile by tile, by the op that makes it.

A kernel is tiled by its last op. Another result is made in the loops of the last op if that op reads it, directly or
through other ops. So a result that nothing reads becomes an unused operand of the last op. And an op that makes another
result writes to that result's place in memory, a tile at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import bufferization, tensor

from workbench.ground.errors import MappingError, Problem, ScheduledFormError
from workbench.ir import Mapping
from workbench.ir.kernels import USER_SCRIPT
from workbench.mlir.bindings import (
    Value,
    function_of,
    integer,
    maker,
    makers_behind,
    named,
    place_of_result,
    replace_op,
    segments,
    shape_of,
)
from workbench.mlir.context import operations, print_module
from workbench.mlir.linalg_ops import linalg_ops, passed_through, reads_of, with_reads
from workbench.mlir.memrefs import argument_behind, memref_behind
from workbench.mlir.named_dims import ID, Payload, analyse, keep_id, tag
from workbench.scheduling.passes.kernel_pass import module_pass

STORED = "bufferization.materialize_in_destination"


UNREAD = "npu.unread"
"""Attribute on an op with unused operands."""


def stores_of(module: ir.Module) -> list[ir.Operation]:
    """The ops that store a kernel's results."""
    return named(module, STORED)


def behind_all(module: ir.Module) -> ir.InsertionPoint:
    """Moves the stores to the end, in their order; returns the point before them, behind all computations."""
    stores = stores_of(module)
    end = list(function_of(module).regions[0].blocks[0].operations)[-1]
    for store in stores:
        store.move_before(end)
    return ir.InsertionPoint(stores[0])


def made_apart(module: ir.Module) -> bool:
    """True if a kernel's results are made by several ops."""
    return len({store.operands[0].owner for store in stores_of(module)}) > 1


def unread_results(module: ir.Module) -> list[ir.Operation]:
    """The stores of results on which no other result depends."""
    stores = stores_of(module)
    read = _made_of(stores)
    return [store for store in stores if store.operands[0] not in read]


def _made_of(stores: Sequence[ir.Operation]) -> set[Value]:
    """All values that are read, directly or indirectly, to compute these results."""
    return {value for op in makers_behind(store.operands[0] for store in stores) for value in op.operands}


@module_pass("npu-results-in-place")
def put_results_in_place(module: ir.Module) -> None:
    """Makes the ops of all results but the last write to their places in memory, and the last op read those results
    that nothing else reads."""
    made_last = _last(module)
    while True:
        _store_once(module, made_last)
        if (wider := _last(module, made_last)) == made_last:
            break
        made_last = wider  # a result that was made again is read by nothing, so it may now be the widest end
    tag(module)
    ends = [store for store in unread_results(module) if _made_by_others(store, made_last)]
    others = [store for store in stores_of(module) if _made_by_others(store, made_last)]
    for store in others:
        _write_in_place(module, store)
    if ends:
        _read_by(module, made_last, [store.operands[0] for store in ends])
    for store in others:
        store.erase()


def _last(module: ir.Module, known: ir.Operation | None = None) -> ir.Operation:
    """The op that the kernel is tiled by: of the ops whose results are unread, the last one with the most dims; `known`
    if it is among these.

    An op with several results cannot be the last op if another unread result depends on one of them: it would have to
    read that result.
    """
    ends = [store for store in unread_results(module) if memref_behind(store.operands[0]) is None]
    pairs = [(store, op) for store in ends if (op := maker(store.operands[0])) is not None]
    read = _made_of(ends)
    pairs = [(store, op) for store, op in pairs if read.isdisjoint(op.results)]
    widest = max(len(shape_of(store.operands[0])) for store, _ in pairs)
    makers = [op for store, op in pairs if len(shape_of(store.operands[0])) == widest]
    return known if known is not None and known in makers else makers[-1]


def _made_by_others(store: ir.Operation, last: ir.Operation) -> bool:
    """True if an op other than the last one makes the stored value. A stored argument, which no op makes, is copied."""
    return maker(store.operands[0]) != last and memref_behind(store.operands[0]) is None


def _store_once(module: ir.Module, last: ir.Operation) -> None:
    """Makes a value that several stores take once for each: an op writes to one place, and a copy would be folded."""
    stored = list[Value]()
    for store in stores_of(module):
        value = store.operands[0]
        if value in stored and _made_by_others(store, last):
            with behind_all(module):
                store.operands[0] = _made_again(value)
        stored.append(value)


def _made_again(value: Value) -> Value:
    """Result of running the op again, starting from fresh zeros."""
    op = maker(value)
    assert op is not None
    again = op.clone()
    for position, start in enumerate(op.operands):
        made_by = maker(start)
        if made_by is not None and made_by.name == "linalg.fill":
            with ir.InsertionPoint(again.operation):
                again.operation.operands[position] = made_by.clone().results[0]
    return again.results[place_of_result(op, value)]


def _write_in_place(module: ir.Module, store: ir.Operation) -> None:
    """Makes the op that computes a result write directly to the result's place in memory."""
    value, place = store.operands[0], store.operands[1]
    op = maker(value)
    assert op is not None
    if op not in linalg_ops(module):
        op = _copied(op, value, store)
    entry = function_of(module).regions[0].blocks[0].operations[0]
    if (view := maker(place)) is not None:
        view.move_before(entry)
    writes, position = op, segments(op)[0] + list(op.results).index(store.operands[0])
    while (start := maker(writes.operands[position])) is not None and start.name == "linalg.fill":
        writes, position = start, 1
    with ir.InsertionPoint(entry) if view is None else ir.InsertionPoint.after(view), op.location:
        kind = ir.MemRefType(place.type)
        into = ir.RankedTensorType.get(kind.shape, kind.element_type)
        writes.operands[position] = bufferization.to_tensor(into, place, restrict=True, writable=True)


def _copied(op: ir.Operation, value: Value, store: ir.Operation) -> ir.Operation:
    """Copies a value that no linalg op makes by a linalg op; all readers read the copy."""
    with ir.InsertionPoint.after(op), store.location:
        kind = ir.RankedTensorType(value.type)
        empty = tensor.EmptyOp(kind.shape, kind.element_type).result
        copied = passed_through(value, empty)
    value.replace_all_uses_except(copied.results[0], [copied])
    return copied


def _read_by(module: ir.Module, last: ir.Operation, values: Sequence[Value]) -> None:
    """Adds values to the last op as unused operands."""
    payload = analyse(module)
    described = {op.id: op for op in payload.ops}
    loops, inputs = described[integer(last, ID)].loops, range(segments(last)[0])
    added, along = list[ir.AffineMap](), dict(zip(loops, loops, strict=True))
    for value in values:
        op = maker(value)
        assert op is not None
        access = described[integer(op, ID)].accesses[place_of_result(op, value) - len(op.results)]
        walked = _loops_along(access.dims, along, payload)
        if walked is None:
            advice = "keep it apart from the rest: fusion={'off': ['reductions of one operand', 'several results']}"
            problem = Problem(f"one of its results does not depend on what the others are made of; {advice}")
            raise _not_scheduled(module, problem)
        added.append(ir.AffineMap.get(len(loops), 0, [ir.AffineDimExpr.get(loops.index(dim)) for dim in walked]))
    with behind_all(module), last.location:
        unused = ((value, walk, None) for value, walk in zip(values, added, strict=True))
        reads = with_reads(last, [*reads_of(last, inputs), *unused])
    reads.attributes[UNREAD] = ir.UnitAttr.get()
    replace_op(last, *reads.results)


def _loops_along(dims: Sequence[str], along: dict[str, str], payload: Payload) -> list[str] | None:
    """The loops for a value's dims; None if a dim has none. `along`, dim -> loop, is extended.

    A value that MLIR found to be constant has its own dims. Such a dim takes any loop of equal length, unless some op
    has both as loops.
    """
    for dim in (dim for dim in dims if dim not in along):
        inside = {each for op in payload.ops if dim in op.loops for each in op.loops}
        inside |= {along[each] for each in dims if each in along}
        as_long = [each for each in along if payload.dims[each] == payload.dims[dim] and along[each] not in inside]
        if not as_long:
            return None
        along[dim] = along[as_long[0]]
    return [along[dim] for dim in dims]


def written_in_place(module: ir.Module) -> frozenset[int]:
    """The numbers of the arguments that ops write to in place."""
    return frozenset(argument_behind(op.operands[0]) for op in _places(module))


def _places(module: ir.Module) -> list[ir.Operation]:
    return [op for op in named(module, "bufferization.to_tensor") if "writable" in op.attributes]


def writes_from_shares(module: ir.Module) -> bool:
    """True if a kernel that is spread over cores writes results in place."""
    return bool(named(module, "scf.forall")) and bool(_places(module))


@module_pass("npu-places-in-shares")
def put_places_in_shares(module: ir.Module) -> None:
    """Moves the tensors at the places of results into each `scf.forall`: bufferization would copy an outer tensor
    before a core writes to it."""
    for place in _places(module):
        for spread in named(module, "scf.forall"):
            body = spread.regions[0].blocks[0]
            users = [user for user in operations(spread) if place.results[0] in list(user.operands)]
            with ir.InsertionPoint.at_block_begin(body):
                mine = place.clone()
            for user in users:
                for position, value in enumerate(user.operands):
                    if value == place.results[0]:
                        user.operands[position] = mine.results[0]


def check_written(module: ir.Module, places: frozenset[int], mapping: Mapping) -> None:
    """Raises if a bufferized module writes nothing to one of these arguments: a script can cause this, or the tile of a
    result that is made on the way to a reduction."""
    written = {
        argument_behind(op.operands[position])
        for op in linalg_ops(module)
        for position in range(segments(op)[0], len(op.operands))
    }
    written |= {argument_behind(op.operands[1]) for op in named(module, "memref.copy")}
    missing = sorted(places - written)
    if missing and mapping.reason != USER_SCRIPT:
        told = (
            "tile: a result that is made on the way to a reduction is not stored where loops over other dims lie "
            "around one over what is reduced. Leave the one whole or the others, or keep the two apart: "
            "fusion={'off': ['several results']}"
        )
        raise MappingError(_name_of(module), told, "tile")
    told = (
        "the result that argument {} is for is made, but not stored: fuse the op that makes it into the loops of the "
        "last op, and do not cut dims there that the last op has whole"
    )
    if missing:
        raise _not_scheduled(module, *(Problem(told.format(number)) for number in missing))


def _name_of(module: ir.Module) -> str:
    return str(ir.StringAttr(function_of(module).attributes["sym_name"]).value)


def _not_scheduled(module: ir.Module, *problems: Problem) -> ScheduledFormError:
    return ScheduledFormError(_name_of(module), print_module(module), problems)


def reads_unread(module: ir.Module) -> bool:
    """True if an op has unused operands, which `put_results_in_place` added."""
    return any(UNREAD in op.attributes for op in linalg_ops(module))


@module_pass("npu-forget-unread")
def forget_unread(module: ir.Module) -> None:
    """Removes the unused operands of ops, after tiling and bufferization."""
    for op in linalg_ops(module):
        if UNREAD in op.attributes:
            _forget(op)


def _forget(op: ir.Operation) -> None:
    arguments = op.regions[0].blocks[0].arguments
    used = [place for place in range(segments(op)[0]) if list(arguments[place].uses)]
    with ir.InsertionPoint(op), op.location:
        keep_id(op, with_reads(op, reads_of(op, used)))
    op.erase()
