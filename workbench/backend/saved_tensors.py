"""What lies between a forward pass and its backward pass, in memory of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from typing_extensions import TypeIs

from workbench.ground.torch_inside.tensor_inside import memory_of


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
