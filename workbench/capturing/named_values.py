"""Values that the code of a training step names in Python: numbers, texts, flags, hooks, attributes of classes and
modules.

A graph has these values as they were at the trace. So a step that changes a value is refused, and so is a run with
other values. Only named values count: an attribute that no followed code names may change. A method is followed if
followed code names it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from workbench.capturing.left_tensors import Cache, cached, is_cache
from workbench.ground.torch_inside.module_inside import MODULE_HOOKS, MODULE_STORES, TENSOR_HOOKS
from workbench.operators.tensors.raw_contents import Store, contents, item
from workbench.operators.tensors.reachable_tensors import (
    OF_THEIR_OWN,
    Held,
    Part,
    after,
    attribute,
    attributes,
    attributes_of,
    function_parts,
)

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
_MANY = 100
"""A dict or list with more entries than this, all of them plain values, counts as one value."""
_NOT_IN_STEPS = frozenset((
    "__init__", "__init_subclass__", "__new__", "__setattr__", "__delattr__", "__repr__", "__getstate__",
    "__setstate__", "__reduce__", "extra_repr",
))  # fmt: skip
_OF_TORCH = frozenset((*MODULE_HOOKS, *MODULE_STORES, "training", "state", "param_groups", "defaults"))
"""Attributes of modules and optimizers that other code handles."""
_NOT_USERS = frozenset(("torch", "numpy", "builtins", "workbench"))
_DATA_OF_LIBRARY = ("SimpleNamespace", "Namespace", "UserDict", "UserList")


@dataclass
class Owner:
    """A class, a module of Python or an object with slots, whose attributes a step may change."""

    name: str
    names: Callable[[], Iterable[str]]
    """Returns the names of the attributes that count."""
    itself: Any

    def values(self) -> dict[str, object]:
        own = cast("dict[str, object]", vars(self.itself) if isinstance(self.itself, (type, types.ModuleType)) else {})
        return {
            name: own[name] if name in own else getattr(self.itself, name)
            for name in self.names()
            if name in own or (not own and hasattr(self.itself, name))
        }


@dataclass
class Named:
    """The values that the code names, each by the path that messages use."""

    values: dict[str, object] = field(default_factory=dict[str, object])
    """Plain values; the code of a function, the class of a module, the digest of an array."""
    tensors: dict[int, Held] = field(default_factory=dict[int, Held])
    """The tensors by `id`; also tensors that only classes, hooks and caches hold."""
    containers: list[object] = field(default_factory=list[object])
    """Lists, dicts, objects and functions, as in `Reachable`."""
    optimizers: dict[int, tuple[str, Callable[[], object]]] = field(
        default_factory=dict[int, tuple[str, "Callable[[], object]"]]
    )
    """Optimizers by `id`, as in `Reachable`; also those that only hooks name."""
    owners: dict[int, Owner] = field(default_factory=dict[int, Owner])
    arrays: dict[str, Any] = field(default_factory=dict[str, Any])
    iterators: dict[str, Iterator[object]] = field(default_factory=dict[str, "Iterator[object]"])
    caches: dict[str, Cache] = field(default_factory=dict[str, Cache])
    names: frozenset[str] = frozenset()
    """The names in the code that was followed."""


def named_by(target: object, names: Iterable[str] = ()) -> Named:
    """Returns all values that the code of a callable names. `names` are names that an earlier call found, which saves
    walks."""
    known = frozenset(names)
    while True:
        walk = _Walk(known)
        walk.visit(target, "", lambda: target)
        if walk.names <= known:
            walk.found.names = known
            return walk.found
        known |= walk.names


class _Walk:
    """One walk through a callable and its parts, which follows the methods with names in `known`."""

    def __init__(self, known: frozenset[str]) -> None:
        self.known, self.names = known, set[str]()
        self.found = Named()
        self._first: dict[int, str] = {}
        self._kept: list[object] = []
        """Objects whose `id` is in `_first`: without this list some would be freed, such as a bound method."""

    def visit(self, value: object, path: str, read: Callable[[], object]) -> None:
        """Notes a value and then its parts, depth first. `read` returns the current object at `path`."""
        found = self.found
        if type(value) in _PLAIN:
            found.values[path] = value
            return
        if _lives_by_itself(value):
            return
        if (first := self._first.get(id(value))) is not None:
            if callable(value) and first != path:
                found.values[path] = f"the same as {first}"
            return
        self._first[id(value)] = path
        self._kept.append(value)
        try:
            if (stands_for := _stands_for(value)) is not None:
                found.values[path] = stands_for
            parts = list(self._parts(value, path, read))
        except RecursionError:
            raise
        except Exception:  # any exception of the code of its class
            return
        for name, part, step in parts:
            self.visit(part, path + name if path else name.removeprefix("."), after(read, step))

    def _parts(self, value: Any, path: str, read: Callable[[], object]) -> Iterator[Part]:
        found = self.found
        if issubclass(type(value), torch.Tensor):
            kind = "parameter" if isinstance(value, nn.Parameter) else "closure"
            found.tensors.setdefault(id(value), Held(kind, path, value, cast("Callable[[], torch.Tensor]", read)))
            for name in TENSOR_HOOKS:
                yield from _hooks(value, name)
        elif isinstance(value, (list, dict)):
            found.containers.append(cast("object", value))
            yield from self._items(contents(cast("Store", value)), path)
        elif isinstance(value, tuple):
            yield from self._items(list(cast("tuple[object, ...]", value)), path)
        elif isinstance(value, (set, frozenset, deque)):
            found.containers += [] if isinstance(value, frozenset) else [value]
            members = [each for each in cast("Iterable[object]", value) if type(each) in _PLAIN]
            found.values[path] = members if isinstance(value, deque) else frozenset(members)
        elif isinstance(value, functools.partial):
            yield from attributes(cast("object", value), ("func", "args", "keywords"))
        elif isinstance(value, (staticmethod, classmethod)):
            yield "", cast(Any, value).__func__, lambda it: it.__func__
        elif isinstance(value, property):
            yield from attributes(value, tuple(name for name in ("fget", "fset") if getattr(value, name) is not None))
        elif inspect.ismethod(value):
            yield "", value.__self__, lambda it: it.__self__
            yield "", value.__func__, lambda it: it.__func__
        elif inspect.isfunction(value):
            yield from self._of_function(value)
        elif is_cache(value):
            found.caches[path] = value
            for number, tensor in enumerate(cached(value)):
                yield f".cached[{number}]", tensor, functools.partial(_constant, tensor)
            yield "", value.__wrapped__, lambda it: it.__wrapped__
        elif isinstance(value, type):
            yield from self._of_class(value)
        elif type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
            found.arrays[path] = value
        elif _is_iterator(value):
            found.iterators[path] = value
        elif not isinstance(value, types.ModuleType):
            if isinstance(value, Optimizer):
                found.optimizers[id(value)] = path, read
            yield from self._of_object(value, path)

    def _items(self, held: Store, path: str) -> Iterator[Part]:
        members = held.values() if isinstance(held, dict) else held
        if len(held) > _MANY and all(type(each) in _PLAIN for each in members):
            self.found.values[path] = list(held.items()) if isinstance(held, dict) else held
            return
        for key, part in held.items() if isinstance(held, dict) else enumerate(held):
            shown = "a tensor" if isinstance(key, torch.Tensor) else f"{key!r:.80}"
            yield f"[{shown}]", part, functools.partial(item, key)

    def _of_function(self, function: types.FunctionType) -> Iterator[Part]:
        self.found.containers.append(function)
        own = _names(function.__code__)
        if _top(function.__module__) != "torch":
            self.names |= own
        for name, part, step in function_parts(function):
            if isinstance(part, types.ModuleType):
                yield from self._of_module(part, name.removeprefix("."), own)
            else:
                yield name, part, step

    def _of_module(self, module: types.ModuleType, name: str, names: frozenset[str]) -> Iterator[Part]:
        """The attributes of a user's module that the code names; the module itself is no part."""
        if not _of_user(module.__name__):
            return
        before = self.found.owners.get(id(module))
        known = frozenset(before.names()) if before else frozenset[str]()
        every = (names | known) - {each for each in names if each.startswith("__")}
        self.found.owners[id(module)] = Owner(module.__name__, lambda: every, module)
        for each in sorted(every & vars(module).keys()):
            part = vars(module)[each]
            if isinstance(part, types.ModuleType):
                yield from self._of_module(part, f"{name}.{each}", names)
            else:
                yield f".{name}.{each}", part, functools.partial(_of_owner, module, each)

    def _of_class(self, cls: type) -> Iterator[Part]:
        for base in cls.__mro__:
            if not _of_user(base.__module__):
                continue
            known = self.found.owners.get(id(base))
            if known is None:
                self.found.owners[id(base)] = Owner(base.__name__, functools.partial(_attributes_of_class, base), base)
            for name, part in list(vars(base).items()):
                if _is_code(part):
                    follows = name in self.known or name == "forward" or name.startswith("__")
                    if follows and name not in _NOT_IN_STEPS:
                        yield f".{name}", part, functools.partial(_of_owner, base, name)
                elif not name.startswith("__") and name in self.known:
                    yield f".{name}", part, functools.partial(_of_owner, base, name)

    def _of_object(self, value: object, path: str) -> Iterator[Part]:
        kind = type(value)
        if isinstance(value, nn.Module):
            yield from self._of_layers(value)
        elif not _of_user(kind.__module__) and kind.__name__ not in _DATA_OF_LIBRARY:
            return
        own = attributes_of(value)
        if own is not None:
            self.found.containers.append(value)
            apart = _OF_TORCH if isinstance(value, (nn.Module, Optimizer)) else ()
            names = self.known | (_names_of_class(kind) if isinstance(value, nn.Module) else frozenset[str]())
            for name in [name for name in own if name in names and name not in apart]:
                yield f".{name}", own[name], functools.partial(attribute, name)
        if slots := _slots(kind):
            self.found.owners[id(value)] = Owner(path or kind.__name__, lambda: slots, value)
            for name in [name for name in slots if name in self.known and hasattr(value, name)]:
                yield f".{name}", getattr(value, name), functools.partial(attribute, name)
        if _of_user(kind.__module__):
            for name, part, step in self._of_class(kind):
                self.visit(part, kind.__name__ + name, after(lambda: kind, step))

    def _of_layers(self, module: nn.Module) -> Iterator[Part]:
        for name in MODULE_HOOKS:
            yield from _hooks(module, name)
        for store in MODULE_STORES:
            for name, part in cast("dict[str, object]", getattr(module, store)).items():
                yield f".{name}", part, functools.partial(attribute, name)


