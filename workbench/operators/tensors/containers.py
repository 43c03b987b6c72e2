"""The containers around tensors: taking them off before a graph, putting them back after it.

Lists, tuples, named tuples and dicts are built in. Classes that are registered with PyTorch (`torch.utils._pytree`) are
taken apart and made again as their registration says. Dataclasses, other mappings and plain objects are taken apart
into their items and attributes, and made again without a call of their own code: what `__init__` would add is there
already. What an object holds beside tensors, numbers and containers, such as a class, is kept as it is: the record has
its name, and the live function the thing itself.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import torch

from workbench.ground.torch_inside import pytrees as pytree
from workbench.ir import Literal, Tree
from workbench.operators.tensors.raw_contents import Store, contents, refill
from workbench.operators.tensors.reachable_tensors import reachable
from workbench.operators.tensors.same_value import same_value
from workbench.operators.tensors.torch_literals import from_literal, to_literal

Maker = Callable[[list[Any]], object]
"""Makes a container from its parts."""

Classes = Mapping[str, Maker]
"""The makers of the user-defined containers that a call met, and of kept things, by `_key`."""

NO_CLASSES: Classes = MappingProxyType({})


class NotATree(TypeError):
    """A value in the containers is no tensor, no known container and no plain constant."""

    def __init__(self, path: str, value: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.value, self.why = path, value, why


@dataclasses.dataclass(frozen=True)
class Kept:
    """The maker of a thing that is no container and no constant: it returns the thing itself."""

    value: object

    def __call__(self, _: list[Any]) -> object:
        return self.value

    def same(self, other: object) -> bool:
        """True if a call computes the same with `other` in place of the kept thing."""
        return same_value(self.value, other)


@dataclasses.dataclass(frozen=True)
class _Apart:
    """A container taken apart."""

    kind: str
    places: list[str]
    """The path from the container to each part, as Python code."""
    parts: list[object]
    keys: tuple[str, ...] = ()
    cls: type | None = None
    """The class, unless it is list, tuple or dict."""
    make: Maker | None = None
    context: str | None = None
    """The container's other data as text, such as what its registration with PyTorch keeps."""

    def tree(self, items: Sequence[Tree]) -> Tree:
        context = Literal("str", self.context) if self.context is not None else None
        return Tree(self.kind, self.keys, tuple(items), context, _class_name(self.cls) if self.cls else "")


@dataclasses.dataclass
class Flat:
    """Containers taken apart, all the way down."""

    root: str = ""
    """The prefix of the names of kept things."""
    leaves: list[tuple[str, torch.Tensor]] = dataclasses.field(default_factory=list[tuple[str, torch.Tensor]])
    """The tensors in order, each with the path that leads to it."""
    classes: dict[str, Maker] = dataclasses.field(default_factory=dict[str, Maker])
    known: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])
    """The places of containers that are held elsewhere, by `id`: such a container is recorded by its place and not
    taken apart."""

    def take(self, value: object, path: str, above: tuple[object, ...] = (), *, inside: bool = False) -> Tree:
        """Takes `value` apart, which is at `path`. `inside` an object, things that are no constants are kept as they
        are."""
        if isinstance(value, torch.Tensor):
            self.leaves.append((path, value))
            return Tree("leaf")
        if id(value) in self.known:
            return Tree("same", constant=Literal("str", self.known[id(value)]))
        if (apart := _apart(value, path)) is None:
            return self._constant(value, path, inside)
        if any(each is value for each in above):
            raise NotATree(path, value, f"a {type(value).__name__} that holds itself")
        return self.take_parts(apart, value, path, above, inside=inside)

    def take_parts(
        self, apart: _Apart, value: object, path: str, above: tuple[object, ...] = (), *, inside: bool = False
    ) -> Tree:
        inside = inside or _is_plain_object(value)
        parts = zip(apart.parts, apart.places, strict=True)
        tree = apart.tree([self.take(part, path + place, (*above, value), inside=inside) for part, place in parts])
        if apart.cls and apart.make:
            self.classes[_key(tree)] = apart.make
        return tree

    def _constant(self, value: object, path: str, inside: bool) -> Tree:
        literal = to_literal(value)
        if inside and (literal is None or isinstance(value, enum.Enum)):
            if not _has_no_tensor(value):
                why = f"a {_class_name(type(value))}, which may hold tensors where nothing can look for them"
                raise NotATree(path, value, why)
            name = _class_name(cast("type", value if isinstance(value, type) else type(value)))
            tree = Tree("kept", constant=Literal("str", self.root + path), cls=name)
            self.classes[_key(tree)] = Kept(value)
            return tree
        if literal is None:
            raise NotATree(path, value, f"a value of type {_class_name(type(value)).removeprefix('builtins.')}")
        return Tree("constant", constant=literal)


