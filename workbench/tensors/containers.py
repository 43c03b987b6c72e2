"""The containers around tensors: taking them off before a graph, putting them back after it.

Lists, tuples, named tuples and dicts are known by themselves. So is every class that is registered with PyTorch
(`torch.utils._pytree`), taken apart and made again as its registration says. Dataclasses and other mappings are taken
apart by what they hold, and made again without a call of their own code: what `__init__` would add is there already.
"""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from workbench.ir import Literal, Tree
from workbench.tensors.torch_literals import from_literal, to_literal

Maker = Callable[[list[Any]], object]
"""Makes a container of its parts."""

Classes = Mapping[str, Maker]
"""The makers of user-defined containers that a call met, by `class_key`."""

NO_CLASSES: Classes = MappingProxyType({})


class NotATree(TypeError):
    """Something in the containers is no tensor, no container that is known, and no plain constant."""

    def __init__(self, path: str, value: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.value, self.why = path, value, why


@dataclasses.dataclass(frozen=True)
class _Apart:
    """A container taken apart."""

    kind: str
    places: list[str]
    """The path from it to each part, as Python."""
    parts: list[object]
    keys: tuple[str, ...] = ()
    cls: type | None = None
    """The class, if it is of one of its own."""
    make: Maker | None = None
    context: str | None = None
    """Its other data, such as the keys of a dict."""


def flatten(value: object, path: str = "") -> tuple[Tree, list[tuple[str, torch.Tensor]]]:
    """The containers of `value` and its tensors in order, each with the path that leads to it."""
    if isinstance(value, torch.Tensor):
        return Tree("leaf"), [(path, value)]
    if (apart := _apart(value, path)) is None:
        literal = to_literal(value)
        if literal is None:
            raise NotATree(path, value, f"a value of type {_class_name(type(value)).removeprefix('builtins.')}")
        return Tree("constant", constant=literal), []
    inner = [flatten(part, path + place) for part, place in zip(apart.parts, apart.places, strict=True)]
    own = _class_name(apart.cls) if apart.cls else ""
    context = Literal("str", apart.context) if apart.context is not None else None
    items = tuple(tree for tree, _ in inner)
    return Tree(apart.kind, apart.keys, items, context, own), [leaf for _, leaves in inner for leaf in leaves]


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """All that stands in containers, tensors or not, with the paths; what is no container is a leaf."""
    apart = None if isinstance(value, torch.Tensor) else _apart(value, path)
    if apart is None:
        yield path, value
        return
    for part, place in zip(apart.parts, apart.places, strict=True):
        yield from leaves(part, path + place)


def classes_in(value: object) -> dict[str, Maker]:
    """The makers of the user-defined containers in `value`."""
    apart = None if isinstance(value, torch.Tensor) else _apart(value, "")
    if apart is None:
        return {}
    found: dict[str, Maker] = {}
    if apart.cls and apart.make:
        found[class_key(_class_name(apart.cls), apart.context)] = apart.make
    for part in apart.parts:
        found |= classes_in(part)
    return found


def class_key(cls: str, context: str | None) -> str:
    """What `Classes` calls the maker of one kind of container."""
    return f"{cls} {context}" if context is not None else cls


def _apart(value: object, path: str) -> _Apart | None:
    """None for what is no container that is known."""
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
    if mapping or dataclasses.is_dataclass(cast("type", cls)):
        return _by_what_it_holds(value, path)
    return None


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

    told = _ADDRESS.sub("", repr(context))
    return _Apart("object", places, list(parts), tuple(places), type(value), make, told)


def _by_what_it_holds(value: object, path: str) -> _Apart:
    """A mapping's items, then attributes; an attribute that is one of the items, as in a `ModelOutput`, is no part."""
    stored = _items_of(value)
    for key in stored:
        if to_literal(key) is None:
            raise NotATree(path, key, f"the dict key {key!r} is not a string or number")
    names = [name for name in getattr(type(value), "__dataclass_fields__", ()) if hasattr(value, name)]
    names += [name for name in getattr(value, "__dict__", ()) if name not in names]
    held = {name: getattr(value, name) for name in names}
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
    told = "".join(f"{name}=[{key!r}]" for name, key in same.items())
    return _Apart("object", places, [*stored.values(), *own.values()], tuple(places), type(value), make, told)


def _items_of(value: object) -> dict[object, object]:
    """The items of a dict as it has them, whatever its class makes of a look-up; none for anything else."""
    base = next((each for each in (OrderedDict, dict) if issubclass(type(value), each)), None)
    return dict(cast(Any, base).items(value)) if base is not None else {}


def _made(cls: type, items: dict[object, object], attributes: dict[str, object], factory: object) -> object:
    base = next((each for each in (OrderedDict, defaultdict, dict) if issubclass(cls, each)), object)
    made = cast(Any, base).__new__(cls)
    for key, item in items.items():
        cast(Any, base).__setitem__(made, key, item)
    for name, part in attributes.items():
        object.__setattr__(made, name, part)
    if factory is not None:
        made.default_factory = factory
    return made


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def rebuild(tree: Tree, leaves: list[torch.Tensor], classes: Classes = NO_CLASSES) -> object:
    """`leaves` back in their containers. One of a class that `classes` does not have becomes a plain tuple."""
    return _rebuild(tree, iter(leaves), classes)


def _rebuild(tree: Tree, leaves: Iterator[torch.Tensor], classes: Classes) -> object:
    if tree.kind == "leaf":
        return next(leaves)
    if tree.kind == "constant":
        assert tree.constant is not None
        return from_literal(tree.constant)
    items = [_rebuild(item, leaves, classes) for item in tree.items]
    if tree.kind == "dict":
        return dict(zip(tree.keys, items, strict=True))
    if tree.kind == "list":
        return items
    context = str(tree.constant.value) if tree.constant is not None else None
    return classes.get(class_key(tree.cls, context), tuple)(items)
