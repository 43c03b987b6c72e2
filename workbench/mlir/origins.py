# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Origins in MLIR: kernel-local ids that travel as locations `"aten:<id>"`.

A fused op keeps one location, but the arithmetic in its body keeps its own; together they name all its origins.
"""

from __future__ import annotations

import re

from torch_mlir import ir

_ORIGIN = re.compile(r'"aten:(\d+)"')


def origins_of(op: ir.Operation) -> tuple[int, ...]:
    """Origin ids of an op and of everything inside it, ascending."""
    found = set(map(int, _ORIGIN.findall(str(op.location))))
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found.update(origins_of(inner.operation))
    return tuple(sorted(found))


def origins_in(module: ir.Module) -> frozenset[int]:
    """Every origin id that some op of the module still names."""
    return frozenset(origins_of(module.operation))


def origins_by_line(module: ir.Module, lines: dict[ir.Operation, int]) -> dict[int, tuple[int, ...]]:
    """Origin ids of the op on each line of the printed module."""
    return {line: found for op, line in lines.items() if (found := origins_of(op))}
