"""The lists, dicts and objects among a call's arguments, and what the call leaves in them: a cache, for instance, grows
by each call.

The graph of a call that changes their contents returns the new contents as results; a run writes them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from workbench.ground.errors import HiddenState, SharedElements
from workbench.ir import Tree
from workbench.operators.tensors import containers
from workbench.operators.tensors.containers import Flat

Contents = tuple[Tree, list[tuple[str, torch.Tensor]]]


@dataclass(frozen=True)
class CallContainers:
    """The lists, dicts and objects in the arguments of a call, and what they held before it."""

    name: str
    places: Mapping[str, object]
    """The containers by their places in the pair of positional and keyword arguments."""
    before: Mapping[str, Contents]

    @staticmethod
    def of(args: Sequence[object], kwargs: Mapping[str, object], name: str) -> CallContainers:
        places = dict(containers.stores((tuple(args), dict(kwargs))))
        places.pop("[1]", None)  # each call has a new dict of keyword arguments
        given = CallContainers(name, places, {})
        return CallContainers(name, places, {place: given._contents(place, Flat()) for place in places})

    def after(self, returned: object) -> tuple[Tree, Flat]:
        """Takes apart the result of the call and the containers that the call changed."""
        flat = self._flat("result")
        result = flat.take(returned, "")
        changed = [place for place in self.places if not _same(self._contents(place, Flat()), self.before[place])]
        if any(not containers.can_become(self.places[place]) for place in changed):
            raise HiddenState(self.name, "a container among its arguments")
        flat.root = "left"
        left = [self._contents(place, flat)[0] for place in changed]
        if not left and not _has_same(result):
            return result, flat
        return Tree("call", ("", *changed), (result, *left)), flat

    def refuse_twice(self, tree: Tree) -> None:
        """Refuses a call that changes a container which is passed at two places: the graph treats it as two
        containers."""
        for place in tree.keys[1:] if tree.kind == "call" else ():
            for other, store in self.places.items():
                if other != place and store is self.places[place]:
                    raise SharedElements(
                        f"{self.name} puts other things into the {type(store).__name__} at {place_in_call(place)}, and "
                        f"is given the very same at {place_in_call(other)}. The graph was captured with separate ones "
                        "and would change only one of them: give a copy as one of the two"
                    )

    def _flat(self, root: str) -> Flat:
        return Flat(root, known={id(store): place for place, store in self.places.items()})

    def _contents(self, place: str, flat: Flat) -> Contents:
        """The contents of a container; for containers in it that are arguments too, only the places."""
        flat.known = self._flat("").known
        return containers.held_by(self.places[place], place, flat), flat.leaves


def _same(now: Contents, before: Contents) -> bool:
    tensors = zip(now[1], before[1], strict=False)
    return now[0] == before[0] and all(one is other for (_, one), (_, other) in tensors)


def _has_same(tree: Tree) -> bool:
    return tree.kind == "same" or any(map(_has_same, tree.items))


def place_in_call(place: str) -> str:
    """`inputs[0].layers` for `[0][0].layers`."""
    return place.replace("[0]", "inputs", 1) if place.startswith("[0]") else place.replace("[1]", "kwargs", 1)
