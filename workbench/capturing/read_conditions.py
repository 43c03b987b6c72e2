"""Conditions of a function's graph beside its inputs: numbers, flags, branches and hooks, as Dynamo read them.

Dynamo has a guard for everything that it reads of Python: the number of a closure, a global, an attribute or flag of a
module, its hooks, the strides of an input. The guards are checked before each run, in a few microseconds. If a guard no
longer holds, Dynamo reads the function again: if the graph is the same, the condition did not matter (a counter, a
stride that nothing looks at), and the new guards are kept beside the others. Otherwise the run is refused.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
from torch import fx
from torch.fx.node import map_arg  # pyright: ignore[reportUnknownVariableType]

from workbench.capturing.step_conditions import hooks_of_all_modules
from workbench.ground.torch_inside.dynamo_reading import guards_of
from workbench.ir import Tree
from workbench.operators.tensors.same_value import same_value

Scope = Mapping[str, object]
"""The variables of the frame that Dynamo read: the target, and the arguments of a call."""
_ZERO: Final = re.compile(r"^(.+) == (-?0\.0)$")
_IDENTITY: Final = re.compile(r"^___check_(type|obj)_id\((.+), (\d+)\)")
_MOST_READINGS: Final = 8
"""The most readings of a function whose guards are kept."""


class Guards:
    """The guards of one reading."""

    def __init__(self, read: types.FunctionType) -> None:
        """`read` is the function that Dynamo compiled: its code keeps the guards alive."""
        self._read = read
        self._manager = guards_of(read)
        self._hooks = hooks_of_all_modules()  # Dynamo has no guard for these
        found = (_ZERO.match(part) for part in self._manager.code_parts)
        self._zeros = [(compile(each[1], "<guard>", "eval"), float(each[2])) for each in found if each]

    def hold(self, scope: Scope) -> bool:
        if not self._manager.check(scope) or hooks_of_all_modules() != self._hooks:
            return False
        return all(same_value(self._value(code, scope), zero) for code, zero in self._zeros)  # Dynamo: 0.0 == -0.0

    def _value(self, source: str | types.CodeType, scope: Scope) -> object:
        return cast("object", eval(source, {"L": scope, "G": self._read.__globals__, "torch": torch}))

    def changed(self, scope: Scope, paths: Mapping[str, str]) -> list[str]:
        """The conditions that no longer hold, in words; `paths` has the user's names of arguments."""
        told = [self._said(part, scope) for part in self._manager.code_parts]
        if hooks_of_all_modules() != self._hooks:
            told.append(f"the number of hooks of all modules was {self._hooks}, and is {hooks_of_all_modules()} now")
        if not (found := [each for each in dict.fromkeys(told) if each]):
            found = [str(each).partition("  #")[0] for each in self._manager.check_verbose(scope).verbose_code_parts]
        written = [self._as_written(each, scope) for each in found]
        return [_NAMES.sub(lambda name: paths.get(name[0], name[0]), each) for each in written]

    def _said(self, part: str, scope: Scope) -> str:
        """A condition with its value at the trace and now; empty if it holds, or if it does not compare a value of
        Python's."""
        try:
            if identity := _IDENTITY.match(part):
                now = self._value(identity[2], scope)
                same = id(type(now) if identity[1] == "type" else now) == int(identity[3])
                return "" if same else f"{identity[2]} is another one now ({_shown(now)})"
            source, equals, before = part.rpartition(" == ")
            if equals:
                was, now = self._value(before, scope), self._value(source, scope)
                return "" if same_value(was, now) else f"{source} was {_shown(was)}, and is {_shown(now)} now"
            if part.startswith("not ") and (now := self._value(part.removeprefix("not "), scope)):
                return f"{part.removeprefix('not ')} was empty, and is {_shown(now)} now"
        except Exception:  # of the user's objects, or a guard that is no expression
            pass
        return ""

    def _as_written(self, told: str, scope: Scope) -> str:
        """Writes places as in the program: `L['target'].__closure__[0].cell_contents` becomes the name of a
        variable."""

        def variable(found: re.Match[str]) -> str:
            function = cast(Any, self._value(found[1], scope))
            return str(function.__code__.co_freevars[int(found[2])])

        try:
            while (after := _CLOSURE.sub(variable, told)) != told:
                told = after
        except Exception:  # the function is gone
            pass
        kind = type(scope["target"]).__name__
        for pattern, written in _WRITTEN:
            told = pattern.sub(written, told)
        return told.replace("type(the function)", kind)


