"""Tensors that a training step changes besides parameters and buffers: gradients, and the states of optimizers.

Each such tensor has a place, a parameter's `.grad` or an entry of an optimizer's state. A place may be empty before the
first step, and `zero_grad()` drops a gradient again. A graph has no empty places, so an empty place gets a tensor from
which the first step computes like all later steps: zeros for a gradient that a step adds to, and the optimizer's own
initial tensor for its state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import torch
from torch import nn
from torch.optim import Optimizer

from workbench.capturing.named_values import Named, named_by, shown_value
from workbench.capturing.step_conditions import Conditions, conditions
from workbench.ground import errors
from workbench.ir import AtenGraph
from workbench.operators.tensors.reachable_tensors import Held, Reachable
from workbench.operators.tensors.same_value import differing, same_value

Initial = Callable[[], torch.Tensor]
"""Makes the tensor for a place that is empty before the first step."""


@dataclass(frozen=True)
class Place:
    """The place of a gradient, or of a tensor in an optimizer's state."""

    kind: str
    """gradient or state."""
    path: str
    read: Callable[[], torch.Tensor | None]
    put: Callable[[torch.Tensor | None], None]
    initial: Initial | None = None
    """Makes the tensor for the place, if the place may be empty."""
    emptied: bool = False
    """True if the step leaves the place empty, as `zero_grad()` does."""

    def now(self) -> torch.Tensor:
        """The tensor in the place, or the initial tensor for an empty place."""
        found = self.read()
        if found is not None:
            return found
        if self.initial is None:
            raise LookupError(f"{self.path} is empty")
        return self.initial()


@dataclass(frozen=True)
class _Owner:
    """An optimizer's path, and a function that returns the optimizer."""

    path: str
    read: Callable[[], Optimizer]


_STEADY: Final[Mapping[str, str]] = {
    key: "make the scheduler that changes it with cycle_momentum=False" for key in ("betas", "momentum")
}
"""Advice about numbers that optimizers do not take as tensors."""


