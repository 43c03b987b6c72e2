"""The contents of lists and dicts, read past the methods of a user's subclass.

A dict may make what it is asked for anew at each look. What it holds is put back as it was, not as what it made.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

Store = list[object] | dict[object, object]


def contents(store: Store) -> Store:
    """A plain list or dict of the very objects that a list or dict holds, in its order."""
    own = _own_class(store)
    if isinstance(store, list):
        return own.__getitem__(store, slice(None))
    return {key: own.__getitem__(store, key) for key in own.__iter__(store)}


def item(key: object, store: Any) -> object:
    """The object at a place of a list, dict or tuple."""
    return _own_class(store).__getitem__(store, key)


def refill(store: Store, held: Store) -> None:
    """Has it hold these objects instead of what it holds."""
    own = _own_class(store)
    if isinstance(held, list):
        own.__setitem__(store, slice(None), held)
        return
    own.clear(store)
    for key, value in held.items():
        own.__setitem__(store, key, value)


def _own_class(store: object) -> Any:
    """The class of Python's own that keeps its items: an ordered dict has a list of the keys beside."""
    kinds: tuple[Any, ...] = (OrderedDict, dict, list, tuple)
    return next(each for each in kinds if isinstance(store, each))
