"""A record, and its ties to the live function: the tensors of a call, and the call's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from workbench.capturing.result_aliases import refuse_shared_memory, refuse_unwritable, returned
from workbench.capturing.user_call import call_arguments, call_form, flatten_inputs
from workbench.ground import errors
from workbench.ground.torch_inside.tensor_inside import is_zero_tensor
from workbench.ir import AtenGraph, Tree
from workbench.operators.tensors import containers
from workbench.operators.tensors.call_containers import CallContainers
from workbench.operators.tensors.containers import NOWHERE
from workbench.operators.tensors.element_types import dtype_name
from workbench.operators.tensors.tensor_memory import is_lazy, plain, unreadable
from workbench.operators.tensors.torch_literals import to_type

if TYPE_CHECKING:
    from workbench.capturing.graph_pieces import Parts
    from workbench.capturing.read_conditions import Conditions
    from workbench.capturing.training_state import TrainingState


def _autocast() -> torch.dtype | None:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def _as_traced(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor as a trace gives it to Dynamo: Dynamo does not read its numbers."""
    if tensor.is_inference():
        with torch.inference_mode(False):
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    as_it_is = not (tensor.requires_grad or is_lazy(tensor) or is_zero_tensor(tensor))
    return tensor if as_it_is and type(tensor) is torch.Tensor else plain(tensor)


