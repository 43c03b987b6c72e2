"""One capture under way: the call, the tensors that the callable holds, and the record of the exported program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from workbench.capturing.blame import replaced
from workbench.capturing.live_call import CapturedProgram
from workbench.capturing.record_nodes import Recorded, Slot, Traced, record, result_names
from workbench.capturing.tensor_copies import apart, copies
from workbench.capturing.user_call import (
    Target,
    call_arguments,
    flatten_inputs,
    flatten_outputs,
    input_paths,
    user_path,
)
from workbench.ground import errors
from workbench.ground.environment.call_sites import Place, called_from
from workbench.ground.torch_inside.fake_tensors import FakeTensor
from workbench.ground.torch_inside.module_inside import forward_hooks
from workbench.ir import Tree
from workbench.operators.aten.registry import Registrations
from workbench.operators.tensors import containers
from workbench.operators.tensors.call_containers import CallContainers
from workbench.operators.tensors.reachable_tensors import Held, Reachable, reachable
from workbench.operators.tensors.tensor_memory import refuse_unreadable, unreadable

if TYPE_CHECKING:
    from workbench.capturing.read_conditions import Conditions
    from workbench.capturing.training_state import TrainingState


@dataclass(frozen=True)
class Capturing:
    """One capture under way: the call with tensors of its own, and the tensors that the callable holds."""

    name: str
    target: Target
    inputs: tuple[object, ...]
    kwargs: dict[str, object]
    input_tree: Tree
    user: tuple[Slot, ...]
    held: Reachable
    registrations: Registrations
    called: Place
    """The user's line that asked for the capture."""
    classes: dict[str, containers.Maker]
    """Functions that rebuild the containers of inputs and, once these are known, of results."""

    @staticmethod
    def begin(
        name: str,
        target: Target,
        inputs: Sequence[object],
        kwargs: dict[str, object],
        registrations: Registrations,
        *,
        copied: bool = False,
    ) -> Capturing:
        """Starts a capture. Every input tensor becomes an alias of its own, so that one tensor given twice stays two
        inputs.

        Input tensors that share memory become copies: PyTorch's export would see that they share it, and a record has
        separate tensors. `copied` makes copies that share memory like the inputs, for a capture that computes.
        """
        tree, flat = flatten_inputs(inputs, kwargs, name)
        leaves = flat.leaves
        paths = input_paths(target, inputs, kwargs, name)
        tensors = [tensor for _, tensor in leaves]
        for path, tensor in leaves:
            if why := unreadable(tensor):
                raise errors.UnreadableTensor(name, user_path(path, paths), why)
        held, called = reachable(target), called_from()
        own = copies(tensors) if copied else apart(tensors, (each.tensor for each in held.tensors.values()))
        user = tuple(
            Slot("user", user_path(path, paths), alias, tensor.requires_grad)
            for (path, tensor), alias in zip(leaves, own, strict=True)
        )
        args, kwds = call_arguments(tree, own, flat.classes)
        return Capturing(name, target, args, kwds, tree, user, held, registrations, called, flat.classes)

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Returns the arguments of the call, with these tensors in them."""
        return call_arguments(self.input_tree, tensors, self.classes)

    def program(
        self, recorded: Recorded, training: TrainingState | None = None, conditions: Conditions | None = None
    ) -> CapturedProgram:
        """Returns the record together with what ties it to the callable."""
        sources = tuple(self.reader(slot) for slot in recorded.slots[len(self.user) :])
        return CapturedProgram(recorded.graph, (), sources, self.classes, training=training, conditions=conditions)

    def given(self, args: Sequence[object], kwargs: Mapping[str, object]) -> CallContainers:
        """Returns the containers in the arguments of a call that is about to begin."""
        return CallContainers.of(args, kwargs, self.name)

    def flatten(self, returned: object, given: CallContainers) -> tuple[Tree, list[tuple[str, torch.Tensor]]]:
        """Returns the containers and the tensors that the callable returned or left in the containers of its
        arguments."""
        tree, flat = flatten_outputs(returned, given, self.name)
        self.classes.update(flat.classes)
        return tree, flat.leaves

    def slot_of(self, tensor: torch.Tensor, fallback: str) -> Slot:
        """The origin of a graph's input tensor: the user, the callable that holds it, or a constant made inside."""
        for slot in self.user:
            if slot.tensor is tensor:
                return slot
        found = self._held(tensor)
        refuse_unreadable(tensor, found.path if found else fallback or "a result", self.name)
        return Slot(found.kind, found.path, found.tensor) if found else Slot("constant", fallback, tensor)

    def reader(self, slot: Slot) -> Callable[[], torch.Tensor]:
        found = self._held(slot.tensor)
        return found.read if found else lambda: slot.tensor

    def _held(self, tensor: torch.Tensor) -> Held | None:
        """The held tensor that is this tensor or has its memory: export keeps an alias of a parameter that no module
        owns."""
        if found := self.held.tensors.get(id(tensor)):
            return found
        aliases = (held for held in self.held.tensors.values() if held.tensor.is_set_to(tensor))
        return next(aliases, None) if not tensor.is_meta else None

    def modules(self) -> dict[str, str]:
        """The paths of the held modules, by `id` as text: the key of Dynamo's module stacks."""
        return {str(key): path for key, (path, _) in self.held.modules.items()}