@dataclass(frozen=True)
class _Array:
    """An array, as a digest of its shape, element type and numbers."""

    digest: str

    def __repr__(self) -> str:
        return f"an array with the digest {self.digest}"


def _stands_for(value: Any) -> object:
    """Returns the value by which an object is compared, besides its parts; None if only its parts count."""
    if inspect.isfunction(value):
        return value.__code__
    if isinstance(value, (nn.Module, types.BuiltinFunctionType)):
        return type(value) if isinstance(value, nn.Module) else value
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and not value.dtype.hasobject:
        return _Array(hashlib.sha256(f"{value.shape} {value.dtype}".encode() + value.tobytes()).hexdigest()[:12])
    return None


def shown_value(value: object) -> str:
    if isinstance(value, types.CodeType):
        return f"the function {value.co_name} of {value.co_filename.rpartition('/')[2]}:{value.co_firstlineno}"
    return value.__name__ if isinstance(value, type) else f"{value!r:.80}"


def _hooks(owner: Any, name: str) -> Iterator[Part]:
    hooks = cast("Mapping[int, object]", getattr(owner, name, None) or {})
    for number, hook in enumerate(hooks.values()):
        yield f".{name}[{number}]", hook, functools.partial(_constant, hook)


def _constant(value: object, _: object) -> object:
    return value


