"""The contents of lists and dicts, read past the methods of a user's subclass.

A subclass of dict may make a new object at each look-up. These functions read and write the objects that it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

Store = list[object] | dict[object, object]


def contents(store: Store) -> Store:
    """A plain list or dict with the objects that a list or dict really holds, in its order."""
    own = _own_class(store)
    if isinstance(store, list):
        return own.__getitem__(store, slice(None))
    return {key: own.__getitem__(store, key) for key in own.__iter__(store)}


def item(key: object, store: Any) -> object:
    """The object at a place of a list, dict or tuple."""
    return _own_class(store).__getitem__(store, key)


def refill(store: Store, held: Store) -> None:
    """Replaces the contents of a list or dict by those of `held`."""
    own = _own_class(store)
    if isinstance(held, list):
        own.__setitem__(store, slice(None), held)
        return
    own.clear(store)
    for key, value in held.items():
        own.__setitem__(store, key, value)


def _own_class(store: object) -> Any:
    """Python's own class that keeps the items of a list, dict or tuple. An ordered dict is named first: it also keeps
    the order of its keys."""
    kinds: tuple[Any, ...] = (OrderedDict, dict, list, tuple)
    return next(each for each in kinds if isinstance(store, each))
