"""Joins products that share an operand into one op for tiling, so that each tile of the operand is loaded once.

The joined op has a result for each product. No array computes such an op: after tiling it is split again, and the
products follow each other in its loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from workbench.mlir.bindings import Value, block_of, block_owning, maker, owner_of, replace_op, segments
from workbench.mlir.indexed_moves import body_slice
from workbench.mlir.linalg_loops import indexing_maps, iterators, role_of
from workbench.mlir.linalg_ops import clone_into, end_body, generic_with_body, linalg_ops
from workbench.mlir.named_dims import keep_id
from workbench.scheduling.passes.kernel_pass import module_pass


def holds_products(module: ir.Module) -> bool:
    """True if a kernel has several products, each an op of its own."""
    return len(_products(module)) > 1


def joins_products(module: ir.Module) -> bool:
    """True if an op of the kernel is several joined products."""
    return bool(_joined(module))


@module_pass("npu-join-products")
def join_products(module: ir.Module) -> None:
    """Joins all products into one op; its inputs are the left operands, then the right ones, the shared one once."""
    products = _products(module)
    count, walks = len(products), indexing_maps(products[0])
    left, right = ([each.operands[place] for each in products] for place in (0, 1))
    outs = [each.operands[2] for each in products]
    if len({*left}) == 1:
        inputs, maps = [left[0], *right], [walks[0], *[walks[1]] * count]
        places = [(0, 1 + number) for number in range(count)]
    else:
        inputs, maps = [*left, right[0]], [*[walks[0]] * count, walks[1]]
        places = [(number, count) for number in range(count)]
    with ir.Location.fused([each.location for each in products]), ir.InsertionPoint(_before_readers(products)):
        walks = [*maps, *[walks[2]] * count]
        joined, body = generic_with_body(inputs, outs, walks, iterators(products[0]))
    sums: list[Value] = []
    for number, product in enumerate(products):
        block, read = product.regions[0].blocks[0], (*places[number], len(inputs) + number)
        known = dict(zip(block.arguments, (body.arguments[place] for place in read), strict=True))
        *ops, end = [each.operation for each in block.operations]
        clone_into(body, ops, known)
        sums.append(known[end.operands[0]])
        _place(sums[-1], product.location)
        replace_op(product, joined.results[number])
    with joined.location:
        end_body(body, sums)


@module_pass("npu-products-apart")
def take_products_apart(module: ir.Module) -> None:
    """Splits each joined op into one op for each product, at its place."""
    for op in _joined(module):
        _take_apart(op)


def _products(module: ir.Module) -> list[ir.Operation]:
    return [op for op in linalg_ops(module) if role_of(op) == "contraction"]


def _joined(module: ir.Module) -> list[ir.Operation]:
    return [op for op in _products(module) if len(op.results) > 1]


def _before_readers(products: Sequence[ir.Operation]) -> ir.Operation:
    """Moves every op that depends on a product behind the last product; returns the last product."""
    last, made = products[-1], {value for each in products for value in each.results}
    behind = last
    for each in list(block_of(last).operations):
        op = each.operation
        if op == last:
            break
        if made.intersection(op.operands):
            made.update(op.results)
            op.move_after(behind)
            behind = op
    return last


def _take_apart(op: ir.Operation) -> None:
    block, maps, inputs = op.regions[0].blocks[0], indexing_maps(op), segments(op)[0]
    *_, end = [each.operation for each in block.operations]
    for number, (total, result) in enumerate(zip(end.operands, op.results, strict=True)):
        needed = body_slice([total], block)
        ops = [each.operation for each in block.operations if each.operation in needed]
        used = {value for each in ops for value in each.operands}
        read = [place for place in range(inputs) if block.arguments[place] in used] + [inputs + number]
        operands = [op.operands[place] for place in read]
        with ir.InsertionPoint(op), ops[-1].location:
            walks = [maps[place] for place in read]
            product, body = generic_with_body(operands[:-1], operands[-1:], walks, iterators(op))
            known: dict[Value, Value] = dict(
                zip([block.arguments[place] for place in read], body.arguments, strict=True)
            )
            clone_into(body, ops, known)
            end_body(body, [known[total]])
        _place(_start(operands[-1]), product.location)
        keep_id(op, product)
        result.replace_all_uses_with(product.results[0])
    op.erase()


def _start(value: Value) -> Value:
    """The initial value of a sum, outside the loops that carry it."""
    while maker(value) is None and owner_of(block := block_owning(value)).name == "scf.for":
        bounds = 3
        value = owner_of(block).operands[bounds + ir.BlockArgument(value).arg_number - 1]
    return value


def _place(value: Value, location: ir.Location) -> None:
    """Gives the op that makes a value the location, and so the node, of a product."""
    op = maker(value)
    if op is not None:
        op.location = location
