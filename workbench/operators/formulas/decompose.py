"""Decomposing a node into ATen calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from workbench.ir import Node, Ref, TensorType
from workbench.ir.value_names import with_names
from workbench.operators.aten.automatic_route import POINTWISE, class_of
from workbench.operators.aten.overload_schema import schema_of
from workbench.operators.aten.run_node import call
from workbench.operators.formulas import FORMULAS
from workbench.operators.formulas.formula_builder import Builder
from workbench.operators.formulas.promotion import in_one_type
from workbench.operators.tensors.element_types import to_dtype
from workbench.operators.tensors.torch_literals import from_arg


def expand(node: Node, types: dict[str, TensorType], taken: set[str]) -> tuple[Node, ...] | None:
    """The nodes into which `node` decomposes; the results keep their names and types. None if the node stays.

    A formula for several results returns one reference each, and None for a result that it does not compute.
    """
    builder = Builder(node.origin, types, taken)
    args = [from_arg(arg, Ref) for arg in node.args]
    kwargs = {key: from_arg(arg, Ref) for key, arg in node.kwargs.items()}
    formula = FORMULAS.get(node.op)
    found = of_numbers(builder, node) or in_a_row(builder, node, args, kwargs)
    if found is None and formula is not None:
        found = formula(builder, *args, **kwargs)
    if found is None:
        found = in_one_type(builder, node.op, args, kwargs, to_dtype(types[node.results[0]].dtype))
    if found is None:
        return None
    names: dict[str, str] = {}
    refs = cast("tuple[Ref | None, ...]", found if isinstance(found, tuple) else (found,))
    for ref, result in zip(refs, node.results, strict=False):
        if ref is not None:
            names[_own(builder, ref, types[result].dtype, names).value] = result
    for value in names:
        del types[value]
    return tuple(renamed(child, names) for child in builder.nodes)


def of_numbers(b: Builder, node: Node) -> Ref | None:
    """Computes a pointwise call that takes numbers and no tensor, and records its result as a constant. None for other
    calls."""
    if node.operands or node.op not in POINTWISE:
        return None
    (result,) = call(node, dict[str, object]().__getitem__)
    return b("aten.full.default", [], result.item(), dtype=result.dtype)


def in_a_row(b: Builder, node: Node, args: list[object], kwargs: dict[str, object]) -> tuple[Ref, ...] | None:
    """Gives the operands of an op that runs along a dim, if they have no dims, a dim of 1. None for all other calls."""
    result = [b.type(Ref(value)) for value in node.results]
    first = b.type(Ref(node.operands[0])) if node.operands else None
    if first is None or any(kind.shape for kind in (first, *result)) or class_of(node.op) in ("view", "assembly"):
        return None
    if not any(each.name in ("dim", "dims") for each in schema_of(node.op).arguments):
        return None
    names = [each.name for each in schema_of(node.op).arguments]
    rows = [
        b("aten.unsqueeze.default", arg, 0) if isinstance(arg, Ref) and not b.rank(arg) and name != "value" else arg
        for name, arg in zip(names, args, strict=False)
    ]
    return tuple(b("aten.view.default", each, []) for each in b.several(node.op, *rows, **kwargs))


def _own(builder: Builder, ref: Ref, dtype: str, given: Mapping[str, str]) -> Ref:
    """The value as `dtype`, under a name of its own: through an alias if the value is an operand or already stands for
    a result."""
    if builder.type(ref).dtype != dtype:
        ref = builder("aten._to_copy.default", ref, dtype=to_dtype(dtype))
    if ref.value in given or all(ref.value not in node.results for node in builder.nodes):
        ref = builder("aten.alias.default", ref)
    return ref


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """`node` with renamed operands and results; the node is named after its first result."""
    results = tuple(names.get(result, result) for result in node.results)
    return replace(reading(node, names), name=results[0], results=results)


def reading(node: Node, names: Mapping[str, str]) -> Node:
    """`node` with renamed operands."""
    every = {value: names.get(value, value) for value in node.operands}
    args = tuple(with_names(arg, every) for arg in node.args)
    return replace(node, args=args, kwargs={key: with_names(arg, every) for key, arg in node.kwargs.items()})
