"""The tensors that a callable holds: parameters and buffers of modules, and what its functions close over.

A captured graph names them as the user would write them and reads them again at every call: a record needs no weights,
and a run uses the current ones.
"""

from __future__ import annotations

import dis
import functools
import inspect
import logging
import operator
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn

from workbench.ground.torch_inside.module_inside import MODULE_STORES
from workbench.operators.tensors.raw_contents import Store, contents, item


@dataclass(frozen=True)
class Held:
    """A tensor that a callable holds, with its path and a function that reads it again."""

    kind: str
    """parameter, buffer or closure; gradient or state where a training step is captured."""
    path: str
    tensor: torch.Tensor
    read: Callable[[], torch.Tensor]


@dataclass
class Reachable:
    """The tensors and modules that were found, by `id`, each under its first path."""

    tensors: dict[int, Held] = field(default_factory=dict[int, Held])
    modules: dict[int, tuple[str, nn.Module]] = field(default_factory=dict[int, tuple[str, nn.Module]])
    optimizers: dict[int, tuple[str, Callable[[], object]]] = field(
        default_factory=dict[int, tuple[str, "Callable[[], object]"]]
    )
    """Optimizers by `id`, each with its path and a function that reads it again."""
    containers: list[object] = field(default_factory=list[object])
    """Objects in which tensors can be replaced: lists, dicts, objects with attributes, modules among them, and
    functions, by their globals and closed-over variables."""


def reachable(target: object) -> Reachable:
    """Every tensor `target` can reach through modules, closures, the globals its code names, and containers."""
    found = Reachable()
    _visit(target, "", lambda: target, found, set())
    return found


def _visit(value: object, path: str, read: Callable[[], object], found: Reachable, seen: set[int]) -> None:
    """Finds the tensors in `value`, depth first. `read` returns what is at `path` when it is called."""
    if issubclass(type(value), torch.Tensor):  # by its type: a mock object only claims to be a tensor
        kind, tensor = "parameter" if isinstance(value, nn.Parameter) else "closure", cast("torch.Tensor", value)
        found.tensors.setdefault(id(value), Held(kind, path, tensor, cast("Callable[[], torch.Tensor]", read)))
        return
    if id(value) in seen or issubclass(type(value), (type, types.ModuleType, str, bytes, *OF_THEIR_OWN)):
        return
    seen.add(id(value))
    for name, part, step in _looked_into(value, path, read, found):
        _visit(part, path + name if path else name.removeprefix("."), after(read, step), found, seen)


def _looked_into(value: object, path: str, read: Callable[[], object], found: Reachable) -> list[Part]:
    """The direct parts of `value`. Also notes `value` itself, if tensors can be put into it."""
    try:
        if isinstance(value, torch.optim.Optimizer):
            found.optimizers[id(value)] = path, read
        if isinstance(value, nn.Module):
            _visit_module(value, path, read, found)
        parts = list(_parts(value))
        found.containers += [*([value] if _stores(value) else []), *_functions(value)]
    except RecursionError:
        raise
    except Exception:  # its class may raise anything: it may claim to be a list, and not be readable as a list
        if issubclass(type(value), nn.Module):
            raise
        return []
    return parts


def _stores(value: object) -> bool:
    """True if tensors can be put into a value."""
    return isinstance(value, (list, dict, set, deque, nn.Module)) or (
        attributes_of(value) is not None and not callable(value)
    )


def attributes_of(value: object) -> dict[str, object] | None:
    """The dict in which an object keeps its attributes; None if it has no such dict, as objects that answer for any
    attribute."""
    try:
        found: object = vars(value)
    except Exception:  # there is none, or the code of the object's class raised
        return None
    return cast("dict[str, object]", found) if type(found) is dict else None


def _functions(value: object) -> list[object]:
    """The functions whose variables are parts of the value."""
    if inspect.ismethod(value):
        return [value.__func__]
    if inspect.isfunction(value):
        return [value]
    if isinstance(value, functools.partial) or attributes_of(value) is None:
        return []
    kind = type(value)
    own = () if kind.__module__.startswith("torch") else vars(kind).values()
    return [each for each in own if inspect.isfunction(each)]


def variables(function: types.FunctionType) -> Iterator[tuple[dict[str, object] | types.CellType, str]]:
    """Yields the cell of each closed-over variable, and the dict of globals for each global that the code names; each
    with the name."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        yield cell, name
    for name in _globals(function):
        yield function.__globals__, name


def _globals(function: types.FunctionType) -> list[str]:
    """The names of the globals that a function's code, or code nested in it, reads. PyTorch's and Python's own
    functions hold no tensor of the user's, so they have none."""
    top = str(function.__module__).partition(".")[0]
    return (
        []
        if top == "torch" or top in sys.stdlib_module_names
        else sorted(name for name in _global_names(function.__code__) if name in function.__globals__)
    )


