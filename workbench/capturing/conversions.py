"""Conversions: registered functions that record a captured node as something else.

By default every overload is recorded from its schema, custom ones too. A conversion records a node as other ops, or
with other arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from workbench.ground import errors
from workbench.ir import Node, Ref, TensorType
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.aten.registry import Registration
from workbench.operators.formulas.decompose import renamed
from workbench.operators.formulas.formula_builder import Builder
from workbench.operators.tensors.torch_literals import from_arg


@dataclass(frozen=True)
class NodeInfo:
    """A captured node, as a conversion receives it."""

    node: Node
    """The node as recorded by default. A conversion may return the node, unchanged or changed, to have it recorded."""
    types: Mapping[str, TensorType]
    """The type of every value so far, the node's own results included."""
    call: Builder
    """Records a call of an ATen op, and gives the reference to its result: `info.call("aten.mul.Tensor", x, 2.0)`."""

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The tensors that the node reads, each once, in order."""
        return tuple(Ref(value) for value in self.node.operands)

    @property
    def arguments(self) -> dict[str, object]:
        """Every argument by its name in the schema: tensors as references, all else as Python values."""
        return {name: from_arg(arg, Ref) for name, arg in arguments(self.node).items()}

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        return tuple(self.types[value] for value in self.node.results)


def convert(node: Node, types: dict[str, TensorType], taken: set[str], conversion: Registration) -> tuple[Node, ...]:
    """Returns the nodes that a conversion records in place of `node`; its results keep their names and types."""
    who = f"the conversion of {node.op} at {conversion.owner.place}, for the call at {node.origin.place},"
    builder = Builder(node.origin, types, taken)
    try:
        made = conversion.value(NodeInfo(node, types, builder))
    except (Exception, SystemExit) as error:  # of the conversion's own code; the error names the node
        raise errors.ConversionFailed(f"{who} raised {type(error).__name__}: {error}") from error
    if isinstance(made, Node):
        if made.results != node.results:
            raise errors.ConversionResult(f"{who} returned a node that makes {made.results}; expected {node.results}")
        return (replace(made, name=node.name),)
    parts = list(cast("list[object]", made)) if isinstance(made, (list, tuple)) else [made]
    refs = [part for part in parts if isinstance(part, Ref)]
    if len(refs) != len(parts) or len(refs) != len(node.results):
        raise errors.ConversionResult(
            f"{who} returned {[type(part).__name__ for part in parts]}; expected info.node, or a reference that "
            f"info.call(...) gave for each of its {len(node.results)} result(s)"
        )
    return _in_place_of(node, refs, builder, types, who)


def _in_place_of(
    node: Node, refs: list[Ref], builder: Builder, types: dict[str, TensorType], who: str
) -> tuple[Node, ...]:
    names: dict[str, str] = {}
    own = {value for each in builder.nodes for value in each.results}
    for ref, result in zip(refs, node.results, strict=True):
        found, expected = builder.type(ref), types[result]
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise errors.ConversionResult(f"{who} gave {found} for {result}; expected {expected}")
        if ref.value not in own or ref.value in names:  # an operand, or one result twice: it needs a name of its own
            ref = builder("aten.alias.default", ref)
        names[ref.value] = result
        types[result] = types.pop(ref.value)
    nodes = (renamed(each, names) for each in builder.nodes)
    return tuple(replace(each, origin=replace(node.origin, node=each.name)) for each in nodes)
