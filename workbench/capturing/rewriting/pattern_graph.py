"""The graph of a pattern: the captured graph of its function, with parameters in place of input values and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import TypeAlias

import torch

from workbench.capturing.capture import capture
from workbench.ground.errors import BadPattern, WorkbenchError
from workbench.ir import ASSERTIONS, BREAK, Arg, AtenGraph, Literal, Node, Ref, Sequence, TensorType
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.tensors.element_types import to_dtype
from workbench.operators.tensors.torch_literals import to_literal


@dataclass(frozen=True, slots=True)
class Free:
    """A number in an argument that is a parameter of the pattern: any number matches it."""

    parameter: str


@dataclass(frozen=True, slots=True)
class Items:
    """An argument that is a list."""

    items: tuple[Part, ...]


Part: TypeAlias = "Ref | Literal | Free | Items"
Arguments: TypeAlias = Mapping[str, Mapping[str, Part]]
"""The arguments of each node, by the schema's names."""
Function: TypeAlias = Callable[..., object]
Refused: TypeAlias = Callable[[str], BadPattern]
"""Makes the error about a pattern, with the pattern's name and place, from a reason."""
Given: TypeAlias = Mapping[str, TensorType | bool | int | float]
"""The tensor types and numbers with which a function is captured, by the names of its parameters."""


@dataclass(frozen=True)
class PatternGraph:
    """A pattern's graph, whose nodes are searched in other graphs."""

    graph: AtenGraph
    """The captured graph, whose inputs are the pattern's tensor parameters."""
    arguments: Arguments
    """The arguments of each node by the schema's names, defaults filled in."""
    parameter_of: Mapping[str, str]
    """The parameter for each input value."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.graph.nodes

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.graph.outputs

    @cached_property
    def has_numbers(self) -> bool:
        """True if the nodes' arguments have numbers, which may follow from extents."""
        return any(literal.kind in ("int", "float") for node in self.nodes for literal in node.literals)

    @cached_property
    def maker(self) -> Mapping[str, tuple[Node, int]]:
        """For each value the node that makes it, and the number of the result."""
        return {value: (node, place) for node in self.nodes for place, value in enumerate(node.results)}


@dataclass(frozen=True)
class _Source:
    """A function, and the types and numbers with which it is captured."""

    function: Function
    given: Given
    refused: Refused

    def captured(self, given: Given) -> AtenGraph:
        """Captures the function with tensors of these types, each with memory of its own and without numbers in it."""
        inputs = [
            self._tensor(name, value) if isinstance(value, TensorType) else value for name, value in given.items()
        ]
        try:
            return capture(self.function, inputs).graph
        except WorkbenchError as error:
            raise self.refused(f"its function cannot be captured: {error}") from error
        except (Exception, SystemExit) as error:  # of the user's own code; the error names the pattern
            raise self.refused(f"its function raised {type(error).__name__}: {error}") from error

    def _tensor(self, name: str, kind: TensorType) -> torch.Tensor:
        try:
            return torch.empty_strided(kind.shape, kind.strides, dtype=to_dtype(kind.dtype))
        except RuntimeError as error:  # too large, or of an element type that has no plain tensors
            told = next(iter(str(error).splitlines()))
            raise self.refused(f"no tensor like its parameter {name!r}, {kind}, can be made: {told}") from None


def captured_pattern(function: Function, given: Given, refused: Refused) -> PatternGraph:
    """Returns the graph of a pattern for these arguments; its parameters' numbers are free wherever they stand in the
    graph."""
    source = _Source(function, given, refused)
    graph, tensors = source.captured(given), [name for name in given if isinstance(given[name], TensorType)]
    _refuse(refused, graph, tensors)
    parameter_of = dict(zip((slot.value for slot in graph.inputs), tensors, strict=True))
    plain: Arguments = {node.name: {name: _part(arg) for name, arg in arguments(node).items()} for node in graph.nodes}
    for name, value in given.items():
        if not isinstance(value, TensorType):
            plain = _with_free(source, plain, name)
    return PatternGraph(graph, plain, parameter_of)


def _refuse(refused: Refused, graph: AtenGraph, tensors: list[str]) -> None:
    """Raises for a graph that cannot be a pattern."""
    outside = [slot.path for slot in graph.inputs if slot.kind != "user"]
    if outside:
        raise refused(f"it reads {', '.join(outside)} from outside: make it a parameter")
    if graph.mutations:
        raise refused(f"it changes {graph.mutations[0].target} in place; return the result instead")
    if any(node.op in (BREAK, *ASSERTIONS) for node in graph.nodes):
        raise refused("Python runs between its ops, or it asserts something of the data")
    if any(node.bodies for node in graph.nodes):
        raise refused("it runs graphs, as cond and while_loop do; a pattern is a function of plain ops")
    inputs = {slot.value: name for slot, name in zip(graph.inputs, tensors, strict=True)}
    read = {value for node in graph.nodes for value in node.operands}
    if unused := [name for value, name in inputs.items() if value not in read]:
        raise refused(f"no op reads its parameter {unused[0]!r}, so nothing could say what it stands for")
    if given := [inputs[value] for value in graph.outputs if value in inputs]:
        raise refused(f"it returns its parameter {given[0]!r} as it is; return what its ops make")
    if len(set(graph.outputs)) < len(graph.outputs) or not graph.outputs:
        raise refused("it returns one tensor twice, or none; return each result once")
    if _parts(graph) > 1:
        raise refused("its ops fall into parts that share no tensor; make a pattern of each part")


