"""Tensors without data that a traced step left behind, for example in a cache where a later call would find them."""

from __future__ import annotations

import contextlib
import functools
import gc
import traceback
import weakref
from collections.abc import Generator, Iterable
from typing import Any, cast

import torch

from workbench.ground import errors
from workbench.ground.environment.call_sites import place_text
from workbench.ground.torch_inside.fake_tensors import FakeTensor
from workbench.ground.torch_inside.pytrees import tree_leaves


class StepTensors:
    """The living tensors that a traced step made, each with the stack of the call that made it."""

    def __init__(self, caches: Iterable[Cache]) -> None:
        """`caches` are the caches found in the step. The garbage collector lists others, unless its objects are
        frozen."""
        self.caches = tuple(caches)
        self._noted: list[tuple[weakref.ref[torch.Tensor], str]] = []

    def note(self, made: object, stack: str) -> None:
        for each in tree_leaves(made):
            if isinstance(each, FakeTensor):
                self._noted.append((weakref.ref(cast("torch.Tensor", each)), stack))

    def alive(self) -> dict[int, tuple[torch.Tensor, str]]:
        """The living tensors and their stacks, by `id`."""
        found = [(tensor, stack) for ref, stack in self._noted if (tensor := ref()) is not None]
        return {id(tensor): (tensor, stack) for tensor, stack in found}


@contextlib.contextmanager
def no_tensors_left(name: str, caches: Iterable[Cache]) -> Generator[StepTensors]:
    """Refuses a step whose tensors without data are still held somewhere afterwards, and removes them from there.

    After an error, whose frames hold some of the tensors, only caches of functions are emptied: other containers are
    put back by the code that found them.
    """
    made = StepTensors(caches)
    try:
        yield made
    except errors.WorkbenchError as error:
        _let_go(error)
        _emptied_caches(made)
        raise
    except Exception:
        _emptied_caches(made)
        raise
    if made.alive():
        gc.collect()  # the rest of the graph and of autograd's objects is in reference cycles
    places = {*_emptied_caches(made), *_emptied_containers(made)}
    if places:
        raise errors.NoTrainingStep(
            name,
            "it keeps a tensor that it makes where later calls find it, as functools.lru_cache does, and a trace has "
            "no numbers to keep",
            "Call the function once in PyTorch before the trace, so that the tensor is there, or make it outside of "
            "the step",
            min(places),
        )


def _let_go(error: BaseException | None) -> None:
    """Frees the tensors that the frames of a refusal hold; an error of the user's own keeps its frames for a
    debugger."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _emptied_caches(made: StepTensors) -> list[str]:
    """Empties the caches of functions that hold such tensors; returns the places of the calls that made the tensors."""
    if not (alive := made.alive()):
        return []
    found: list[str] = []
    for function in [*made.caches, *(each for each in gc.get_objects() if type(each) is _CACHE)]:
        stacks = [alive[id(each)][1] for each in cached(function) if id(each) in alive]
        found += map(place_text, stacks)
        if stacks:
            function.cache_clear()
    return found


_CACHE = type(functools.cache(StepTensors))


def _emptied_containers(made: StepTensors) -> list[str]:
    """Removes such tensors from dicts, lists and sets; returns the places of the calls that made them."""
    if not (alive := made.alive()):
        return []
    found: list[str] = []
    own = {id(alive), *map(id, alive.values())}
    for holder in gc.get_referrers(*(tensor for tensor, _ in alive.values())):
        if id(holder) in own or not isinstance(holder, (dict, list, set)):
            continue
        found += [place_text(alive[key][1]) for key in _dropped(cast(Any, holder), alive)]
    return found


def _dropped(holder: Any, alive: dict[int, tuple[torch.Tensor, str]]) -> list[int]:
    if isinstance(holder, dict):
        held = cast("dict[Any, Any]", holder)
        keys = [key for key, value in held.items() if id(value) in alive]
        return [id(held.pop(key)) for key in keys]
    gone = [each for each in cast("list[Any] | set[Any]", holder) if id(each) in alive]
    if isinstance(holder, list):
        holder[:] = [each for each in cast("list[Any]", holder) if id(each) not in alive]
    else:
        cast("set[Any]", holder).difference_update(gone)
    return [id(each) for each in gone]


Cache = Any
"""A function under `functools.lru_cache`."""


def is_cache(value: object) -> bool:
    return hasattr(value, "cache_clear") and hasattr(value, "__wrapped__")


def cached(function: Cache) -> list[torch.Tensor]:
    """The tensors in the cache of a function under `functools.lru_cache`."""
    apart = getattr(function, "__dict__", None)
    left = [each for each in gc.get_referents(function) if each is not apart]
    found = list[torch.Tensor]()
    while left:
        each = left.pop(0)
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif type(each) in (tuple, list, dict):
            left += cast("list[Any]", [*each.values()] if type(each) is dict else [*each])
    return found
