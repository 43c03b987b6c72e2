"""Patterns: several nodes of a graph become one node of a custom op.

A pattern is a plain function of torch ops. It is captured like a user's function, once for its example, so that its
nodes are those that a user's call of the same ops has. Its parameters stand for any values: a tensor for tensors of any
shape and element type, a number for any number.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import torch

from workbench.capturing.rewriting.pattern_graph import Given, PatternGraph, Refused, captured_pattern
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.environment.owners import Owner
from workbench.ground.environment.registered import REWRITES
from workbench.ground.environment.turns import compiling
from workbench.ground.errors import BadPattern, BadRegistration, PatternFailed, UnknownOverload, WorkbenchError
from workbench.ir import Arg, Literal, Node, Origin, Ref, TensorType
from workbench.operators.aten.overload_names import overloads
from workbench.operators.aten.overload_schema import schema_of
from workbench.operators.aten.registry import yes_or_no
from workbench.operators.formulas.formula_builder import infer
from workbench.operators.tensors.torch_literals import to_arg, to_type

F = TypeVar("F", bound=Callable[..., object])


class Pattern:
    """A registered pattern. Calling it calls its function."""

    def __init__(self, name: str, function: Callable[..., object], op: object, example: object, takes: object) -> None:
        functools.update_wrapper(self, function, updated=())  # attributes of a callable object would hide our own
        self.name, self.function = name, function
        self.place = Owner.of(function).place
        self.op = self._one_overload(op)
        if takes is not None and not callable(takes):
            raise self.refused(f"takes={takes!r} is no function of what the parameters stand for")
        self._takes = cast("Callable[[Given], object] | None", takes)
        self.example = self._parameters(example)
        self._made: dict[tuple[object, ...], PatternGraph | str] = {}
        with compiling():
            self.graph = captured_pattern(function, self.example, self.refused)
            check_replacement(self.op, self.example, self.graph, self.refused)

    @property
    def __code__(self) -> object:  # the place of a registration is that of its function
        return getattr(self.function, "__code__", None)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)

    def refused(self, reason: str) -> BadPattern:
        return BadPattern(self.name, self.place, reason)

    def takes(self, bound: Given) -> bool:
        """True if the pattern accepts these tensors and numbers."""
        if self._takes is None:
            return True
        try:
            answer = self._takes(bound)
        except (Exception, SystemExit) as error:  # of the user's own code; the error names the pattern
            raise PatternFailed(
                f"takes= of the pattern {self.name!r} at {self.place} raised {type(error).__name__}: {error}; expected "
                "a function of a mapping from each parameter's name to its tensor type, or to its number, as in "
                "takes=lambda of: of['x'].dtype == 'f32'"
            ) from error
        if (taken := yes_or_no(answer)) is None:
            who = f"takes= of the pattern {self.name!r} at {self.place}"
            raise PatternFailed(f"{who} returned {answer!r:.60}; expected True or False")
        return taken

    def at(self, bound: Given) -> PatternGraph | str:
        """Returns the pattern's graph for these tensors and numbers, or a text that says why there is none. Extents may
        stand in arguments, as in `x.view(x.shape[0], -1)`, so other tensors may make other nodes."""
        given = {name: bound[name] for name in self.example}
        key = tuple(given.values())
        if key not in self._made:
            try:
                self._made[key] = captured_pattern(self.function, given, self.refused)
            except WorkbenchError as error:
                self._made[key] = str(error)
        return self._made[key]

    def _one_overload(self, op: object) -> str:
        try:
            found = overloads(op)
        except UnknownOverload as error:
            raise self.refused(f"op= is wrong: {error}") from None
        if len(found) != 1:
            raise self.refused(f"op={op!r} has the overloads {', '.join(found)}; name one of them")
        return found[0]

    def _parameters(self, example: object) -> Given:
        """Returns the parameters in order, with the example's types and numbers."""
        called = getattr(self.function, "__name__", type(self.function).__name__)
        if inspect.iscoroutinefunction(self.function):
            raise self.refused(f"{called} is async; a pattern must be synchronous")
        try:
            signature = inspect.signature(self.function)
        except ValueError:
            told = f"Python does not tell the parameters of {called}; write a function that calls it"
            raise self.refused(told) from None
        if not isinstance(example, tuple):
            raise self.refused(
                f"example={type(example).__name__} is no tuple; expected a tensor or number for each parameter of "
                f"{called}{signature}, as in example=(torch.empty(4, 8), 1e-6)"
            )
        try:
            bound = signature.bind(*cast("tuple[object, ...]", example))
        except TypeError as error:
            raise self.refused(f"example= does not fit {called}{signature}: {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if not isinstance(value, torch.Tensor | bool | int | float):
                raise self.refused(
                    f"the parameter {name!r} is {type(value).__name__} in the example; the parameters of a pattern are "
                    "tensors and numbers"
                )
        if not any(isinstance(value, torch.Tensor) for value in bound.arguments.values()):
            raise self.refused("it has no tensor among its parameters")
        return {
            name: to_type(value) if isinstance(value, torch.Tensor) else value
            for name, value in bound.arguments.items()
        }


@checks_what_it_is_given
def pattern(
    name: str, *, op: object, example: object, takes: Callable[[Mapping[str, Any]], object] | None = None
) -> Callable[[F], F]:
    """Registers a function of torch ops as the pattern `name`: in later traces, one node of `op` takes the place of the
    function's nodes.

    `op` is called with the function's parameters in their order, and returns its results in their order. `example` has
    a tensor or a number for each parameter: the function is captured with these. Tensors then stand for tensors of any
    shape and element type, and numbers for any number. `takes=` is a function of a mapping from each parameter's name
    to its type or number: if it returns False, the pattern does not match. A later pattern of the same name replaces
    this one.

        @wb.pattern("scaled relu", op=demo.scaled_relu, example=(torch.empty(4, 8), 2.0))
        def scaled_relu(x, scale):
            return torch.relu(x * scale)
    """
    if not name:
        raise BadRegistration("pattern(''): a pattern has a name, by which fusion={'off': [name]} turns it off")

    def register(function: F) -> F:
        if not callable(function):
            raise BadRegistration(f"pattern({name!r}): {function!r:.60} is no function")
        REWRITES.add(name, Pattern(name, function, op, example, takes))
        return function

    return register


def replacement(op: str, bound: Mapping[str, Ref | Literal], results: tuple[str, ...], origin: Origin) -> Node:
    """Returns the call of a pattern's op with the values and numbers of the pattern's parameters, in their order."""
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
    """Says how the results of an op differ from those of the nodes that it replaces; empty if they do not."""
    if len(made) != len(wanted):
        return f"gives {len(made)} results, the pattern's function {len(wanted)}"
    for place, (ours, theirs) in enumerate(zip(made, wanted, strict=True)):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"gives {ours} as result {place}, the pattern's function {theirs}"
    return ""
