"""Origins in MLIR: ids of a kernel's nodes, kept as locations `"aten:<id>"` of ops.

A fused op keeps one location, but each op in its body keeps its own; together they name all origins.
"""

from __future__ import annotations

import re

from torch_mlir import ir

from workbench.mlir.bindings import function_of
from workbench.mlir.context import operations

_ORIGIN = re.compile(r'"aten:(\d+)"')


def origins_of(op: ir.Operation) -> tuple[int, ...]:
    """Origin ids of an op and of everything inside it, ascending."""
    found = {int(each) for inner in operations(op) for each in _ORIGIN.findall(str(inner.location))}
    return tuple(sorted(found))


def origins_in(module: ir.Module) -> frozenset[int]:
    """All origin ids that ops of the kernel's body name; the function itself has no origin."""
    body = function_of(module).regions[0].blocks[0]
    return frozenset(origin for op in body.operations for origin in origins_of(op.operation))


def ops_named(module: ir.Module, origin: int) -> frozenset[str]:
    """Names of the ops whose own location is this origin."""
    body = list(operations(function_of(module)))[1:]
    return frozenset(op.name for op in body if str(origin) in _ORIGIN.findall(str(op.location)))
