# pyright: reportAttributeAccessIssue=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""One linalg op executed by numpy: the meaning of a tile program's instruction, independent of the JIT.

A `linalg.generic` says everything in its indexing maps, iterator types and body, and every named op can be written
as one. Each operand is spread over the iteration space (a view with extents of one where it does not vary), the
body is evaluated on whole arrays, and the results are laid back by the output's map. Reductions whose body is one
combiner fold a whole axis; any other body walks the reduced points one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from torch_mlir import ir

from workbench.checking.replay.numpy_elementwise import (
    COMBINERS,
    ELEMENTS,
    FLOAT_COMPARISONS,
    FUNCTIONS,
    INTEGER_COMPARISONS,
    Array,
    Element,
    Function,
)
from workbench.ground.errors import ReplayError
from workbench.mlir.affine import compile_expr, compile_map, forall_bounds, loop_bounds
from workbench.mlir.bindings import DYNAMIC_EXTENT, segments, shape_of
from workbench.mlir.context import line_of, operations, parse, run_passes
from workbench.mlir.indexed_moves import accesses_in
from workbench.mlir.linalg_loops import indexing_maps, iterators

Counters: TypeAlias = Sequence[int]
"""The iteration number of each loop around an op, outermost first."""

_PRODUCTS: Final = ("arith.mulf", "arith.muli")


def read_ops(text: str, name: str) -> dict[int, LinalgOp]:
    """The linalg ops of a module by their 1-based line in its text, without gathers and scatters."""
    module = parse(text, name=name)
    run_passes(module, "func.func(linalg-generalize-named-ops)")
    found = [item for item in operations(module.operation) if item.name == "linalg.generic" and not accesses_in(item)]
    # Generalizing keeps an op's location, and the location of an op of this text is its line.
    return {line_of(item.location) or 0: LinalgOp(module, item) for item in found}


def read_loops(text: str, name: str) -> dict[int, AccessLoop]:
    """The innermost loops of single loads and stores of a module by their 1-based line in its text."""
    module = parse(text, name=name)
    found = [item for item in operations(module.operation) if item.name == "scf.for" and _accesses(item)]
    return {line_of(item.location) or 0: AccessLoop(module, item) for item in found}


@dataclass(frozen=True, slots=True)
class _Combined:
    """An output that the body folds: the folded value, and the name of the folding op. The name is empty if nothing is
    folded, since every reduced loop walks the output."""

    combiner: str
    value: ir.Value
    element: Element


