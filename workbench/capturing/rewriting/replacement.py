"""The node that takes the place of a pattern's nodes."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.capturing.rewriting.pattern_graph import Given, PatternGraph, Refused
from workbench.ir import Arg, Literal, Node, Origin, Ref, TensorType
from workbench.operators.aten.overload_schema import schema_of
from workbench.operators.formulas.formula_builder import infer
from workbench.operators.tensors.torch_literals import to_arg


def replacement(op: str, bound: Mapping[str, Ref | Literal], results: tuple[str, ...], origin: Origin) -> Node:
    """The call of a pattern's op with what its parameters, in their order, stand for."""
    args, kwargs = list[Arg](), dict[str, Arg]()
    for argument, name in zip(schema_of(op).arguments, bound, strict=False):
        if argument.kwarg_only:
            kwargs[argument.name] = bound[name]
        else:
            args.append(bound[name])
    return Node(results[0], op, tuple(args), kwargs, results, origin)


def check_replacement(op: str, example: Given, graph: PatternGraph, refused: Refused) -> None:
    """Raises if the op cannot be called with the pattern's parameters, or gives other results."""
    schema, names = schema_of(op), list(example)
    if schema.is_mutable:
        raise refused(f"{op} changes its arguments in place, so it cannot take the place of ops")
    missing = [each.name for each in schema.arguments[len(names) :] if not each.has_default_value()]
    if len(schema.arguments) < len(names) or missing:
        raise refused(
            f"{op} takes {', '.join(each.name for each in schema.arguments) or 'nothing'}, and is called with "
            f"{', '.join(names)}: the pattern's parameters in their order"
        )
    value_of = {name: value for value, name in graph.parameter_of.items()}
    bound: dict[str, Ref | Literal] = {}
    for name, given in example.items():
        literal = None if isinstance(given, TensorType) else to_arg(given)
        bound[name] = literal if isinstance(literal, Literal) else Ref(value_of[name])
    results = tuple(f"result{place}" for place in range(len(graph.outputs)))
    node = replacement(op, bound, results, Origin(results[0], op))
    try:
        made = infer(node, graph.graph.types)
    except Exception as error:  # any exception of the user's fake, or PyTorch's about the arguments
        raise refused(
            f"{op} cannot be called on tensors without data with the pattern's example: "
            f"{type(error).__name__}: {error}. An op of one's own needs register_fake"
        ) from None
    if difference := difference_of(made, tuple(graph.graph.types[value] for value in graph.outputs)):
        raise refused(f"{op} {difference}, for the pattern's example")


def difference_of(made: tuple[TensorType, ...], wanted: tuple[TensorType, ...]) -> str:
    """How the results of an op differ from those of the nodes that it replaces; empty if they do not."""
    if len(made) != len(wanted):
        return f"gives {len(made)} results, the pattern's function {len(wanted)}"
    for place, (ours, theirs) in enumerate(zip(made, wanted, strict=True)):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"gives {ours} as result {place}, the pattern's function {theirs}"
    return ""