_CLOSURE: Final = re.compile(
    r"([LG]\[(?:'\w+'|\d+)\](?:\.\w+|\[(?:'\w+'|\d+)\])*)\.__closure__\[(\d+)\]\.cell_contents"
)
_WRITTEN: Final = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        (r"(?:\.__dict__)?(?:\[|\.)'?_(?:modules|parameters|buffers)'?\]?\['?(\w+)'?\]", r".\1"),
        (r"dict\(type\((.+?)\)\.__dict__\)\['(\w+)'\]", r"type(\1).\2"),
        (r"\.__dict__\['(\w+)'\]", r".\1"),
        (r"L\['target'\]\.__globals__\['(\w+)'\]", r"\1"),
        (r"G\['__import_(\w+?)'\]", r"\1"),
        (r"G\['(\w+?)'\]", r"\1"),
        (r"L\['target'\]\.", ""),
        (r"L\['target'\]", "the function"),
        (r"L\['(\w+)'\]", r"\1"),
        (r"_dot_", "."),
        (r"\b__main__\.", ""),
        (r"(\w[\w.]*)\._forward(_pre)?_hooks\b", r"the dict of hooks \1._forward\2_hooks"),
        (r"tensor '(.+?)' (stride|size) mismatch at index (\d+)\. expected (\d+), actual (\d+)",
         r"the \2 of \1 at dim \3 was \4, and is \5 now"),
        (r"tensor '(.+?)' (\w+) mismatch\. expected (.+?), actual (.+)", r"the \2 of \1 was \3, and is \4 now"),
    )
)  # fmt: skip
_NAMES: Final = re.compile(r"args\[\d+\]")


def _shown(value: object) -> str:
    return f"{value!r:.60}"


@dataclass(frozen=True)
class Reading:
    """One reading of a function by Dynamo: the graph, its inputs and results, the tensors that the function returned
    with their containers, and the guards."""

    graph: fx.GraphModule
    given: tuple[torch.Tensor, ...]
    results: list[torch.Tensor]
    tree: Tree
    found: list[tuple[str, torch.Tensor]]
    guards: Guards


Facts = list[object]
"""Facts by which graphs are compared: calls with arguments, sources of tensors, containers of results."""


def calls_of(graph: fx.GraphModule) -> list[object]:
    """The calls of a graph with all their arguments; an argument that is another call's result has that call's
    number."""
    nodes: list[fx.Node] = list(graph.graph.nodes)
    numbers = {node: number for number, node in enumerate(nodes)}

    def argument(node: fx.Node) -> object:
        return ("the result of", numbers[node])

    found: list[object] = []
    for node in nodes:
        target: object = node.target if node.op in ("call_function", "call_method") else ""
        if node.op == "get_attr":
            target = _attribute(graph, str(node.target))
        found.append([node.op, target, *(cast(Any, map_arg)(each, argument) for each in (node.args, node.kwargs))])
    return found


def _attribute(graph: fx.GraphModule, name: str) -> object:
    value: Any = graph
    for part in name.split("."):
        value = getattr(value, part)
    if isinstance(value, fx.GraphModule):
        return calls_of(value)
    return [str(value.dtype), cast(Any, value).tolist()] if isinstance(value, torch.Tensor) else cast("object", value)


@dataclass(frozen=True)
class Conditions:
    """The conditions of a captured graph: the guards of its reading, and of later readings that made the same graph."""

    target: object
    facts: Facts
    again: Callable[[Sequence[object], Mapping[str, object]], tuple[Facts, Guards]]
    """Reads the function again, for a call with these arguments."""
    known: list[Guards] = field(default_factory=list[Guards])

    def scope(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Scope:
        return {"target": self.target, "args": args, "kwargs": kwargs}

    def hold(self, scope: Scope) -> bool:
        return any(guards.hold(scope) for guards in self.known)

    def make_the_same(self, inputs: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        """True if the function, read again, makes the same graph; the new guards are then kept."""
        facts, guards = self.again(inputs, kwargs)
        if not same_value(facts, self.facts):
            return False
        self.known.insert(0, guards)
        del self.known[_MOST_READINGS:]
        return True

    def changed(self, scope: Scope, paths: Mapping[str, str]) -> list[str]:
        """The changed conditions of the reading that has the fewest."""
        return min((guards.changed(scope, paths) for guards in self.known), key=len)
