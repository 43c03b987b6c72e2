"""The captured call: takes inputs and results out of their containers, and names each as the user writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import cast

import numpy as np
import torch
from torch import nn

from workbench.ground import errors
from workbench.ir import Tree
from workbench.operators.tensors import containers
from workbench.operators.tensors.call_containers import CallContainers, place_in_call
from workbench.operators.tensors.torch_literals import from_literal

Target = Callable[..., object]


def call_target(target: Target, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """Calls the target; Dynamo reads this function, and the target in it."""
    return target(*args, **kwargs)


def fresh(function: Target) -> FunctionType:
    """Returns the function with a new code object. Dynamo keeps compiled code by code object, and stops after a few
    versions, so each trace has a code object of its own."""
    known = cast("FunctionType", function)
    return FunctionType(known.__code__.replace(), known.__globals__, known.__name__)


def refuse_uncallable(target: object) -> None:
    if not callable(target):
        raise errors.InputMismatch(
            f"expected a function or an nn.Module to capture, got {type(target).__name__}: {target!r:.80}"
        )


def flatten_inputs(inputs: Sequence[object], kwargs: Mapping[str, object], name: str) -> tuple[Tree, containers.Flat]:
    flat = containers.Flat("given")
    try:
        return flat.take((tuple(inputs), dict(kwargs)), ""), flat
    except containers.NotATree as error:
        told = f"{place_in_call(error.path)} of {name} is {error.why}; inputs are {CONTAINERS}."
        raise errors.UnsupportedContainer(f"{told} {_how_to_register(error.value)}") from None


def call_arguments(
    tree: Tree, tensors: Sequence[torch.Tensor], classes: containers.Classes
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Returns the positional and keyword arguments of a call, with these tensors in them."""
    return cast("tuple[tuple[object, ...], dict[str, object]]", containers.rebuild(tree, list(tensors), classes))


def flatten_outputs(returned: object, given: CallContainers, name: str) -> tuple[Tree, containers.Flat]:
    """Takes apart the result of a call, and the containers in its arguments, which the call may have changed."""
    try:
        return given.after(returned)
    except containers.NotATree as error:
        where = f" at result{error.path}" if error.path else ""
        raise errors.UnsupportedContainer(
            f"{name} returns {error.why}{where}; results are {CONTAINERS}. Return its contents, e.g. as a dict. "
            f"{_how_to_register(error.value)}"
        ) from None


CONTAINERS = (
    "tensors, numbers, strings and None, in tuples, named tuples, lists, dicts, dataclasses, plain objects (without "
    "__slots__, __call__ and a pickling of their own) and containers that are registered with PyTorch"
)


def _how_to_register(value: object) -> str:
    """Says how to register an object's class as a container with PyTorch, or what to give instead of the object."""
    if isinstance(value, np.ndarray):
        return "Of an array of numpy give the tensor: torch.from_numpy(array)"
    if isinstance(value, (nn.Module, torch.optim.Optimizer)):
        return (
            "Modules and optimizers are no inputs: let the function close over them, or give "
            "functools.partial(function, model, optimizer) and the tensors"
        )
    cls = type(value).__name__
    return (
        "To use an object that holds tensors, register its class, with functions that take it apart and make it "
        f"again: torch.utils._pytree.register_pytree_node({cls}, lambda it: ([it.a, it.b], None), lambda parts, "
        f"_: {cls}(*parts)); for a dataclass torch.utils._pytree.register_dataclass({cls})"
    )


def input_paths(target: Target, inputs: Sequence[object], kwargs: Mapping[str, object], name: str) -> list[str]:
    """Returns the name of each positional input in the user's signature."""
    function = target.forward if isinstance(target, nn.Module) else target
    try:
        signature = inspect.signature(cast("Target", function))
    except (ValueError, TypeError):  # built-in functions have no signature that Python can read
        return [f"input{i}" for i in range(len(inputs))]
    try:
        bound = signature.bind_partial(*inputs)
        signature.bind(*inputs, **kwargs)
    except TypeError as error:
        raise errors.InputMismatch(f"the inputs do not fit {name}{signature}: {error}") from None
    found: list[str] = []
    for parameter, value in bound.arguments.items():
        if signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
            found += [f"{parameter}[{i}]" for i in range(len(cast("tuple[object, ...]", value)))]
        else:
            found.append(parameter)
    return found


def user_path(path: str, positional: list[str]) -> str:
    """Returns a place in `(inputs, kwargs)`, such as `[0][1]['a']`, as the user would write it: `y['a']`."""
    if path.startswith("[1]"):
        return "kwargs" + path.removeprefix("[1]")
    index, rest = path.removeprefix("[0][").split("]", 1)
    return positional[int(index)] + rest


def call_form(tree: Tree) -> str:
    """Writes the inputs of a call, a pair of positional and keyword inputs, as they stand between a call's
    parentheses."""
    positional, keywords = tree.items
    given = [describe(item) for item in positional.items]
    given += [f"{key}={describe(item)}" for key, item in zip(keywords.keys, keywords.items, strict=True)]
    return f"({', '.join(given)})"


def describe(tree: Tree) -> str:
    """Writes containers as in Python, with dots for tensors."""
    if tree.kind == "leaf":
        return "·"
    if tree.kind == "constant" and tree.constant is not None:
        return repr(from_literal(tree.constant))
    if tree.kind == "kept":
        return tree.cls.rpartition(".")[2]
    items = [describe(item) for item in tree.items]
    if tree.kind == "dict":
        return "{" + ", ".join(f"{key!r}: {item}" for key, item in zip(tree.keys, items, strict=True)) + "}"
    if tree.kind == "list":
        return f"[{', '.join(items)}]"
    if tree.kind == "object":
        parts = (f"{key.strip('.')}={item}" for key, item in zip(tree.keys, items, strict=True))
        return f"{tree.cls.rpartition('.')[2]}({', '.join(parts)})"
    return f"{tree.cls.rpartition('.')[2]}({', '.join(items)}{',' if len(items) == 1 and not tree.cls else ''})"


def input_as_written(placeholder: str) -> str:
    """Returns the user's name of a placeholder: `fc1.weight` for `L_self_modules_fc1_parameters_weight_`, `x` for
    `L_x_`."""
    path = re.sub(r"^[LG]_(self_|fn_(?=(modules|parameters|buffers)_))?", "", placeholder).strip("_")
    return re.sub(r"(^|_)(modules|parameters|buffers)_", lambda found: "." if found.group(1) else "", path)


def module_as_written(source: str) -> str:
    """Returns the user's name of a module: `layers.3` for `L['self'].layers.3`, `model.layers.3` for
    `G['model'].layers.3`."""
    found = re.match(r"[LG]\['(\w+)'\]\.?", source)
    if not found:
        return source
    first, rest = found.group(1), source[found.end() :]
    return rest if first in ("self", "fn") else f"{first}.{rest}".rstrip(".")
