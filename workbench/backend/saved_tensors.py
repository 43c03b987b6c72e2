"""What lies between a forward pass and its backward pass: memory of its own, and the hooks that a user sets on it."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from typing_extensions import TypeIs

from workbench.operators.tensors.tensor_memory import memory_of


def apart(results: Sequence[object], places: Collection[int], given: Sequence[object] = ()) -> list[object]:
    """The results, those at `places` in memory of their own: apart from what is given and from all other results.

    Tensors of one memory that are no views of each other do not know when the other is changed."""
    taken = {memory_of(each) for each in given if _in_memory(each)}
    owners = {id(each): memory_of(each) for each in results if _in_memory(each)}
    made = list(results)
    for place, each in enumerate(results):
        if place not in places or not _in_memory(each):
            continue
        others = (memory for other, memory in owners.items() if other != id(each))
        if memory_of(each) in taken or memory_of(each) in others:
            made[place] = each.clone()
            owners.pop(id(each), None)
    return made


def _in_memory(value: object) -> TypeIs[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def kept_by_hooks() -> bool:
    """Whether a user's hooks, such as those of `torch.utils.checkpoint`, take what is kept."""
    return cast(Any, torch)._C._autograd._top_saved_tensors_default_hooks(True) is not None


@contextmanager
def unseen_by_hooks() -> Generator[None]:
    """A graph is compiled in the middle of a call: what that walk keeps is not the user's hooks' business, such as
    those of `torch.utils.checkpoint`, which count."""
    stack = cast(Any, torch)._C._autograd
    hooks: list[tuple[Any, Any]] = []
    while (top := stack._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        stack._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            stack._push_saved_tensors_default_hooks(pack, unpack)