@dataclass(frozen=True)
class TrainingState:
    """All places of one training step, and the numbers that its optimizers were traced with."""

    name: str
    leaves: tuple[Held, ...]
    """Tensors that have a gradient of their own or may get one: also frozen parameters, and all tensors of
    optimizers."""
    owners: tuple[_Owner, ...]
    held: Reachable
    target: object
    named: Named
    """The values that the step's code named in Python at the trace."""
    before: Conditions
    """Flags of modules and parameters at the trace."""
    groups: tuple[tuple[int, ...], ...] = ()
    """The `id`s of the parameters in each parameter group; `leaves` keep these parameters alive."""
    had: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """For each leaf that gets no gradient from the step itself: True if it had a gradient at the trace."""
    options: tuple[dict[str, object], ...] = ()
    """The numbers and flags of each parameter group, which are part of the graph."""
    places: tuple[Place, ...] = field(default=())
    """The places that the graph reads or changes."""
    idle: tuple[str, ...] = ()
    """The optimizers' steps that find no gradient, in words."""

    @staticmethod
    def of(name: str, held: Reachable, target: object, named: Named) -> TrainingState:
        """Returns the state of a step that can reach these tensors and optimizers."""
        owners = tuple(_Owner(path, cast("Callable[[], Optimizer]", read)) for path, read in held.optimizers.values())
        groups = tuple(tuple(map(id, _parameters(group))) for each in owners for group in each.read().param_groups)
        own = {key for group in groups for key in group}
        leaves = tuple(each for key, each in held.tensors.items() if key in own or _may_have_gradient(each.tensor))
        had = {each.path: each.tensor.grad is not None for each in leaves}
        made = TrainingState(name, leaves, owners, held, target, named, conditions(leaves, held), groups, had)
        return replace(made, options=made._options())

    def walked(self, places: tuple[Place, ...], reached: Collection[int], idle: Sequence[str]) -> TrainingState:
        """Returns the state with these places, for a step whose backward passes reach the tensors with these `id`s."""
        filled = {place.path for place in places if place.kind == "gradient"}
        paths = [each.path for each in self.leaves if id(each.tensor) not in reached]
        had = {path: self.had[path] for path in paths if self.had[path] or f"{path}.grad" not in filled}
        return replace(self, places=places, had=had, idle=tuple(dict.fromkeys(idle)))

    def found(self) -> dict[tuple[str, str], Place]:
        """The places that hold a tensor now, by kind and path."""
        paths = {id(each.tensor): each.path for each in self.leaves}
        places = [_gradient(each) for each in self.leaves if each.tensor.grad is not None]
        for owner in self.owners:
            for key, entries in cast("Mapping[Any, Mapping[str, object]]", owner.read().state).items():
                path = paths.get(id(key), f"tensor {id(key):#x}") if isinstance(key, torch.Tensor) else str(key)
                names = [name for name, value in entries.items() if isinstance(value, torch.Tensor)]
                places += [_state(owner, key, path, name) for name in names]
        return {(place.kind, place.path): place for place in places}

    def changed_options(self) -> str:
        """The names of the optimizers' numbers that have changed since the trace."""
        pairs = zip(self.options, self._options(), strict=False)
        return ", ".join(dict.fromkeys(key for then, now in pairs for key in differing(then, now, _same_option)))

    def refuse_changed(self, graph: AtenGraph) -> None:
        """Refuses a call under other conditions than at the trace: the conditions are part of the graph."""
        self._refuse_other_options()
        for leaf in self.leaves:
            if leaf.kind == "parameter" and leaf.read() is not leaf.tensor:
                raise self._changed(f"{leaf.path} is another parameter now than when the step was traced")
        now = conditions(self.leaves, self.held)
        for what, value in self.before.items():
            if now.get(what) != value:
                raise self._changed(f"{what} was {value} when the step was traced, and is {now.get(what)} now")
        self._refuse_other_values()
        read = {slot.path for slot in graph.inputs}
        for leaf in self.leaves:
            had, has = self.had.get(leaf.path), leaf.tensor.grad is not None
            if had is None or had == has or (had and f"{leaf.path}.grad" not in read):
                continue
            was, is_now = ("a gradient", "none") if had else ("no gradient", "one")
            raise self._changed(
                f"{leaf.path}, to which the step's backward pass gives no gradient, had {was} when the step was "
                f"traced, and has {is_now} now: optimizers leave out parameters without one"
            )

    def _refuse_other_values(self) -> None:
        then, now = self.named.values, named_by(self.target, self.named.names).values
        for path in differing(then, now, same_value):
            was, is_now = (shown_value(each[path]) if path in each else "not there" for each in (then, now))
            raise self._changed(
                f"{path or self.name} was {was} when the step was traced, and is {is_now} now",
                ", or let the step read a number that changes from a tensor",
            )

    def _changed(self, what: str, advice: str = "") -> errors.InputMismatch:
        return errors.InputMismatch(f"{self.name}: {what}. The graph follows from it: trace again{advice}")

    def _refuse_other_options(self) -> None:
        for number, (then, now) in enumerate(zip(self.options, self._options(), strict=False)):
            for key in differing(then, now, _same_option):
                was, is_now = (f"{found[key]!r}" if key in found else "a tensor or missing" for found in (then, now))
                raise errors.InputMismatch(
                    f"{self.name}: the optimizer's {key} was {was} when the step was traced, and is {is_now} now "
                    f"(parameter group {number}). Numbers of an optimizer are part of the graph: trace again, or "
                    f"{_STEADY.get(key, 'give a number that changes as a tensor: lr=torch.tensor(0.1)')}"
                )
        if len(self.options) != len(self._options()):
            raise errors.InputMismatch(
                f"{self.name}: its optimizers had {len(self.options)} parameter groups when it was traced, and have "
                f"{len(self._options())} now: trace again"
            )
        groups = [group for owner in self.owners for group in owner.read().param_groups]
        for number, (then, now) in enumerate(zip(self.groups, groups, strict=True)):
            if then != tuple(map(id, _parameters(now))):
                raise self._changed(f"parameter group {number} has other parameters now than when the step was traced")

    def _options(self) -> tuple[dict[str, object], ...]:
        groups = [group for owner in self.owners for group in owner.read().param_groups]
        return tuple(
            {key: value for key, value in group.items() if key != "params" and not isinstance(value, torch.Tensor)}
            for group in groups
        )

    @contextlib.contextmanager
    def as_before(self) -> Generator[None]:
        """Puts back gradients, optimizers' states and parameter groups after the block."""
        optimizers = [owner.read() for owner in self.owners]
        gradients = [(each.tensor, each.tensor.grad) for each in self.leaves]
        states = [{key: dict(entries) for key, entries in each.state.items()} for each in optimizers]
        groups = [[dict(group) for group in each.param_groups] for each in optimizers]
        try:
            yield
        finally:
            for tensor, gradient in gradients:
                tensor.grad = gradient
            for optimizer, state, own in zip(optimizers, states, groups, strict=True):
                for key in [key for key in optimizer.state if key not in state]:
                    del optimizer.state[key]
                for key, entries in state.items():
                    _hold_again(optimizer.state[key], entries)
                for group, kept in zip(optimizer.param_groups, own, strict=False):
                    _hold_again(group, kept)

    @contextlib.contextmanager
    def holding(self, tensors: Mapping[str, torch.Tensor]) -> Generator[None]:
        """Fills the places with these tensors, by their paths, and empties the other gradients. After the block, copies
        what a call left in a place into the place's tensor, and puts everything back."""
        with self.as_before(), torch.enable_grad():
            for leaf in self.leaves:
                leaf.tensor.grad = None
            places = [place for place in self.places if place.path in tensors]
            for place in places:
                if place.read() is not tensors[place.path]:
                    place.put(tensors[place.path])
            yield
            with torch.no_grad():
                for place in places:
                    now, tensor = place.read(), tensors[place.path]
                    if now is not None and now is not tensor:
                        tensor.copy_(now)

    def settle(self, graph: AtenGraph, values: Sequence[torch.Tensor]) -> None:
        """Puts the tensors of a run into empty places, and empties the places that the step empties."""
        given = {slot.path: value for slot, value in zip(graph.inputs, values, strict=True)}
        for place in self.places:
            if place.emptied:
                place.put(None)
            elif place.path in given and place.read() is None:
                place.put(given[place.path])


