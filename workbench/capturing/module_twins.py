"""Modules of a callable as an export needs them: others, that have the very same parameters and buffers.

An export puts stand-ins into the modules that it calls for as long as it works. Another thread that calls the user's
model at that moment would compute with them.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from workbench.capturing.tensor_copies import value_of
from workbench.operators.tensors.reachable_tensors import Reachable, reachable, variables

Target = Callable[..., object]


def on_twins(target: Target, held: Reachable) -> tuple[Target, Reachable]:
    """The callable with twins in place of its modules, and what it then holds: tensors are the same ones, and modules
    have their paths. It is the callable itself where some module is reached in a way that is not followed here, as
    through an object or a function that the callable calls."""
    if not held.modules or any(isinstance(module, torch.jit.ScriptModule) for _, module in held.modules.values()):
        return target, held
    twins: dict[int, object] = {key: object.__new__(type(module)) for key, (_, module) in held.modules.items()}
    for key, (_, module) in held.modules.items():
        vars(twins[key]).update({name: _twin(value, twins) for name, value in vars(module).items()})
    made = cast("Target", _twin_of_callable(target, twins))
    found = reachable(made)
    if found.modules.keys() & held.modules.keys() or found.tensors.keys() != held.tensors.keys():
        return target, held
    return made, found


def _twin(value: Any, twins: Mapping[int, object]) -> Any:
    """The value of an attribute, with twins in it; its lists and dicts are others."""
    if id(value) in twins:
        return twins[id(value)]
    if type(value) in (list, tuple):
        return type(value)([_twin(each, twins) for each in value])
    if type(value) in (dict, OrderedDict):
        return type(value)([(key, _twin(each, twins)) for key, each in value.items()])
    if isinstance(value, types.MethodType) and id(value.__self__) in twins:
        return types.MethodType(value.__func__, twins[id(value.__self__)])
    return value


def _twin_of_callable(target: Any, twins: Mapping[int, object]) -> Any:
    if isinstance(target, functools.partial):
        given = [_twin_of_callable(each, twins) for each in target.args]
        named = {key: _twin_of_callable(each, twins) for key, each in target.keywords.items()}
        return functools.partial(_twin_of_callable(target.func, twins), *given, **named)
    if not isinstance(target, types.FunctionType):
        return _twin(target, twins)
    if not any(_holds(place, name, twins) for place, name in variables(target)):
        return target
    cells = tuple(_cell(cell, twins) for cell in target.__closure__ or ()) or None
    named = {name for place, name in variables(target) if place is target.__globals__}
    own = {**target.__globals__, **{name: _twin(target.__globals__[name], twins) for name in named}}
    made = types.FunctionType(target.__code__, own, target.__name__, target.__defaults__, cells)
    made.__kwdefaults__ = target.__kwdefaults__
    return functools.update_wrapper(made, target, updated=("__dict__",))


def _holds(place: dict[str, object] | types.CellType, name: str, twins: Mapping[int, object]) -> bool:
    value = value_of(place, name)
    return _twin(value, twins) is not value


def _cell(cell: types.CellType, twins: Mapping[int, object]) -> types.CellType:
    """The same cell where it holds no module: what a function assigns to it stays visible to others that have it."""
    value = value_of(cell)
    twin = _twin(value, twins)
    return cell if twin is value else types.CellType(twin)