@dataclass(frozen=True)
class CapturedProgram:
    """A record, and its ties to the live function that it was captured from."""

    graph: AtenGraph
    breaks: tuple[str, ...]
    _sources: tuple[Callable[[], torch.Tensor], ...] = field(repr=False)
    _classes: containers.Classes = field(repr=False)
    parts: Parts | None = None
    """The callable under Dynamo and its graphs, if it is broken up into several; else None."""
    training: TrainingState | None = None
    """The gradients and optimizers of a training step."""
    conditions: Conditions | None = field(default=None, repr=False)
    """The conditions of the graph beside its inputs; None if something else checks them, or Dynamo cannot read the
    function."""
    autocast: torch.dtype | None = field(default_factory=_autocast)
    """The type of autocast around the trace: the casts are part of the graph."""

    def as_traced(self) -> torch.autocast:
        """Returns a context with the autocast of the trace, whatever autocast is around the caller."""
        return torch.autocast("cpu", self.autocast or torch.bfloat16, enabled=self.autocast is not None)

    def live(self) -> list[torch.Tensor]:
        """Parameters, buffers and closed-over tensors as they are now, in the order of `graph.inputs`."""
        slots = self.graph.inputs[len(self.graph.inputs) - len(self._sources) :]
        return [self._now(slot.path, read) for slot, read in zip(slots, self._sources, strict=True)]

    def _now(self, path: str, read: Callable[[], torch.Tensor]) -> torch.Tensor:
        try:
            return read()
        except (AttributeError, LookupError) as error:
            if self.training is not None and ".state[" in path:
                raise errors.InputMismatch(
                    f"{self.graph.name}: {path} was there when the step was traced, and is gone now. Let "
                    "PyTorch do one step, so that the optimizer makes it again"
                ) from None
            raise errors.InputMismatch(
                f"{self.graph.name}: {path} was found when the function was traced, but is gone now ({error}). "
                "The model has changed since: trace it again. To only try a change, change a copy: "
                "copy.deepcopy(model)"
            ) from None

    def refuse_changed(self) -> None:
        """Refuses a function if the shape, element type or strides of a held tensor are not those of the trace."""
        slots = self.graph.inputs[len(self.graph.inputs) - len(self._sources) :]
        for slot, tensor in zip(slots, self.live(), strict=True):
            before, now = self.graph.types[slot.value], to_type(tensor)
            if (now.shape, now.dtype, now.strides) != (before.shape, before.dtype, before.strides):
                raise errors.InputMismatch(
                    f"{self.graph.name}: {slot.path} was traced as {before}, and is {now} now. The model has "
                    "changed since: trace it again. To only try a change, change a copy: copy.deepcopy(model)"
                )

    def conditions_hold(self, values: Sequence[torch.Tensor]) -> bool:
        """True if the numbers, flags, branches and hooks of the function are those of the trace."""
        if self.conditions is None:
            return True
        with torch.no_grad(), nullcontext() if _autocast() == self.autocast else self.as_traced():
            return self.conditions.hold(self._scope(values))

    def refuse_changed_conditions(
        self, inputs: Sequence[object], kwargs: Mapping[str, object] | None, values: Sequence[torch.Tensor]
    ) -> None:
        """Refuses a call for which the function, read again, makes another graph. The caller has the turn."""
        assert self.conditions is not None, "a condition has changed"
        with torch.no_grad(), self.as_traced():
            told = self.conditions.changed(self._scope(values), self._paths())
        gone = ""
        try:
            with self.as_traced():
                if self.conditions.make_the_same(inputs, kwargs or {}):
                    return
        except errors.WorkbenchError as error:
            gone = f". It cannot be captured as it is now: {error}"
        shown = "; ".join(told[:4]) + (f"; and {len(told) - 4} more" if len(told) > 4 else "")
        raise errors.InputMismatch(
            f"{self.graph.name} computes something else than when it was traced: {shown}{gone}. The graph follows "
            "from it: trace again, or let the function read a number that changes from a tensor"
        )

    def _paths(self) -> dict[str, str]:
        """The user's text for each positional input, by the input's place among the arguments."""
        first = [slot.path for slot in self.graph.inputs if slot.kind == "user"]
        whole = all(item.kind in ("leaf", "constant") for item in self.graph.input_tree.items[0].items)
        places = [number for number, item in enumerate(self.graph.input_tree.items[0].items) if item.kind == "leaf"]
        return {f"args[{place}]": path for place, path in zip(places, first, strict=False)} if whole else {}

    def _scope(self, values: Sequence[torch.Tensor]) -> Mapping[str, object]:
        """The variables of Dynamo's guards: the function, and its arguments with these tensors as a trace gives them to
        Dynamo."""
        assert self.conditions is not None, "only a function with conditions has been read"
        count = len(self.graph.inputs) - len(self._sources)
        return self.conditions.scope(*self.arguments([_as_traced(each) for each in values[:count]]))

    def values(self, inputs: Sequence[object], kwargs: Mapping[str, object] | None = None) -> list[torch.Tensor]:
        """Returns the tensors of a call and the held tensors, in the order of `graph.inputs`.

        Refuses a call unlike the captured one.
        """
        if self.training is not None:
            self.training.refuse_changed(self.graph)
        tree, flat = flatten_inputs(inputs, kwargs or {}, self.graph.name)
        if tree != self.graph.input_tree:
            raise self._another_call(tree, inputs, kwargs or {})
        leaves = flat.leaves
        self._refuse_other_kept(flat)
        for slot, (_, tensor) in zip(self.graph.inputs, leaves, strict=False):
            if why := unreadable(tensor):
                raise errors.UnreadableTensor(self.graph.name, slot.path, why)
            if self.training is not None and tensor.requires_grad:
                raise errors.InputMismatch(
                    f"{self.graph.name}: input {slot.path} requires a gradient, which the traced step gives to none of "
                    f"its inputs. Give {slot.path}.detach()"
                )
            expected = self.graph.types[slot.value]
            given = to_type(tensor)
            if (given.shape, given.dtype) != (expected.shape, expected.dtype):
                raise errors.InputMismatch(
                    f"{self.graph.name}: input {slot.path} was captured as {expected}, and was given as {given}. "
                    f"Shapes and element types are part of the graph: trace again with the new ones."
                )
        values = [*(tensor for _, tensor in leaves), *self.live()]
        for slot, value in zip(self.graph.inputs[len(leaves) :], values[len(leaves) :], strict=True):
            if why := unreadable(value):
                raise errors.UnreadableTensor(self.graph.name, slot.path, why)
        if self.graph.mutations:
            refuse_shared_memory(self.graph, values)
        return values

    def _refuse_other_kept(self, flat: containers.Flat) -> None:
        """Refuses objects that hold other classes or functions than at the trace: the graph follows from these."""
        for key, maker in flat.classes.items():
            traced = self._classes[key]
            if not isinstance(maker, containers.Kept) or not isinstance(traced, containers.Kept):
                continue
            if not traced.same(maker.value):
                raise errors.InputMismatch(
                    f"{self.graph.name} was captured with {traced.value!r:.80} in an object that it is given, and "
                    f"has {maker.value!r:.80} there now. The graph follows from it: trace again with the new one"
                )

    def _another_call(self, tree: Tree, inputs: Sequence[object], kwargs: Mapping[str, object]) -> errors.InputMismatch:
        """Returns an error that lists the expected inputs and the inputs of this call."""
        taken = [f"{slot.path}: {self.graph.types[slot.value]}" for slot in self.graph.inputs if slot.kind == "user"]
        if not inputs and not kwargs:
            count = f"{len(taken)} tensor" + ("s" if len(taken) != 1 else "")
            return errors.InputMismatch(
                f"{self.graph.name} was given no inputs, and was captured with {count} ({', '.join(taken)}), "
                f"called as {call_form(self.graph.input_tree)} (a dot is a tensor): give such inputs. Only check "
                "uses the traced inputs by default; a run may change its inputs in place."
            )
        return errors.InputMismatch(
            f"{self.graph.name} was captured with the inputs {call_form(self.graph.input_tree)}, and was given "
            f"{call_form(tree)} (a dot is a tensor; they are {', '.join(taken) or 'none'}). The number of "
            "inputs, and numbers and flags among them, are part of the graph: trace again to change them."
        )

    def rebuild(self, leaves: Sequence[torch.Tensor], places: Mapping[str, object] = NOWHERE) -> object:
        """Rebuilds the function's result from the graph's output leaves."""
        return containers.rebuild(self.graph.tree, list(leaves), self._classes, places)

    def returned(
        self, values: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], places: Mapping[str, object] = NOWHERE
    ) -> object:
        """Returns the function's result after a run on `values` that made `outputs`; results may be views of inputs or
        of each other.

        `places` has the containers in the call's arguments, in which the function may leave tensors.
        """
        return self.rebuild(returned(self.graph, values, outputs), places)

    def run(
        self,
        inputs: Sequence[object],
        kwargs: Mapping[str, object],
        values: Sequence[torch.Tensor],
        computed: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
    ) -> object:
        """Runs the graph by `computed` and returns the function's result without gradients, also for views of
        inputs."""
        if self.training is not None:
            self._refuse_other_autocast()
        refuse_unwritable(self.graph, values)
        places: Mapping[str, object] = NOWHERE
        if self.graph.tree.kind == "call":
            given = CallContainers.of(inputs, kwargs, self.graph.name)
            given.refuse_twice(self.graph.tree)
            places = given.places
        with torch.no_grad():
            made = self.returned(values, computed(values), places)
            if self.training is not None:
                self.training.settle(self.graph, values)
            return made

    def _refuse_other_autocast(self) -> None:
        if (now := _autocast()) != self.autocast:
            was, is_now = (
                "autocast to " + dtype_name(each) if each else "no autocast" for each in (self.autocast, now)
            )
            raise errors.InputMismatch(
                f"{self.graph.name}: there was {was} around the trace of the step, and there is {is_now} around this "
                "run. The casts are part of the graph: trace again, or put torch.autocast into the step"
            )

    def holding(self, held: Sequence[torch.Tensor]) -> AbstractContextManager[None]:
        """Returns a context for a call of the function itself, in which a training step has these tensors as gradients
        and states.

        `held` are in the order of `graph.inputs`, without the user's inputs.
        """
        slots = self.graph.inputs[len(self.graph.inputs) - len(held) :]
        given = {slot.path: tensor for slot, tensor in zip(slots, held, strict=True)}
        return self.training.holding(given) if self.training is not None else nullcontext()

    def outputs(
        self, values: Sequence[torch.Tensor], run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """Runs the graph by `run` on `values`, and returns the leaves of the result."""
        return returned(self.graph, values, run(values))

    def arguments(self, leaves: Sequence[torch.Tensor]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Returns the positional and keyword arguments of a call with these tensors."""
        return call_arguments(self.graph.input_tree, leaves, self._classes)
