"""Verifies the scheduled form, which the JIT runs and from which the tile program is extracted.

This verifier serves every route. It walks a module op by op; each rule that an op breaks is a problem with the op's
line, and all problems are raised together, so that the author of a kernel sees all of them at once.

The form: one function over DRAM memrefs of static shape and strides; loops and branches; index and scalar
arithmetic; scratchpad buffers of static size; views of memrefs; `linalg.copy` for every movement; every other
linalg op on scratchpad memrefs only; single elements by `memref.load` and `memref.store`; gathers and scatters, which
are linalg ops with one such access as body (see `indexed_moves`); `npu.*`.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from workbench.ground.errors import Problem, ScheduledFormError
from workbench.mlir.affine import FORALL_BOUNDS
from workbench.mlir.bindings import DYNAMIC_STRIDE, integers
from workbench.mlir.context import line_of, operations, parse
from workbench.mlir.dialect import DRAM, SCRATCHPAD, SLOTS
from workbench.mlir.indexed_moves import ACCESSES, NotIndexed, read_indexed

_ALLOWED = frozenset({
    "func.func", "func.return",
    "scf.for", "scf.if", "scf.forall", "scf.yield", "scf.forall.in_parallel",
    "affine.for", "affine.if", "affine.yield", "affine.apply", "affine.min", "affine.max",
    "memref.alloc", "memref.dealloc", "memref.subview", "memref.cast", "memref.reinterpret_cast",
    "memref.expand_shape", "memref.collapse_shape", "memref.load", "memref.store",
})  # fmt: skip
_ALLOWED_IN_BODY = ("linalg.yield", "linalg.index", "affine.apply", "affine.min", "affine.max")
_ALLOWED_IN_BODY_TEXT = ", ".join(_ALLOWED_IN_BODY)
_SCALAR_DIALECTS = frozenset({"index", "arith", "math"})
_ALLOWED_TEXT = (
    "allowed are func, scf.for/if/forall, affine.for/if/apply/min/max, index/arith/math on scalars, "
    "memref.alloc/dealloc/subview/cast/reinterpret_cast/expand_shape/collapse_shape/load/store, linalg and npu ops"
)
_WHY_NOT = {
    "cf.assert": "bounds that data decides are checked before the launch, a kernel never aborts",
    "func.call": "a kernel is one function without calls",
    "memref.copy": "write every movement as linalg.copy",
    "memref.alloca": "scratchpad buffers come from memref.alloc",
}


def verify_scheduled(text: str, name: str = "kernel", context: ir.Context | None = None) -> ir.Module:
    """Parses and verifies a text in the scheduled form; a `ScheduledFormError` lists every broken rule.

    Lines are those of `text`; they are unknown for ops with locations of their own.
    """
    module = parse(text, context, name)
    problems = tuple(
        Problem(message, line_of(operation.location)) for operation, message in _problems(module.operation)
    )
    if problems:
        raise ScheduledFormError(name, text, problems)
    return module


def memory_space(kind: ir.Type) -> int | None:
    """A memref's memory space as a number; None if it is not a number."""
    space = ir.MemRefType(kind).memory_space
    if space is None:
        return DRAM
    return ir.IntegerAttr(space).value if isinstance(space, ir.IntegerAttr) else None


def _problems(module: ir.Operation) -> Iterator[tuple[ir.Operation, str]]:
    tops = [item.operation for item in module.regions[0].blocks[0]]
    functions = [item for item in tops if item.name == "func.func"]
    if len(functions) != 1:
        yield module, f"a kernel is exactly one func.func, found {len(functions)}"
    for operation in tops:
        yield from _walk(operation, inside_linalg=False)


def _walk(operation: ir.Operation, *, inside_linalg: bool) -> Iterator[tuple[ir.Operation, str]]:
    yield from ((operation, message) for message in _check(operation, inside_linalg))
    inside = inside_linalg or operation.name.startswith("linalg.")
    for region in operation.regions:
        for block in region.blocks:
            for item in block.operations:
                yield from _walk(item.operation, inside_linalg=inside)


def _check(operation: ir.Operation, inside_linalg: bool) -> Iterator[str]:
    name, dialect = operation.name, operation.name.split(".")[0]
    if inside_linalg:
        if name in ACCESSES:  # checked with the whole linalg op, which must be a gather or a scatter
            return
        if dialect not in _SCALAR_DIALECTS and name not in _ALLOWED_IN_BODY:
            yield f"{name} cannot stand in a linalg body: allowed are index, arith and math, {_ALLOWED_IN_BODY_TEXT}"
        yield from _scalars_only(operation)
        return
    if name == "func.func":
        yield from _check_function(operation)
    elif name == "memref.alloc":
        yield from _check_alloc(operation)
    elif name == "linalg.copy":
        yield from _check_copy(operation)
    elif dialect == "linalg":
        yield from _check_linalg(operation)
    elif dialect in _SCALAR_DIALECTS:
        yield from _scalars_only(operation)
        return
    elif name == "scf.forall":
        yield from _check_forall(operation)
    elif dialect != "npu" and name not in _ALLOWED:
        yield f"{name} is not part of the scheduled form: {_WHY_NOT.get(name, _ALLOWED_TEXT)}"
        return
    yield from _check_types(operation)