def _hold_again(store: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Puts back entries that are other objects now, and leaves all other entries alone: other threads may read them."""
    for name in [name for name in store if name not in before]:
        del store[name]
    for name, value in before.items():
        if name not in store or store[name] is not value:
            store[name] = value


def _may_have_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_leaf and (tensor.requires_grad or isinstance(tensor, nn.Parameter) or tensor.grad is not None)


def _parameters(group: Mapping[str, Any]) -> Sequence[torch.Tensor]:
    return cast("Sequence[torch.Tensor]", group["params"])


def _same_option(one: object, other: object) -> bool:
    """True if two options are equal; a tensor is only equal to itself, also in a sequence."""
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        pair = cast("Sequence[object]", one), cast("Sequence[object]", other)
        return len(pair[0]) == len(pair[1]) and all(map(_same_option, *pair))
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return one is other
    return same_value(cast("object", one), other)


def _gradient(leaf: Held) -> Place:
    def read() -> torch.Tensor | None:
        return leaf.read().grad

    def put(gradient: torch.Tensor | None) -> None:
        leaf.read().grad = gradient

    return Place("gradient", f"{leaf.path}.grad", read, put, lambda: torch.zeros_like(leaf.read().detach()))


def _state(owner: _Owner, key: Any, path: str, name: str) -> Place:
    def read() -> torch.Tensor | None:
        state = owner.read().state
        return state[key].get(name) if key in state else None

    def put(tensor: torch.Tensor | None) -> None:
        owner.read().state[key][name] = tensor

    return Place("state", f"{owner.path}.state[{path}].{name}", read, put)


def empty_before(
    state: TrainingState, before: Mapping[tuple[str, str], Place], made: Callable[[torch.Tensor], Initial | None]
) -> Iterator[Place]:
    """Yields the places that a call filled, each with a function that makes its tensor for the first step.

    `made` returns such a function for a tensor that was made without data.
    """
    owners: dict[int, Place] = {}
    for key, place in state.found().items():
        first = owners.setdefault(id(place.now()), place)
        if key in before:
            continue
        if first is not place:
            raise errors.NoTrainingStep(
                state.name,
                f"it makes one tensor for {first.path} and {place.path}, which would be two in a graph",
                "Let PyTorch do the first step, and trace the second one",
            )
        if place.kind == "gradient":
            yield place
            continue
        now = place.now()
        initial = made(now) or _initial_momentum(state, place, now)
        if initial is None:
            raise errors.NoTrainingStep(
                state.name,
                f"the first step of its optimizer computes {place.path} in another way than all later ones do",
                "Let PyTorch do the first step, and trace the second one",
            )
        yield replace(place, initial=initial)


def _initial_momentum(state: TrainingState, place: Place, now: torch.Tensor) -> Initial | None:
    """Makes zeros for the momentum of SGD. SGD itself begins with the first gradient, which it would also compute from
    zeros, unless it dampens. Returns None for other states."""
    if not place.path.endswith(".momentum_buffer"):
        return None
    optimizers = [owner.read() for owner in state.owners if place.path.startswith(f"{owner.path}.state[")]
    if any(not isinstance(each, torch.optim.SGD) for each in optimizers):
        return None
    if any(group["dampening"] for each in optimizers for group in each.param_groups):
        return None
    shape, strides, dtype = now.shape, now.stride(), now.dtype
    return lambda: torch.empty_strided(shape, strides, dtype=dtype).zero_()
