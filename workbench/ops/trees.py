"""The containers around tensors: taking them off before a graph, putting them back after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import torch

from workbench.ir import Tree
from workbench.ops.literals import from_literal, to_literal

Classes = Mapping[str, type]
"""The tuple classes that a call met, by the names that its trees have for them."""

NO_CLASSES: Classes = MappingProxyType({})


class NotATree(TypeError):
    """Something in the containers is no tensor, tuple, list, dict or plain constant."""

    def __init__(self, path: str, value: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.value, self.why = path, value, why


def flatten(value: object, path: str = "") -> tuple[Tree, list[tuple[str, torch.Tensor]]]:
    """The containers of `value` and its tensors in order, each with the path that leads to it."""
    if isinstance(value, torch.Tensor):
        return Tree("leaf"), [(path, value)]
    if (items := _items(value)) is not None:
        names = _field_names(value)
        places = [f".{name}" for name in names] or [f"[{i}]" for i in range(len(items))]
        parts = [flatten(item, path + place) for item, place in zip(items, places, strict=True)]
        cls = type(value)
        kind = "list" if cls is list else "tuple"
        own = "" if cls in (tuple, list) else _class_name(cls)
        inner = tuple(tree for tree, _ in parts)
        return Tree(kind, names, inner, cls=own), [leaf for _, leaves in parts for leaf in leaves]
    if type(value) is dict:
        pairs = cast("dict[object, object]", value)
        for key in pairs:
            if not isinstance(key, str):
                raise NotATree(path, key, f"the dict key {key!r} is not a string")
        items = [flatten(item, f"{path}[{key!r}]") for key, item in pairs.items()]
        keys = tuple(str(key) for key in pairs)
        trees = tuple(tree for tree, _ in items)
        return Tree("dict", keys, trees), [leaf for _, leaves in items for leaf in leaves]
    literal = to_literal(value)
    if literal is None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise NotATree(path, value, f"a value of type {kind}")
    return Tree("constant", constant=literal), []


def classes_in(value: object) -> dict[str, type]:
    """The tuple classes in the containers of `value`, by the names its tree has for them."""
    items, cls = _items(value), type(value)
    found = {} if items is None or cls in (tuple, list) else {_class_name(cls): cls}
    if isinstance(value, dict):
        items = list(cast("dict[object, object]", value).values())
    for item in items or ():
        found |= classes_in(item)
    return found


def _items(value: object) -> list[object] | None:
    """What is in a list, a tuple, or one of a class made of its items alone: a named tuple, what torch returns."""
    if type(value) in (list, tuple, torch.Size) or _field_names(value):
        return list(cast("list[object]", value))
    return None


def _field_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        return ()
    names = "__match_args__" if type(cast("object", value)).__module__ == "torch.return_types" else "_fields"
    return tuple(cast("tuple[str, ...]", getattr(cast("object", value), names, ())))


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def rebuild(tree: Tree, leaves: list[torch.Tensor], classes: Classes = NO_CLASSES) -> object:
    """`leaves` back in their containers. A tuple class that `classes` does not have becomes a plain tuple."""
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
    own = cast(Any, classes.get(tree.cls, tuple))
    return own._make(items) if hasattr(own, "_make") else own(items)
