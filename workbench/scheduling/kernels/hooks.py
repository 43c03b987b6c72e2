"""Hooks: pointwise neighbours of a template, as the body of one linalg op that the template applies to its tiles."""

from __future__ import annotations

import re

from torch_mlir import ir

from workbench.ir import Hook
from workbench.mlir.bindings import Value, maker
from workbench.mlir.context import run_passes
from workbench.mlir.linalg_ops import copy_for_each_reader, linalg_ops

_NAME = re.compile(r"%([A-Za-z0-9_]+)")


def hook_op(hook: Hook, tile: str, kind: str, rank: int) -> str:
    """The op that applies a hook in place to `tile`, a scratchpad memref of type `kind`."""
    dims = ", ".join(f"d{axis}" for axis in range(rank))
    same = f"affine_map<({dims}) -> ({dims})>"
    parallel = ", ".join(['"parallel"'] * rank)
    return (
        f"linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{parallel}]}}"
        f' ins({tile} : {kind}) outs({tile} : {kind}) {{\n{hook.body}\n}} loc("aten:{hook.origin}":1:0)'
    )


def pointwise_hook(module: ir.Module, place: int, origin: int) -> Hook:
    """The hook of a module whose nodes are all pointwise, over one input with one dim: the body of its fused op."""
    with module.context, ir.Location.unknown():
        _one_op(module)
        (op,) = linalg_ops(module)
        _take_constants_in(op)
        text = str(op)
    prefix = "after_" if place < 0 else f"before{place}_"
    start, end = text.index("^bb0"), text.rindex("}", 0, text.rindex("->"))
    body = _NAME.sub(lambda found: f"%{prefix}{found.group(1)}", text[start:end].rstrip())
    return Hook(place, body.replace("^bb0", f"^{prefix}body"), origin)


def _one_op(module: ir.Module) -> None:
    """Fuses all ops into one; a result with several readers is computed for each of them."""
    run_passes(module, "func.func(linalg-fuse-elementwise-ops),canonicalize,cse")
    for op in reversed(linalg_ops(module)):
        copy_for_each_reader(module, op)
    run_passes(module, "func.func(linalg-fuse-elementwise-ops)")


def _take_constants_in(op: ir.Operation) -> None:
    """Gives the body its own copies of the constants it uses from outside."""
    block = op.regions[0].blocks[0]
    inside = [inner.operation for inner in block.operations]
    copies: dict[Value, Value] = {}
    for inner in inside:
        for position, value in enumerate(inner.operands):
            made = maker(value)
            if made is None or made in inside:
                continue
            assert made.name == "arith.constant", "a pointwise body reads constants only"
            if value not in copies:
                with ir.InsertionPoint(block.operations[0]):
                    copies[value] = made.clone().results[0]
            inner.operands[position] = copies[value]