def flatten(value: object, path: str = "") -> tuple[Tree, list[tuple[str, torch.Tensor]]]:
    """The containers of `value` and its tensors in order, each with the path that leads to it."""
    flat = Flat()
    return flat.take(value, path), flat.leaves


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yields everything in containers that is no container itself, tensors or not, with its path."""
    apart = None if isinstance(value, torch.Tensor) else _apart(value, path)
    if apart is None:
        yield path, value
        return
    for part, place in zip(apart.parts, apart.places, strict=True):
        yield from leaves(part, path + place)


def stores(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yields the lists, dicts and objects in containers, whose contents a call can change, with their paths."""
    apart = None if isinstance(value, torch.Tensor) else _apart(value, path)
    if apart is None:
        return
    if can_change(value):
        yield path, value
    for part, place in zip(apart.parts, apart.places, strict=True):
        yield from stores(part, path + place)


def can_change(value: object) -> bool:
    """True if the contents of a container can be changed."""
    return not isinstance(value, (tuple, torch.Size))


def held_by(store: object, path: str, flat: Flat) -> Tree:
    """Takes one list, dict or object apart; the containers in it that `flat` knows are recorded by their places."""
    apart = _apart(store, path)
    assert apart is not None, "a container is one"
    return flat.take_parts(apart, store, path)


def can_become(value: object) -> bool:
    """True if `become` can change the contents of a container; for others only their class knows how."""
    return isinstance(value, (list, dict)) or type(value) not in pytree.SUPPORTED_NODES


def become(store: object, like: object) -> None:
    """Gives a list, dict or object the contents of another of its class."""
    own = cast("Any", store)
    if isinstance(store, (list, dict)):
        refill(own, contents(cast("Store", like)))
    attributes: dict[object, object] = getattr(own, "__dict__", {})
    refill(attributes, dict(getattr(like, "__dict__", {})))
    for name in getattr(own, "__dataclass_fields__", ()):
        if name not in attributes and hasattr(like, name):
            _set(own, name, getattr(like, name))


def _key(tree: Tree) -> str:
    """The key in `Classes` of the maker of a user-defined container or a kept thing."""
    context = str(tree.constant.value) if tree.constant is not None else ""
    return " ".join([tree.cls, context, *tree.keys])


def _apart(value: object, path: str) -> _Apart | None:
    """Takes a container apart, one level deep; None if `value` is no known container."""
    cls = type(value)
    if (names := _field_names(value)) or cls in (list, tuple, torch.Size):
        items = list(cast("list[object]", value))
        places = [f".{name}" for name in names] or [f"[{place}]" for place in range(len(items))]
        own = None if cls in (list, tuple) else cls
        return _Apart("list" if cls is list else "tuple", places, items, names, own, getattr(cls, "_make", cls))
    if cls is dict and all(isinstance(key, str) for key in cast("dict[object, object]", value)):
        pairs = cast("dict[str, object]", value)
        return _Apart("dict", [f"[{key!r}]" for key in pairs], list(pairs.values()), tuple(pairs))
    registered = pytree.SUPPORTED_NODES.get(cls) if cls is not dict else None
    if registered is not None:
        return _as_registered(value, registered)
    mapping = issubclass(cls, dict) or (issubclass(cls, Mapping) and "__dict__" in dir(value))
    if mapping or dataclasses.is_dataclass(cast("type", cls)) or _is_plain_object(value):
        return _by_what_it_holds(value, path)
    return None


_OF_PYTHON = 1 << 9
"""The flag of classes that a `class` statement made."""


def _is_plain_object(value: object) -> bool:
    """True if an object is nothing but its attributes: it can be made from them without a call of its own code."""
    cls = type(value)
    if not hasattr(value, "__dict__") or callable(value) or isinstance(value, enum.Enum):
        return False
    bases = cls.__mro__[:-1]
    own = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    return all(base.__flags__ & _OF_PYTHON and not vars(base).get("__slots__") for base in bases) and not any(
        name in vars(base) for base in bases for name in own
    )


def _has_no_tensor(value: object) -> bool:
    """True if a value can be kept as it is: it holds no tensor, which a graph would have to read at each call."""
    if isinstance(value, (type, enum.Enum, types.ModuleType, types.BuiltinFunctionType)):
        return True
    if isinstance(value, (set, frozenset)):
        return all(to_literal(each) is not None for each in cast("set[object]", value))
    slots = {name for base in type(value).__mro__ for name in _names_of_slots(base) if hasattr(value, name)}
    if not slots and not hasattr(value, "__dict__"):
        return False
    return not reachable([value, *(getattr(value, name) for name in slots)]).tensors