def _check_types(operation: ir.Operation) -> Iterator[str]:
    """Checks that every memref is in space 0 or 1, and that no result is a tensor or a vector."""
    for value in operation.results:
        kind = value.type
        if isinstance(kind, (ir.RankedTensorType, ir.UnrankedTensorType)):
            yield f"{operation.name} makes a tensor ({kind}): the scheduled form works on memrefs"
        elif isinstance(kind, ir.VectorType):
            yield f"{operation.name} makes a vector ({kind}): the machine's vector pass is a linalg op"
        elif isinstance(kind, ir.MemRefType) and memory_space(kind) not in (DRAM, SCRATCHPAD):
            yield f"{operation.name} makes {kind}: memory space 0 is DRAM and 1 is the scratchpad, there is no other"


def _scalars_only(operation: ir.Operation) -> Iterator[str]:
    for value in operation.results:
        if not isinstance(value.type, (ir.IndexType, ir.IntegerType, ir.FloatType)):
            yield f"{operation.name} makes {value.type}: arithmetic outside linalg ops is on scalars"


def _check_function(operation: ir.Operation) -> Iterator[str]:
    if not operation.regions[0].blocks:
        yield "a function without a body: a kernel is one function without calls"
        return
    kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
    if kind.results:
        yield "a kernel returns nothing: its outputs are its last memref arguments"
    for index, argument in enumerate(kind.inputs):
        if not isinstance(argument, ir.MemRefType):
            yield f"argument {index} is {argument}: kernel arguments are memrefs"
            continue
        if memory_space(argument) != DRAM:
            yield f"argument {index} is {argument}: kernel arguments lie in DRAM, memory space 0"
        strides, offset = argument.get_strides_and_offset()
        if not argument.has_static_shape or DYNAMIC_STRIDE in (*strides, offset):
            yield f"argument {index} is {argument}: shape, strides and offset of an argument are numbers"


def _check_alloc(operation: ir.Operation) -> Iterator[str]:
    kind = operation.results[0].type
    if memory_space(kind) == DRAM:
        yield f"memref.alloc of {kind}: a kernel allocates only in the scratchpad, memory space 1"
    if not kind.has_static_shape:
        yield f"memref.alloc of {kind}: a buffer's size is a number; use a memref.subview of it for ragged tiles"
        return
    if SLOTS in operation.attributes:
        slots = operation.attributes[SLOTS]
        if not isinstance(slots, ir.IntegerAttr) or slots.value < 1 or [slots.value] != kind.shape[:1]:
            yield f"{SLOTS} = {slots} on {kind}: it is an integer and equals the leading dimension, which counts slots"


def _check_forall(operation: ir.Operation) -> Iterator[str]:
    """Checks an `scf.forall`, whose iterations run in parallel on cores, each with its own scratchpad."""
    if any(DYNAMIC_STRIDE in integers(operation, name) for name in FORALL_BOUNDS):
        yield "scf.forall with computed bounds: the shares of the cores must be constants"
    inside = list(operations(operation))[1:]
    own = {value for op in inside for value in op.results}
    for op in inside:
        if op.name == "scf.forall":
            yield "scf.forall inside scf.forall: work is spread over the cores once"
        for value in op.operands:
            if isinstance(value.type, ir.MemRefType) and memory_space(value.type) == SCRATCHPAD and value not in own:
                yield (
                    f"{op.name} in scf.forall uses {value.type} from outside: every core has a scratchpad of its own, "
                    "so the buffer has to be allocated inside"
                )


def _check_copy(operation: ir.Operation) -> Iterator[str]:
    kinds = [value.type for value in operation.operands if isinstance(value.type, ir.MemRefType)]
    if len(kinds) != 2:
        yield "linalg.copy moves one memref into another"
        return
    source, target = kinds
    if memory_space(source) == DRAM and memory_space(target) == DRAM:
        yield "linalg.copy from DRAM to DRAM: allowed are 0 to 1 (load), 1 to 0 (store) and 1 to 1 (copy)"
    if source.element_type != target.element_type:
        yield f"linalg.copy from {source.element_type} to {target.element_type}: a movement does not convert"


def _check_linalg(operation: ir.Operation) -> Iterator[str]:
    try:
        indexed = read_indexed(operation)
    except NotIndexed as error:
        yield f"{operation.name} loads or stores in its body, and is neither a gather nor a scatter: {error}"
        return
    if indexed is not None and memory_space(indexed.memref.type) != DRAM:
        yield f"{operation.name} chooses places of {indexed.memref.type}: indices choose from DRAM only"
    for index, value in enumerate(operation.operands):
        kind = value.type
        if isinstance(kind, ir.MemRefType):
            if memory_space(kind) != SCRATCHPAD:
                yield f"{operation.name} works on DRAM (operand {index}, {kind}): copy it to memory space 1 first"
        elif not isinstance(kind, (ir.IndexType, ir.IntegerType, ir.FloatType)):
            yield f"{operation.name} takes {kind} (operand {index}): allowed are scratchpad memrefs and scalars"
