"""The containers around tensors: taking them off before a graph, putting them back after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from workbench.ir import Tree
from workbench.ops.literals import from_literal, to_literal


class NotATree(TypeError):
    """Something in the containers is no tensor, tuple, list, dict or plain constant."""

    def __init__(self, path: str, value: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.value, self.why = path, value, why


def flatten(value: object, path: str = "") -> tuple[Tree, list[tuple[str, torch.Tensor]]]:
    """The containers of `value` and its tensors in order, each with the path that leads to it."""
    if isinstance(value, torch.Tensor):
        return Tree("leaf"), [(path, value)]
    if type(value) in (tuple, list):
        items = [flatten(item, f"{path}[{i}]") for i, item in enumerate(cast("list[object]", value))]
        kind = "tuple" if isinstance(value, tuple) else "list"
        return Tree(kind, items=tuple(tree for tree, _ in items)), [leaf for _, leaves in items for leaf in leaves]
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


def rebuild(tree: Tree, leaves: list[torch.Tensor]) -> object:
    """`leaves` back in their containers."""
    return _rebuild(tree, iter(leaves))


def _rebuild(tree: Tree, leaves: Iterator[torch.Tensor]) -> object:
    if tree.kind == "leaf":
        return next(leaves)
    if tree.kind == "constant":
        assert tree.constant is not None
        return from_literal(tree.constant)
    items = [_rebuild(item, leaves) for item in tree.items]
    if tree.kind == "dict":
        return dict(zip(tree.keys, items, strict=True))
    return tuple(items) if tree.kind == "tuple" else items
