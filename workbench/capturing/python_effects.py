"""What a call changes in Python: numbers, texts and objects in variables, attributes, lists and dicts.

A graph knows nothing of them, so a step that counts, or keeps a list, would do so once, when it is traced.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Generator, Iterable
from typing import Any, cast

from torch.optim import Optimizer

from workbench.capturing.tensor_copies import stores_of
from workbench.tensors.raw_contents import Store, contents
from workbench.tensors.reachable_tensors import variables


@contextlib.contextmanager
def python_effects(containers: Iterable[object]) -> Generator[list[str]]:
    """Names, after the block, of what it changed; variables are put back, all else is the caller's task.

    Optimizers are left out: what they keep is looked after by itself.
    """
    watched = [each for each in containers if not isinstance(each, Optimizer)]
    functions = [each for each in watched if isinstance(each, types.FunctionType)]
    kept = {
        (id(place), name): (place, name, _value(place, name)) for each in functions for place, name in variables(each)
    }
    stores = [(each, store, contents(store)) for each in watched for store in stores_of(each)]
    found: list[str] = []
    yield found
    for place, name, old in kept.values():
        if not _same(_value(place, name), old):
            found.append(name)
            _assign(place, name, old)
    for owner, store, old in stores:
        found += [_shown(owner, key) for key in _changed(contents(store), old)]


def _value(place: Any, name: str) -> Any:
    try:
        return place.cell_contents if isinstance(place, types.CellType) else place.get(name)
    except ValueError:  # it has no value yet
        return None


def _assign(place: Any, name: str, value: Any) -> None:
    if isinstance(place, types.CellType):
        place.cell_contents = value
    else:
        place[name] = value


def _changed(store: Store, old: Store) -> list[object]:
    if isinstance(store, list):
        before = cast("list[Any]", old)
        same = len(store) == len(before) and all(map(_same, store, before))
        return [] if same else [None]
    then = cast("dict[Any, Any]", old)
    return [key for key in {**then, **store} if key not in store or key not in then or not _same(store[key], then[key])]


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    plain = (bool, int, float, complex, str, bytes)
    return type(one) is type(other) and isinstance(one, plain) and one == other


def _shown(owner: object, key: object) -> str:
    if isinstance(owner, list):
        return "a list"
    if isinstance(owner, dict):
        return f"a dict at {key!r}"
    return f"{type(owner).__name__}.{key}"