class LinalgOp:
    """A linalg op that can be executed on numpy arrays."""

    def __init__(self, module: ir.Module, operation: ir.Operation) -> None:
        self._module = module  # keeps the op alive
        self._block = operation.regions[0].blocks[0]
        self._maps = [list(each.results) for each in indexing_maps(operation)]
        self._reduced = [kind == "reduction" for kind in iterators(operation)]
        self._inputs, self.outputs = segments(operation)
        self._operands = list(operation.operands)
        self._yields = list(list(self._block.operations)[-1].operation.operands)
        self._combined = self._find_combiners()

    @property
    def elements(self) -> tuple[Element, ...]:
        """The element type of each memref operand, inputs first."""
        kinds = [value.type for value in self._operands if _is_memref(value)]
        return tuple(_element(kind.element_type) for kind in kinds)

    def execute(self, tiles: Sequence[Array], counters: Counters) -> list[Array]:
        """Returns the new contents of the outputs, from the contents of all memref operands, inputs first."""
        given = (_with_unit_axes(tile, axes) for tile, axes in zip(tiles, self._axes(), strict=True))
        arrays = [
            next(given) if _is_memref(value) else np.asarray(_scalar(value, counters)) for value in self._operands
        ]
        space = self._space(arrays)
        spread = [_spread(array, exprs, space) for array, exprs in zip(arrays, self._maps, strict=True)]
        with np.errstate(all="ignore"):
            if not any(self._reduced):
                values = self._evaluate(spread, list(map(_axis_index(space), range(len(space)))), counters)
            elif self._combined is not None:
                values = self._fold(self._combined, spread, space, counters)
            else:
                values = self._walk(spread, space, counters)
        outputs = zip(values, arrays[self._inputs :], self._maps[self._inputs :], tiles[-self.outputs :], strict=True)
        return [
            _lay_back(value, array.shape, exprs, space).reshape(tile.shape) for value, array, exprs, tile in outputs
        ]

    def _axes(self) -> list[list[int | None]]:
        """The extents of each memref operand's axes; None for an extent that is known only at run time."""
        shapes = [shape_of(value) for value in self._operands if _is_memref(value)]
        return [[None if extent == DYNAMIC_EXTENT else extent for extent in shape] for shape in shapes]

    def _space(self, arrays: Sequence[Array]) -> tuple[int, ...]:
        """The extents of the iteration space, each read off an operand with the dim as an axis."""
        extents: dict[int, int] = {}
        for array, exprs in zip(arrays, self._maps, strict=True):
            for extent, expr in zip(array.shape, exprs, strict=True):
                if isinstance(expr, ir.AffineDimExpr) and extents.setdefault(expr.position, extent) != extent:
                    raise ReplayError(f"dim {expr.position} is {extents[expr.position]} and {extent} long")
        return tuple(extents[dim] for dim in range(len(self._reduced)))

    def _evaluate(self, spread: Sequence[Array], indices: Sequence[Array], counters: Counters) -> list[Array]:
        body = self._body(spread, indices, counters)
        return [body.value(value) for value in self._yields]

    def _body(self, spread: Sequence[Array], indices: Sequence[Array], counters: Counters) -> _Body:
        return _Body(dict(zip(self._block.arguments, spread, strict=True)), indices, counters)

    def _find_combiners(self) -> tuple[_Combined, ...] | None:
        """Finds the op that folds each output; None if the body does more than combine outputs with values that do not
        depend on them."""
        found: list[_Combined] = []
        reduced = {dim for dim, each in enumerate(self._reduced) if each}
        outputs = zip(
            list(self._block.arguments)[self._inputs :], self._yields, self._maps[self._inputs :], strict=True
        )
        for accumulator, result, exprs in outputs:
            if reduced <= {expr.position for expr in exprs if isinstance(expr, ir.AffineDimExpr)}:
                found.append(_Combined("", result, _element(result.type)))
                continue
            if isinstance(result, ir.BlockArgument) or result.owner.name not in COMBINERS:
                return None
            operands = list(result.owner.operands)
            if accumulator not in operands or any(len(list(each.uses)) != 1 for each in (accumulator, result)):
                return None
            value = operands[1] if operands[0] == accumulator else operands[0]
            found.append(_Combined(result.owner.name, value, _element(result.type)))
        return tuple(found)

    def _fold(
        self, combined: Sequence[_Combined], spread: Sequence[Array], space: tuple[int, ...], counters: Counters
    ) -> list[Array]:
        body = self._body(spread, list(map(_axis_index(space), range(len(space)))), counters)
        values: list[Array] = []
        for output, initial in zip(combined, spread[self._inputs :], strict=True):
            if not output.combiner:
                values.append(body.value(output.value))
                continue
            combine = COMBINERS[output.combiner]
            source = None if isinstance(output.value, ir.BlockArgument) else output.value.owner
            if combine is np.add and source is not None and source.name in _PRODUCTS:
                left, right = (body.value(operand) for operand in source.operands)
                total = _sum_of_products(left, right, self._reduced, space)
            else:
                axes = tuple(dim for dim, reduced in enumerate(self._reduced) if reduced)
                total = combine.reduce(_stretched(body.value(output.value), self._reduced, space), axes, keepdims=True)
            values.append(output.element.rounded(combine(initial, total)))
        return values

    def _walk(self, spread: Sequence[Array], space: tuple[int, ...], counters: Counters) -> list[Array]:
        """Reduces point by point, in order: the results of each point are the accumulators of the next."""
        inputs, accumulators = list(spread[: self._inputs]), list(spread[self._inputs :])
        for point in np.ndindex(
            *(extent if reduced else 1 for extent, reduced in zip(space, self._reduced, strict=True))
        ):
            here = [
                np.asarray(at) if reduced else _axis_index(space)(dim)
                for dim, (at, reduced) in enumerate(zip(point, self._reduced, strict=True))
            ]
            accumulators = self._evaluate(
                [*(self._at(array, point) for array in inputs), *accumulators], here, counters
            )
        return accumulators

    def _at(self, array: Array, point: tuple[int, ...]) -> Array:
        """The part of an operand at one point of the reduced dims, which have an extent of one in it."""
        cut = [
            slice(at, at + 1) if reduced and extent > 1 else slice(None)
            for at, reduced, extent in zip(point, self._reduced, array.shape, strict=True)
        ]
        return array[tuple(cut)]