def given_tensors(program: ExportedProgram, root: nn.Module, users: Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors with which an exported graph was traced, by the names of its placeholders."""
    left = iter(users)

    def tensor_for(spec: InputSpec) -> torch.Tensor:
        target = str(spec.target)
        if spec.kind is InputKind.PARAMETER:
            return root.get_parameter(target)
        if spec.kind is InputKind.BUFFER:
            return root.get_buffer(target)
        return next(left) if spec.kind is InputKind.USER_INPUT else cast("torch.Tensor", program.constants[target])

    specs = program.graph_signature.input_specs
    return {spec.arg.name: tensor_for(spec) for spec in specs if isinstance(spec.arg, TensorArgument)}


def record_of(
    trace: Capturing,
    exported: ExportedProgram,
    program: ExportedProgram,
    mode: str,
    given: Mapping[str, torch.Tensor],
    tree: Tree,
    leaves: Sequence[int | Slot] | None = None,
    module_paths: Mapping[str, str] | None = None,
) -> Recorded:
    """Returns the record of a program that was `exported` and then made functional. Without `leaves` the program's
    outputs are the results."""
    fallbacks = {name: f"constant{index}" for index, name in enumerate(given)}
    traced = Traced(
        name=trace.name,
        capture=mode,
        program=program,
        exported=exported,
        user=tuple(trace.user),
        slot_of=lambda place: trace.slot_of(given[place], fallbacks[place]),
        leaves=tuple(range(len(result_names(program))) if leaves is None else leaves),
        tree=tree,
        input_tree=trace.input_tree,
        modules={**trace.modules(), **(module_paths or {})},
        called=trace.called,
    )
    return record(traced, trace.registrations)


def refuse_replaced(trace: Capturing) -> None:
    """Puts back tensors of modules that the capture replaced by stand-ins without data, and raises an error that names
    them."""
    new = [held for key, held in reachable(trace.target).tensors.items() if key not in trace.held.tensors]
    found = [held for held in new if held.tensor.is_meta or isinstance(held.tensor, FakeTensor)]
    if not found:
        return
    for path, module in trace.held.modules.values():
        for held in trace.held.tensors.values():
            owner, _, attribute = held.path.rpartition(".")
            if owner == path and getattr(module, attribute, held.tensor) is not held.tensor:
                setattr(module, attribute, held.tensor)
    old = next(filter(None, (_old_hook(module) for _, module in trace.held.modules.values())), "")
    advice = f"{_OLD_HOOKS[old]} computes the weight without that" if old else ""
    raise replaced(trace.name, ", ".join(held.path for held in found), advice)


def _old_hook(module: nn.Module) -> str:
    """The name of PyTorch's module whose hook puts a new weight into this module before each call; else empty."""
    hooks, _ = forward_hooks(module)
    return next((name for name in (type(each).__module__ for each in hooks.values()) if name in _OLD_HOOKS), "")


_OLD_HOOKS = {
    f"torch.nn.utils.{each}": f"torch.nn.utils.parametrizations.{each}(module)"
    for each in ("weight_norm", "spectral_norm")
}
"""The PyTorch modules that define such hooks, each with its replacement."""


def no_tensor_work(name: str, given: Sequence[Slot | Held] = ()) -> errors.NoTensorWork:
    own = [slot for slot in given if type(slot.tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer)]
    if own:
        slot = own[0]
        return errors.NoTensorWork(
            f"{name} computes nothing with plain tensors: {slot.path} is a {type(slot.tensor).__name__}, a "
            "subclass of torch.Tensor, whose methods are Python code that a graph cannot hold. Give "
            f"{slot.path}.as_subclass(torch.Tensor)"
        )
    return errors.NoTensorWork(
        f"{name} computes nothing with tensors, so there is no graph to capture. Give it tensors and return "
        "results computed from them."
    )