def _of_owner(owner: Any, name: str, _: object) -> object:
    return cast("object", vars(owner)[name])


def _names(code: types.CodeType) -> frozenset[str]:
    """The names in a function's code, and texts, which may be the name of an attribute."""
    found = {*code.co_names, *(each for each in code.co_consts if isinstance(each, str) and each.isidentifier())}
    return frozenset(found.union(*(_names(each) for each in code.co_consts if isinstance(each, types.CodeType))))


@functools.cache
def _names_of_class(cls: type) -> frozenset[str]:
    """The names in those methods of a module class that a step may call."""
    functions = [
        (name, part) for base in cls.__mro__ if base not in (nn.Module, object) for name, part in vars(base).items()
    ]
    apart = {*_NOT_IN_STEPS, "reset_parameters"}
    codes = [part.__code__ for name, part in functions if inspect.isfunction(part) and name not in apart]
    return frozenset[str]().union(*map(_names, codes))


def _lives_by_itself(value: object) -> bool:
    return isinstance(value, OF_THEIR_OWN) or (isinstance(value, type) and issubclass(value, OF_THEIR_OWN))


def _is_code(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, (staticmethod, classmethod, property)) or (is_cache(value))


def _is_iterator(value: object) -> bool:
    return hasattr(type(value), "__next__") and attributes_of(value) is None


def _attributes_of_class(cls: type) -> list[str]:
    return [name for name in vars(cls) if not name.startswith("__")]


def _slots(cls: type) -> tuple[str, ...]:
    found = [cast("Any", base).__slots__ for base in cls.__mro__ if "__slots__" in vars(base)]
    names = [name for each in found for name in ((each,) if isinstance(each, str) else each)]
    return tuple(name for name in names if not name.startswith("__"))


def _of_user(module: object) -> bool:
    top = _top(module)
    return top not in _NOT_USERS and top not in sys.stdlib_module_names


def _top(module: object) -> str:
    return str(module).partition(".")[0]
