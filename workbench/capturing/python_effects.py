"""Changes that a call makes in Python: to numbers, texts and objects in variables, attributes, lists, dicts, sets and
deques, to classes, modules and arrays of numpy, and to iterators.

A graph does not contain such changes: a step that counts, or fills a list, would do so only once, at the trace.
"""

from __future__ import annotations

import contextlib
import types
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from operator import length_hint
from typing import Any, cast

import torch
from torch.optim import Optimizer

from workbench.capturing.named_values import Named, Owner
from workbench.capturing.tensor_copies import assign, stores_of, value_of
from workbench.operators.tensors.raw_contents import Store, contents
from workbench.operators.tensors.reachable_tensors import attributes_of, variables
from workbench.operators.tensors.same_value import differing


@contextlib.contextmanager
def python_effects(containers: Iterable[object], named: Named) -> Generator[list[str]]:
    """Yields a list; after the block the list has the names of all that the block changed. Variables, sets, deques,
    arrays, classes and modules are put back; the caller puts back all else. An iterator cannot go back.

    Tensors and parameter groups of optimizers are left out: other code handles them.
    """
    containers = list(containers)
    apart = _looked_after(containers)
    watched = [each for each in containers if id(each) not in apart]
    functions = [each for each in watched if isinstance(each, types.FunctionType)]
    kept = {
        (id(place), name): (place, name, value_of(place, name)) for each in functions for place, name in variables(each)
    }
    stores = [(each, store, contents(store)) for each in watched for store in stores_of(each)]
    loose = [cast("set[Any] | deque[Any]", each) for each in watched if isinstance(each, (set, deque))]
    members = [(each, list(each)) for each in loose]
    numbers = [(each, _numbers(each)) for each in watched if isinstance(each, Optimizer)]
    owned = [(owner, owner.values()) for owner in named.owners.values()]
    arrays = [(path, array, array.copy()) for path, array in named.arrays.items()]
    iterators = [(path, each, _how_far(each)) for path, each in named.iterators.items()]
    found: list[str] = []
    try:
        yield found
    finally:
        for place, name, old in kept.values():
            if not _same(value_of(place, name), old):
                found.append(name)
                assign(place, name, old)
        for owner, store, old in stores:
            found += [
                _shown(owner, key, watched)
                for key in _changed(contents(store), old)
                if not (isinstance(owner, Optimizer) and key in _OF_TORCH)
            ]
        for owner, old in members:
            if _changed(list(owner), old):
                found.append(_called(owner, watched))
                owner.clear()
                owner.extend(old) if isinstance(owner, deque) else owner.update(old)
        for owner, old in numbers:
            now = _numbers(owner)
            names = dict.fromkeys(name for _, name in cast("list[tuple[int, str]]", _changed(now, old)))
            found += [f"{type(owner).__name__}.state[...][{name!r}]" for name in names]
        for owner, old in owned:
            found += [f"{owner.name}.{name}" for name in _put_back(owner, old)]
        for path, array, old in arrays:
            if array.shape != old.shape or array.tobytes() != old.tobytes():
                found.append(f"the array {path}")
                array.resize(old.shape, refcheck=False) if array.shape != old.shape else None
                array[...] = old
        found += [f"how far {path} has come" for path, each, old in iterators if _how_far(each) != old]


def _put_back(owner: Owner, old: dict[str, object]) -> list[str]:
    """Gives changed attributes their old values again, and returns their names."""
    changed = cast("list[str]", _changed(cast("Store", owner.values()), cast("Store", old)))
    for name in changed:
        if name in old:
            setattr(owner.itself, name, old[name])
        else:
            delattr(owner.itself, name)
    return changed


def _how_far(iterator: Iterator[object]) -> object:
    if isinstance(iterator, types.GeneratorType):
        return iterator.gi_frame and iterator.gi_frame.f_lasti
    return repr(iterator) if type(iterator).__name__ == "count" else length_hint(iterator, -1)


_OF_TORCH = frozenset(("state", "param_groups", "_opt_called"))
"""Attributes of optimizers that PyTorch itself changes, or whose contents other code handles."""


def _looked_after(containers: Iterable[object]) -> set[int]:
    """The lists and dicts, by `id`, in which optimizers keep tensors and parameter groups."""
    found: set[int] = set()
    for each in containers:
        if isinstance(each, Optimizer):
            state = cast("dict[Any, object]", each.state)
            found |= {id(each.param_groups), id(state), *map(id, each.param_groups), *map(id, state.values())}
    return found


def _numbers(optimizer: Optimizer) -> dict[Any, Any]:
    """Returns the entries of an optimizer's state that are no tensors, by the parameter's `id` and the name."""
    state = cast("dict[Any, dict[str, object]]", optimizer.state)
    return {
        (id(key), name): value
        for key, entries in state.items()
        for name, value in entries.items()
        if value is not None and not isinstance(value, torch.Tensor)
    }


def _changed(store: Store, old: Store) -> list[object]:
    if isinstance(store, list):
        before = cast("list[Any]", old)
        same = len(store) == len(before) and all(map(_same, store, before))
        return [] if same else [None]
    return differing(cast("dict[Any, Any]", old), store, _same)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    plain = (bool, int, float, complex, str, bytes)
    return type(one) is type(other) and isinstance(one, plain) and one == other


def _shown(owner: object, key: object, watched: Iterable[object]) -> str:
    if isinstance(owner, list):
        return _called(cast("list[object]", owner), watched)
    if isinstance(owner, dict):
        at = "a tensor" if isinstance(key, torch.Tensor) else f"{key!r:.80}"
        return f"{_called(cast('dict[object, object]', owner), watched)} at {at}"
    return f"{type(owner).__name__}.{key}"


def _called(owner: object, watched: Iterable[object]) -> str:
    """The kind of a container, with the variable or attribute that holds it, if there is one."""
    kind = type(owner).__name__
    for each in watched:
        if isinstance(each, types.FunctionType):
            names = [name for place, name in variables(each) if value_of(place, name) is owner]
        else:
            own = (attributes_of(each) or {}).items()
            names = [f"{type(each).__name__}.{name}" for name, value in own if value is owner]
        if names:
            return f"the {kind} {names[0]}"
    return f"a {kind}"
