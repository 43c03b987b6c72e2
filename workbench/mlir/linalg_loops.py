"""The loops of one linalg op: the axes that they walk, the loops of a product, and the loops that move a window.

An operand's axis is indexed by a sum of loops. The input of a convolution or pool has axes `s*o + d*w`: `o` walks the
results, `w` the window over the input. At a fixed point of the window the op is a plain one: a matrix product in a
convolution, arithmetic on equal shapes in a pool or a depthwise convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from torch_mlir import ir

from workbench.mlir.bindings import Value, maker, segments

E = TypeVar("E")

Terms: TypeAlias = "tuple[tuple[int, int], ...]"
"""A sum of loops, each with its factor."""

_CASTS = ("arith.extf", "arith.extsi", "arith.extui", "arith.truncf", "arith.trunci", "arith.sitofp", "arith.uitofp")


def indexing_maps(op: ir.Operation) -> list[ir.AffineMap]:
    from torch_mlir.dialects import linalg

    maps: Any = op.attributes["indexing_maps"] if "indexing_maps" in op.attributes else linalg.get_indexing_maps(op)
    return [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(maps)]


def iterators(op: ir.Operation) -> list[str]:
    """The kind of each loop of the op: parallel or reduction."""
    if "iterator_types" in op.attributes:
        return [
            "reduction" if "reduction" in str(each) else "parallel"
            for each in ir.ArrayAttr(op.attributes["iterator_types"])
        ]
    maps = indexing_maps(op)
    written = {axis for axis in axis_loops(maps[-1]) if axis is not None}
    return ["parallel" if loop in written else "reduction" for loop in range(maps[-1].n_dims)]


def axis_loops(indexing: ir.AffineMap) -> list[int | None]:
    """For each axis of an operand, the loop that walks it; None if its index is no plain loop."""
    return [expr.position if isinstance(expr, ir.AffineDimExpr) else None for expr in indexing.results]


def loop_extents(op: ir.Operation, shape_of: Callable[[Value], Sequence[E]]) -> dict[int, E]:
    """The extent of each loop, from the first axis that the loop alone walks; `shape_of` returns an operand's extents.

    Operands that are numbers have no axis and are skipped.
    """
    found = dict[int, E]()
    for value, indexing in zip(op.operands, indexing_maps(op), strict=True):
        if isinstance(value.type, ir.ShapedType):
            for extent, loop in zip(shape_of(value), axis_loops(indexing), strict=True):
                if loop is not None:
                    found.setdefault(loop, extent)
    return found


def axis_terms(indexing: ir.AffineMap) -> list[Terms]:
    """For each axis of an operand, the loops that index it, with their factors; constants are left out."""
    return [tuple(_terms(expr).items()) for expr in indexing.results]


def _terms(expr: ir.AffineExpr, factor: int = 1) -> dict[int, int]:
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: factor}
    if isinstance(expr, ir.AffineAddExpr):
        left, right = _terms(expr.lhs, factor), _terms(expr.rhs, factor)
        return left | {loop: left.get(loop, 0) + each for loop, each in right.items()}
    if isinstance(expr, ir.AffineMulExpr) and isinstance(expr.rhs, ir.AffineConstantExpr):
        return _terms(expr.lhs, factor * expr.rhs.value)
    return {}


def is_opened(op: ir.Operation) -> bool:
    """True if every axis of every operand is indexed by one plain loop or a constant."""
    return all(
        isinstance(expr, ir.AffineDimExpr | ir.AffineConstantExpr)
        for each in indexing_maps(op)
        for expr in each.results
    )


def window_loops(op: ir.Operation) -> tuple[int, ...]:
    """The loops that move a window: reduced ones that share an axis of an input with a loop over results."""
    kinds = iterators(op)
    shared = {
        loop
        for indexing in indexing_maps(op)
        for terms in axis_terms(indexing)
        for loop, _ in terms
        if len(terms) > 1 and kinds[loop] == "reduction"
    }
    return tuple(sorted(shared))


def role_of(op: ir.Operation) -> str:
    """The role of a linalg op: fill, copy, contraction, reduction or elementwise."""
    if op.name in ("linalg.fill", "linalg.copy"):
        return op.name.removeprefix("linalg.")
    if product_loops(op):
        return "contraction"
    return "reduction" if "reduction" in iterators(op) else "elementwise"


def product_loops(op: ir.Operation) -> dict[str, list[int]]:
    """The loops over batch, m, n and k of a matrix product, at a fixed point of its window; empty for other ops."""
    from torch_mlir.dialects import linalg

    groups = _plain_product(op) if linalg.isa_contraction_op(op) else _joined_product(op) or _windowed_product(op)
    return groups if groups and groups["k"] and (groups["m"] or groups["n"]) else {}


def _plain_product(op: ir.Operation) -> dict[str, list[int]]:
    from torch_mlir.dialects import linalg

    found: Any = linalg.infer_contraction_dimensions(op)
    if found is None:
        return {}
    groups = {"b": found.batch, "m": found.m, "n": found.n, "k": found.k}
    return {letter: [int(loop) for loop in loops] for letter, loops in groups.items()}


def _joined_product(op: ir.Operation) -> dict[str, list[int]]:
    """The loops of an op that `passes/join_products.py` made of several products with a shared operand."""
    if op.name != "linalg.generic" or len(op.results) < 2 or "reduction" not in iterators(op) or not is_opened(op):
        return {}
    (inputs, outs), maps = segments(op), indexing_maps(op)
    given = {*list(op.regions[0].blocks[0].arguments)[:inputs]}
    factors = [_factors(op, number) for number in range(outs)]
    if inputs != outs + 1 or not all(each and each <= given for each in factors):
        return {}
    return _groups(*({loop for loop in axis_loops(maps[place]) if loop is not None} for place in (0, inputs - 1, -1)))


def _windowed_product(op: ir.Operation) -> dict[str, list[int]]:
    if is_opened(op) or segments(op) != [2, 1] or not _multiplies_and_adds(op):
        return {}
    left, right, out = (
        {loop for terms in axis_terms(each) for loop, _ in terms} - {*window_loops(op)} for each in indexing_maps(op)
    )
    return _groups(left, right, out)


def _groups(left: set[int], right: set[int], out: set[int]) -> dict[str, list[int]]:
    """The loops of a product by kind, from the loops of its operands; empty if a loop belongs to one operand alone."""
    groups = {"b": left & right & out, "m": left & out - right, "n": right & out - left, "k": left & right - out}
    covered = set[int]().union(*groups.values()) == left | right | out
    return {letter: sorted(loops) for letter, loops in groups.items()} if covered else {}


def _multiplies_and_adds(op: ir.Operation) -> bool:
    """True if the body adds the product of its two inputs to its output, ignoring conversions."""
    left, right, _ = op.regions[0].blocks[0].arguments
    return _factors(op, 0) == {left, right}


def _factors(op: ir.Operation, number: int) -> set[Value]:
    """The values whose product the body adds to output `number`, ignoring conversions; empty if it does anything
    else."""
    block = op.regions[0].blocks[0]
    old = block.arguments[segments(op)[0] + number]
    added = maker(_unconverted(list(block.operations)[-1].operation.operands[number]))
    if added is None or added.name not in ("arith.addf", "arith.addi") or old not in list(added.operands):
        return set()
    (summand,) = [each for each in added.operands if each != old] or [old]
    product = maker(_unconverted(summand))
    if product is None or product.name not in ("arith.mulf", "arith.muli"):
        return set()
    return {_unconverted(each) for each in product.operands}


def _unconverted(value: Value) -> Value:
    op = maker(value)
    return _unconverted(op.operands[0]) if op is not None and op.name in _CASTS else value


def loop_names(op: ir.Operation) -> dict[int, str]:
    """The usual names of an op's loops: b, m, n, k of a product; b, g, c, oc, ic, oh, ow, kh, kw with a window."""
    if is_opened(op):
        return _numbered({letter: loops for letter, loops in product_loops(op).items()})
    kinds, maps = iterators(op), indexing_maps(op)
    read = axis_terms(maps[0])
    place = _space_names(read)
    named: dict[str, list[int]] = {}
    for axis, terms in enumerate(read):
        for loop, _ in terms:
            if axis in place:
                named.setdefault(("o" if kinds[loop] == "parallel" else "k") + place[axis], []).append(loop)
    known = {loop for loops in named.values() for loop in loops}
    inputs = [{loop for terms in axis_terms(each) for loop, _ in terms} for each in maps[: segments(op)[0]]]
    weights = set[int]().union(*inputs[1:])
    product = product_loops(op)
    rest = [loop for loop in range(len(kinds)) if loop not in known]
    both = [loop for loop in rest if kinds[loop] == "parallel" and loop in inputs[0] and loop in weights]
    images = [loop for loop in rest if kinds[loop] == "parallel" and loop in inputs[0] and loop not in weights]
    channels = images[-1:] if not product and not both and len(images) > 0 and not weights - known else []
    named |= {
        "b": [loop for loop in images if loop not in channels],
        "g" if product else "c": both + channels,
        "oc": [loop for loop in rest if kinds[loop] == "parallel" and loop not in inputs[0]],
        "ic": [loop for loop in rest if kinds[loop] == "reduction"],
    }
    return _numbered(named)


def _space_names(read: list[Terms]) -> dict[int, str]:
    """The axes of an input over which a window moves, named d, h and w; the last is w.

    If there is only one such axis, all axes after it count too: a window of one column moves only over rows.
    """
    moved = [axis for axis, terms in enumerate(read) if len(terms) > 1 or any(factor > 1 for _, factor in terms)]
    if len(moved) == 1:
        moved = list(range(moved[0], len(read)))
    return dict(zip(moved, "dhw"[-len(moved) :], strict=True)) if 0 < len(moved) <= 3 else {}


def _numbered(named: dict[str, list[int]]) -> dict[int, str]:
    """Loop -> name; several loops with one name are numbered."""
    return {
        loop: name if len(loops) == 1 else f"{name}{position}"
        for name, loops in named.items()
        for position, loop in enumerate(loops)
    }