def _parts(graph: AtenGraph) -> int:
    """The number of parts of a graph that share no value; a common input joins two parts."""
    groups: list[set[str]] = []
    for node in graph.nodes:
        values = {*node.operands, *node.results}
        touching = [group for group in groups if group & values]
        groups = [group for group in groups if not group & values] + [values.union(*touching)]
    return len(groups)


def _part(arg: Arg) -> Part:
    if isinstance(arg, Sequence):
        return Items(tuple(_part(item) for item in arg.items))
    assert not isinstance(arg, AtenGraph), "refused before"
    return arg


def _with_free(source: _Source, plain: Arguments, name: str) -> Arguments:
    """Returns the arguments in which a parameter's number is free: each literal that changes as the parameter does."""
    value, refused = source.given[name], source.refused
    assert not isinstance(value, TensorType)
    reason = ""
    for other in _others(value):
        try:
            found, freed = _compared(plain, source.captured({**source.given, name: other}), name, (value, other))
        except _OtherGraph:
            reason = reason or f"where it is {other} there are other ops"
        except _Differs as differs:
            raise refused(
                f"it computes with its parameter {name!r}: an argument is {differs} where {name} is {value} and "
                f"{other}. A pattern's number must stand in an op's arguments as it is"
            ) from None
        except BadPattern as error:  # the function refuses this number; the next one may do
            reason = reason or str(error)
        else:
            if not freed:
                raise refused(f"no op has its parameter {name!r} among its arguments: leave it out")
            return found
    raise refused(
        f"its nodes change with its parameter {name!r} ({reason}); write the number into the function instead"
    )


class _Differs(Exception):
    """Two literals differ, and are not the parameter's numbers."""


class _OtherGraph(Exception):
    """Two graphs differ in more than numbers."""


Numbers: TypeAlias = tuple[bool | int | float, bool | int | float]


def _compared(plain: Arguments, graph: AtenGraph, name: str, numbers: Numbers) -> tuple[Arguments, int]:
    """Returns the arguments with the parameter where both graphs have its number, and the number of these places."""
    found: dict[str, dict[str, Part]] = {}
    freed = 0
    if len(plain) != len(graph.nodes):
        raise _OtherGraph
    for (node, args), twin in zip(plain.items(), graph.nodes, strict=True):
        theirs = {key: _part(arg) for key, arg in arguments(twin).items()}
        if node != twin.name or args.keys() != theirs.keys():  # nodes are named after their ops
            raise _OtherGraph
        made = {key: _freed(part, theirs[key], name, numbers) for key, part in args.items()}
        found[node] = {key: part for key, (part, _) in made.items()}
        freed += sum(count for _, count in made.values())
    return found, freed


def _others(value: bool | int | float) -> Iterator[bool | int | float]:
    """Yields other numbers for a parameter: for an integer its neighbours first, since it may be a dim or an extent."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, value * 2)
    else:
        yield from (value * 1.5 + 0.25, value / 2) if isfinite(value) else (1.0, 2.0)


def _freed(part: Part, twin: Part, name: str, numbers: Numbers) -> tuple[Part, int]:
    """Compares one argument, as `_compared` does all."""
    if isinstance(part, Items) and isinstance(twin, Items) and len(part.items) == len(twin.items):
        made = [_freed(*pair, name, numbers) for pair in zip(part.items, twin.items, strict=True)]
        return replace(part, items=tuple(item for item, _ in made)), sum(count for _, count in made)
    if isinstance(part, Free) or part == twin:
        return part, 0
    if not isinstance(part, Literal) or not isinstance(twin, Literal):
        raise _OtherGraph
    if same_literal(part, twin):
        return part, 0
    if _is(part, numbers[0]) and _is(twin, numbers[1]):
        return Free(name), 1
    raise _Differs(f"{part.value} and {twin.value}")


def _is(literal: Literal, number: bool | int | float) -> bool:
    same = to_literal(number)
    assert same is not None
    if "bool" in (literal.kind, same.kind):
        return literal == same
    return same_literal(literal, same)


def same_literal(one: Literal, other: Literal) -> bool:
    """True if two literals are the same number, text or None: 1 is also 1.0, but neither is True."""
    numbers = ("int", "float")
    if one.kind in numbers and other.kind in numbers:
        return one.value == other.value or (one.value != one.value and other.value != other.value)
    return one == other