class AccessLoop:
    """A loop that loads, computes and stores single elements, executed for all its iterations at once.

    A body with branches such as `scf.if`, or with loop-carried values, is refused: for these, executing all iterations
    at once would be wrong.
    """

    def __init__(self, module: ir.Module, operation: ir.Operation) -> None:
        self._module = module  # keeps the op alive
        self._operation = operation
        self._accesses = _accesses(operation)

    @property
    def elements(self) -> tuple[Element, ...]:
        """The element type of each load and store, in their order."""
        return tuple(_element(_accessed(op).element_type) for op in self._accesses)

    def execute(self, tiles: Sequence[Array], counters: Counters) -> list[Array]:
        """Returns the values of each store in all iterations; `tiles` has the elements that each access finds."""
        block = self._operation.regions[0].blocks[0]
        if len(list(self._operation.results)) or any(len(list(op.operation.regions)) for op in block.operations):
            raise ReplayError("replay cannot execute a loop of accesses with branches or with loop-carried values yet")
        known = {block.arguments[0]: self._steps(len(tiles[0]), counters)}
        for op, tile in zip(self._accesses, tiles, strict=True):
            if op.name == "memref.load":
                known[op.results[0]] = tile
        body = _Body(known, (), counters)
        with np.errstate(all="ignore"):
            values = [body.value(op.operands[0]) for op in self._accesses if op.name == "memref.store"]
        return [np.broadcast_to(value, tiles[0].shape) for value in values]

    def _steps(self, count: int, counters: Counters) -> Array:
        low, step = (_scalar(self._operation.operands[place], counters) for place in (0, 2))
        return low + step * np.arange(count)


def _accesses(loop: ir.Operation) -> list[ir.Operation]:
    inner = [op.operation for op in loop.regions[0].blocks[0].operations]
    return [op for op in inner if op.name in ("memref.load", "memref.store")]


def _accessed(access: ir.Operation) -> ir.MemRefType:
    return ir.MemRefType(access.operands[0 if access.name == "memref.load" else 1].type)


class _Body:
    """The values of a linalg body on whole arrays, each computed at its first use."""

    def __init__(self, known: dict[ir.Value, Array], indices: Sequence[Array], counters: Counters) -> None:
        self._known, self._indices, self._counters = known, indices, counters
        self._block = next(iter(known)).owner if known else None

    def value(self, value: ir.Value) -> Array:
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: ir.Value) -> Array:
        if isinstance(value, ir.BlockArgument) or value.owner.operation.block != self._block:
            return np.asarray(_scalar(value, self._counters))
        operation = value.owner.operation
        if operation.name == "linalg.index":
            return self._indices[ir.IntegerAttr(operation.attributes["dim"]).value]
        return _apply(operation, [self.value(operand) for operand in operation.operands])


def _apply(operation: ir.Operation, operands: list[Array]) -> Array:
    """The result of an arith, math or affine op for these operands, rounded to its result type."""
    element, name = _element(operation.results[0].type), operation.name
    if name == "arith.constant":
        return np.asarray(operation.attributes["value"].value, element.values)
    if name in ("affine.apply", "affine.min", "affine.max"):
        choices = [np.asarray(made(operands)) for made in compile_map(operation)]  # type: ignore[arg-type]
        return (np.maximum if name == "affine.max" else np.minimum).reduce(np.broadcast_arrays(*choices))
    if name == "arith.bitcast":
        return operands[0].view(element.values)
    if name == "arith.trunci" and element.name == "i1":
        return (operands[0] & 1).astype(np.bool_)
    return element.rounded(_function(operation)(*operands))


def _function(operation: ir.Operation) -> Function:
    name = operation.name
    if name in ("arith.cmpf", "arith.cmpi"):
        table = FLOAT_COMPARISONS if name == "arith.cmpf" else INTEGER_COMPARISONS
        return table[ir.IntegerAttr(operation.attributes["predicate"]).value]
    if name not in FUNCTIONS:
        raise ReplayError(
            f"{name} has no meaning in numpy yet: add it to FUNCTIONS in workbench/checking/replay/numpy_elementwise.py"
        )
    return FUNCTIONS[name]


def _scalar(value: ir.Value, counters: Counters) -> Array:
    """A scalar computed outside the op: constants, loop variables and arithmetic on them."""
    if not isinstance(value, ir.BlockArgument):
        operation = value.owner.operation
        return _apply(operation, [_scalar(operand, counters) for operand in operation.operands])
    loop = value.owner.owner.operation
    if loop.name not in ("scf.for", "scf.forall"):
        raise ReplayError(f"the value of an argument of {loop.name} is not known before the kernel runs")
    low, _, step = forall_bounds(loop)[value.arg_number] if loop.name == "scf.forall" else loop_bounds(loop)
    return np.asarray(low + step * counters[sum(map(_counters, _parents(loop))) + value.arg_number], np.int64)


def _counters(loop: ir.Operation) -> int:
    """The number of counters that a loop has in an instruction's iteration."""
    return len(forall_bounds(loop)) if loop.name == "scf.forall" else int(loop.name == "scf.for")