def _names_of_slots(cls: type) -> tuple[str, ...]:
    named = cast("str | tuple[str, ...]", vars(cls).get("__slots__", ()))
    return (named,) if isinstance(named, str) else tuple(named)


def _field_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        return ()
    names = "__match_args__" if type(cast("object", value)).__module__ == "torch.return_types" else "_fields"
    return tuple(cast("tuple[str, ...]", getattr(cast("object", value), names, ())))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _as_registered(value: object, node: pytree.NodeDef) -> _Apart:
    parts, context = node.flatten_fn(value)
    places = [f"[{place}]" for place in range(len(parts))]
    if node.flatten_with_keys_fn is not None:
        places = [str(key) for key, _ in node.flatten_with_keys_fn(value)[0]]

    def make(items: list[Any]) -> object:
        return node.unflatten_fn(items, context)

    text = _ADDRESS.sub("", repr(context))
    return _Apart("object", places, list(parts), tuple(places), type(value), make, text)


def _by_what_it_holds(value: object, path: str) -> _Apart:
    """Takes apart a mapping's items, then attributes. An attribute that is one of the items, as in a `ModelOutput`, is
    no part."""
    stored = _items_of(value)
    for key in stored:
        if to_literal(key) is None:
            raise NotATree(path, key, f"the dict key {key!r} is not a string or number")
    names = [name for name in getattr(type(value), "__dataclass_fields__", ()) if hasattr(value, name)]
    names += [name for name in getattr(value, "__dict__", ()) if name not in names]
    stated = cast("dict[str, object]", getattr(value, "__dict__", {}))
    held = {name: stated[name] if name in stated else getattr(value, name) for name in names}
    same = {
        name: next(key for key, item in stored.items() if item is part)
        for name, part in held.items()
        if any(item is part for item in stored.values()) and to_literal(part) is None
    }
    own = {name: part for name, part in held.items() if name not in same}
    factory = getattr(value, "default_factory", None) if issubclass(type(value), defaultdict) else None

    def make(parts: list[Any]) -> object:
        given = dict(zip(stored, parts, strict=False))
        attributes = dict(zip(own, parts[len(stored) :], strict=True))
        return _made(type(value), given, attributes | {name: given[key] for name, key in same.items()}, factory)

    places = [*(f"[{key!r}]" for key in stored), *(f".{name}" for name in own)]
    text = "".join(f"{name}=[{key!r}]" for name, key in same.items())
    return _Apart("object", places, [*stored.values(), *own.values()], tuple(places), type(value), make, text)


def _items_of(value: object) -> dict[object, object]:
    """The items that a dict holds, read past its class's own look-up; empty for anything else."""
    base = next((each for each in (OrderedDict, dict) if issubclass(type(value), each)), None)
    return dict(cast(Any, base).items(value)) if base is not None else {}


def _made(cls: type, items: dict[object, object], attributes: dict[str, object], factory: object) -> object:
    base = next((each for each in (OrderedDict, defaultdict, dict) if issubclass(cls, each)), object)
    result = cast(Any, base).__new__(cls)
    for key, item in items.items():
        cast(Any, base).__setitem__(result, key, item)
    for name, part in attributes.items():
        _set(result, name, part)
    if factory is not None:
        result.default_factory = factory
    return result


def _set(value: object, name: str, part: object) -> None:
    """Sets an attribute of an object past its class's own `__setattr__`."""
    if isinstance(inspect.getattr_static(type(value), name, None), types.MemberDescriptorType):
        object.__setattr__(value, name, part)
    else:
        vars(value)[name] = part


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


NOWHERE: Mapping[str, object] = MappingProxyType({})


def rebuild(
    tree: Tree, leaves: list[torch.Tensor], classes: Classes = NO_CLASSES, places: Mapping[str, object] = NOWHERE
) -> object:
    """Puts `leaves` back into their containers. A container whose class `classes` does not have becomes a plain tuple.

    `places` has the containers that exist already; those that the call changed get their new contents.
    """
    return _rebuild(tree, iter(leaves), classes, places)


def _rebuild(tree: Tree, leaves: Iterator[torch.Tensor], classes: Classes, places: Mapping[str, object]) -> object:
    if tree.kind == "leaf":
        return next(leaves)
    if tree.kind == "constant":
        assert tree.constant is not None
        return from_literal(tree.constant)
    if tree.kind == "same":
        assert tree.constant is not None
        return places[str(tree.constant.value)]
    items = [_rebuild(item, leaves, classes, places) for item in tree.items]
    if tree.kind == "dict":
        return dict(zip(tree.keys, items, strict=True))
    if tree.kind == "list":
        return items
    if tree.kind == "call":
        for place, left in zip(tree.keys[1:], items[1:], strict=True):
            become(places[place], left)
        return items[0]
    return classes.get(_key(tree), tuple)(items)