def after(read: Callable[[], object], step: Callable[[Any], object]) -> Callable[[], object]:
    """Returns a function that reads an object and takes a part of it by `step`."""
    return lambda: step(read())


def _visit_module(module: nn.Module, path: str, read: Callable[[], object], found: Reachable) -> None:
    prefix = f"{path}." if path else ""
    for name, part in cast("Iterator[tuple[str, nn.Module]]", module.named_modules()):
        found.modules.setdefault(id(part), (f"{prefix}{name}".rstrip("."), part))
    for kind, named in (("parameter", module.named_parameters), ("buffer", module.named_buffers)):
        for name, tensor in named():
            again = cast("Callable[[], torch.Tensor]", after(read, operator.methodcaller(f"get_{kind}", name)))
            found.tensors.setdefault(id(tensor), Held(kind, prefix + name, tensor, again))


OF_THEIR_OWN = logging.Logger, logging.Handler, threading.Thread
"""Classes of objects that are not searched: they lead to all others of their kind in the process, and change at any
time."""

Part = tuple[str, object, Callable[[Any], object]]


def _parts(value: object) -> Iterator[Part]:
    """The direct parts of `value`: the suffix of the path, the part, and a function that takes the part out again."""
    if isinstance(value, (list, tuple)):
        held = contents(cast("Store", value)) if isinstance(value, list) else cast("tuple[object, ...]", value)
        for i, part in enumerate(held):
            yield f"[{i}]", part, functools.partial(item, i)
    elif isinstance(value, dict):
        for key, part in cast("dict[object, object]", contents(cast("Store", value))).items():
            yield f"[{key!r}]", part, functools.partial(item, key)
    elif isinstance(value, functools.partial):
        yield from attributes(cast("object", value), ("func", "args", "keywords"))
    elif inspect.ismethod(value):
        yield "", value.__self__, lambda method: method.__self__
        yield from function_parts(cast("types.FunctionType", value.__func__))
    elif inspect.isfunction(value):
        yield from function_parts(value)
    elif isinstance(value, nn.Module):
        yield from _module_parts(value)
    elif (own := attributes_of(value)) is not None and not type(value).__module__.startswith("torch"):
        apart = ("state", "param_groups") if isinstance(value, torch.optim.Optimizer) else ()
        yield from attributes(value, tuple(name for name in own if name not in apart))  # a training step records these
        yield from _methods(type(value))


def attributes(value: object, names: tuple[str, ...]) -> Iterator[Part]:
    """The attributes of these names as parts."""
    for name in names:
        yield f".{name}", getattr(value, name), functools.partial(attribute, name)


def attribute(name: str, value: object) -> object:
    return getattr(value, name)


def _module_parts(module: nn.Module) -> Iterator[Part]:
    """A module's plain attributes, its children, and the variables that its methods read."""
    own = set(MODULE_STORES) | set(vars(nn.Module()))
    yield from attributes(module, tuple(name for name in vars(module) if name not in own))
    yield from attributes(module, tuple(name for name, child in module.named_children() if child is not module))
    if not type(module).__module__.startswith("torch."):
        yield from _methods(type(module))


def _methods(cls: type) -> Iterator[Part]:
    for function in vars(cls).values():
        if inspect.isfunction(function):
            for name, part, step in function_parts(function):
                yield name, part, functools.partial(_of_function, function, step)


def _of_function(function: types.FunctionType, step: Callable[[Any], object], _: object) -> object:
    return step(function)


def function_parts(function: types.FunctionType) -> Iterator[Part]:
    """A function's closed-over variables, globals and default values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f".{name}", cell.cell_contents, functools.partial(_cell, name)
        except ValueError:  # the variable has no value yet
            continue
    for name in _globals(function):
        yield f".{name}", function.__globals__[name], functools.partial(_item_of, "__globals__", name)
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f".{name}", default, functools.partial(_item_of, "__kwdefaults__", name)
    for index, default in enumerate(function.__defaults__ or ()):
        yield f".__defaults__[{index}]", default, functools.partial(_item_of, "__defaults__", index)


def _cell(name: str, function: types.FunctionType) -> object:
    index = function.__code__.co_freevars.index(name)
    return (function.__closure__ or ())[index].cell_contents


def _item_of(attribute: str, key: object, function: types.FunctionType) -> object:
    held: Any = getattr(function, attribute) or {}
    return held[key]  # raises a LookupError if the item is gone


@functools.lru_cache(4096)
def _global_names(code: types.CodeType) -> frozenset[str]:
    """The names that the code, or code nested in it, looks up as globals; names of attributes do not count."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in _OF_GLOBALS}
    inner = (_global_names(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return frozenset(found).union(*inner)


_OF_GLOBALS = frozenset(("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