def _parents(operation: ir.Operation) -> Iterator[ir.Operation]:
    parent = operation.parent
    while parent is not None:
        yield parent.operation
        parent = parent.operation.parent


def _element(kind: ir.Type) -> Element:
    name = str(kind)
    if name not in ELEMENTS:
        raise ReplayError(f"elements of type {name} are not known: expected one of {', '.join(ELEMENTS)}")
    return ELEMENTS[name]


def _is_memref(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _with_unit_axes(tile: Array, axes: Sequence[int | None]) -> Array:
    """Returns the tile with all axes of its memref: a box of more than five axes leaves out those of one element."""
    if tile.ndim == len(axes):
        return tile
    fixed = sum(extent not in (1, None) for extent in axes)
    if tile.ndim not in (fixed, fixed + axes.count(None)):
        raise ReplayError(f"an operand of shape {list(tile.shape)} does not tell which of {list(axes)} it leaves out")
    kept = iter(tile.shape)
    units = (1, None) if tile.ndim == fixed else (1,)
    return tile.reshape([1 if extent in units else next(kept) for extent in axes])


def _axis_index(space: tuple[int, ...]) -> Callable[[int], Array]:
    """Returns a function from a dim to the dim's index values, lying along its axis."""
    return lambda dim: np.arange(space[dim]).reshape([-1 if axis == dim else 1 for axis in range(len(space))])


def _spread(array: Array, exprs: Sequence[ir.AffineExpr], space: tuple[int, ...]) -> Array:
    """An operand over the iteration space, with an extent of one along dims in which it does not vary."""
    dims = [expr.position for expr in exprs if isinstance(expr, ir.AffineDimExpr)]
    if len(dims) == len(exprs) and len(set(dims)) == len(dims):
        ordered = array.transpose(sorted(range(len(dims)), key=dims.__getitem__))
        return ordered[tuple(slice(None) if dim in dims else None for dim in range(len(space)))]
    grid = list(map(_axis_index(space), range(len(space))))
    return array[tuple(np.asarray(compile_expr(expr)(grid)) for expr in exprs)].reshape(  # type: ignore[arg-type]
        np.broadcast_shapes((1,) * len(space), *(np.shape(compile_expr(expr)(grid)) for expr in exprs))  # type: ignore[arg-type]
    )


def _lay_back(value: Array, shape: tuple[int, ...], exprs: Sequence[ir.AffineExpr], space: tuple[int, ...]) -> Array:
    """The contents of an output from its values over the space, in which reduced dims have an extent of one."""
    dims = [expr.position for expr in exprs if isinstance(expr, ir.AffineDimExpr)]
    others = [extent for extent, expr in zip(shape, exprs, strict=True) if not isinstance(expr, ir.AffineDimExpr)]
    if len(set(dims)) != len(dims) or any(extent != 1 for extent in others):
        raise ReplayError(f"an output at {', '.join(map(str, exprs))} is written more than once a point")
    full = np.broadcast_to(value, [space[dim] if dim in dims else 1 for dim in range(len(space))])
    kept = full.reshape([space[dim] for dim in sorted(dims)])
    return kept.transpose(np.argsort(np.argsort(dims))).reshape(shape)


def _stretched(value: Array, reduced: Sequence[bool], space: tuple[int, ...]) -> Array:
    """The value repeated along reduced dims in which it does not vary, because each point adds it."""
    value = _of_rank(value, len(space))
    return np.broadcast_to(value, [space[d] if reduced[d] else value.shape[d] for d in range(len(space))])


def _of_rank(value: Array, rank: int) -> Array:
    """The value with as many axes as the space; a constant has none before."""
    return value.reshape((1,) * (rank - value.ndim) + value.shape)


def _sum_of_products(left: Array, right: Array, reduced: Sequence[bool], space: tuple[int, ...]) -> Array:
    """`sum(left * right)` over the reduced dims, without making the product of all points."""
    rank = len(space)
    right = _of_rank(right, rank)
    left = _stretched(left, [r and right.shape[d] == 1 for d, r in enumerate(reduced)], space)
    terms: list[Array | list[int]] = []
    for array in (left, right):
        dims = [dim for dim in range(rank) if array.shape[dim] > 1]
        terms += [array.reshape([array.shape[dim] for dim in dims]), dims]
    kept = [dim for dim in range(rank) if not reduced[dim] and max(left.shape[dim], right.shape[dim]) > 1]
    total = np.einsum(*terms, kept, optimize=True)  # type: ignore[call-overload]
    return np.asarray(total).reshape([space[dim] if dim in kept else 1 for dim in range(rank)])
