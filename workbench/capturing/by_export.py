"""Capture through `torch.export`, which calls the function on stand-ins.

During an export the modules hold stand-ins in place of their tensors. Another thread that calls the user's model
meanwhile would compute with the stand-ins, so the export runs on twins of the modules, which share the modules'
parameters and buffers.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
import torch.fx.traceback as fx_traceback
from torch import nn
from torch.overrides import TorchFunctionMode

from workbench.capturing.blame import replaced, user_errors
from workbench.capturing.capture_state import Capturing, given_tensors, record_of, refuse_replaced
from workbench.capturing.functional_graph import functional, substitute
from workbench.capturing.record_nodes import Recorded
from workbench.capturing.tensor_copies import value_of
from workbench.capturing.user_call import Target
from workbench.ground import errors
from workbench.ground.environment.call_sites import lines_inside, place_text
from workbench.ground.torch_inside.capture_settings import without_onednn
from workbench.ground.torch_inside.torch_export import export
from workbench.ir import Tree
from workbench.operators.tensors.doubles import Doubles
from workbench.operators.tensors.reachable_tensors import Reachable, reachable, variables
from workbench.operators.tensors.tensor_memory import is_lazy


def by_export(given_trace: Capturing) -> Recorded:
    target, held = on_twins(given_trace.target, given_trace.held)
    trace = replace(given_trace, target=target, held=held)
    root = _Root(trace)
    with user_errors(trace.name):
        with _Places(root):
            exported = export(root, tuple(slot.tensor for slot in trace.user))
        program = functional(trace.name, exported)
    refuse_replaced(trace)
    given = given_tensors(program, root, (slot.tensor for slot in trace.user))
    for tensor in given.values():
        if is_lazy(tensor):
            path = trace.slot_of(tensor, "a constant").path
            why = "is a negative or conjugate view, which export cannot read: use capture='dynamo'"
            raise errors.UnreadableTensor(trace.name, path, why)
    named = cast("Iterator[tuple[str, nn.Module]]", root.named_modules())
    paths = {path: trace.held.modules[id(module)][0] for path, module in named if id(module) in trace.held.modules}
    return record_of(trace, exported, program, "export", given, root.tree, module_paths=paths)


class _Root(nn.Module):
    """The module that `torch.export` needs: calls the target, and owns the modules that the target holds."""

    tree: Tree
    """The containers of the target's results. Export itself keeps only the tensors in these containers."""
    given: frozenset[int] = frozenset()
    """The `id`s of the inputs, while the module is called."""

    def __init__(self, trace: Capturing) -> None:
        super().__init__()
        self.name = trace.name
        object.__setattr__(self, "_trace", trace)
        self._loose = _without_gradients(trace.held)
        inside: set[int] = set()
        for index, (_, module) in enumerate(trace.held.modules.values()):
            if id(module) not in inside:
                self.add_module(f"held{index}", module)
                inside |= {id(part) for part in module.modules()}

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Calls the target with the tensors in their containers, which export does not see.

        Export does not keep a submodule's buffer that the target replaces, so `forward` refuses such a target.
        """
        trace, before = cast("Capturing", self._trace), dict(self.named_buffers())
        self.given = frozenset(map(id, tensors))
        args, kwargs = trace.arguments(tensors)
        given = trace.given(args, kwargs)
        with Doubles(self._loose):
            returned = trace.target(*args, **kwargs)
        changed = [name for name, buffer in self.named_buffers() if before.get(name) is not buffer]
        if changed:
            raise replaced("the module", ", ".join(name.partition(".")[2] for name in changed))
        self.tree, found = trace.flatten(returned, given)
        return [tensor for _, tensor in found]


class _Places(TorchFunctionMode):
    """Notes where each torch function is called: export itself keeps only frames named `forward`.

    Refuses a function that changes the shape of an input, which export cannot follow.
    """

    def __init__(self, root: _Root) -> None:
        super().__init__()
        self._root = root

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # subgraphs, which are examined by themselves
            return func(*args, **(kwargs or {}))
        shapes = [(each, each.shape) for each in args[:1] if isinstance(each, torch.Tensor)]
        with fx_traceback.preserve_node_meta():
            before = cast("str", fx_traceback.current_meta.get("stack_trace", ""))
            stack = lines_inside(_Root.forward.__code__)
            fx_traceback.set_stack_trace(stack)
            lstm = without_onednn() if getattr(func, "__name__", "") == "lstm" else contextlib.nullcontext()
            try:
                with lstm:
                    made = substitute(func)(*args, **(kwargs or {}))
            finally:
                fx_traceback.set_stack_trace([before] if before else [])
        if any(tensor.shape != shape and id(tensor) in self._root.given for tensor, shape in shapes):
            raise errors.ReshapedInput.by(self._root.name, getattr(func, "__name__", ""), place_text("".join(stack)))
        return made


def _without_gradients(held: Reachable) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs each held parameter that no module owns with a detached tensor of its memory. Export treats such a
    parameter as a constant, which must not require a gradient."""
    owned = {id(p) for _, module in held.modules.values() for p in module.parameters()}
    loose = [slot.tensor for slot in held.tensors.values() if id(slot.tensor) not in owned]
    return [(tensor, tensor.detach()) for tensor in loose if tensor.requires_grad and tensor.is_leaf]


def on_twins(target: Target, held: Reachable) -> tuple[Target, Reachable]:
    """Returns the callable with twins in place of its modules, and what that callable holds: the same tensors, and
    modules with the same paths. Returns both arguments unchanged if a twin cannot replace some module, such as a module
    that is reached through an object or a function that the callable calls."""
    if not held.modules or any(isinstance(module, torch.jit.ScriptModule) for _, module in held.modules.values()):
        return target, held
    twins: dict[int, object] = {key: object.__new__(type(module)) for key, (_, module) in held.modules.items()}
    for key, (_, module) in held.modules.items():
        vars(twins[key]).update({name: _twin(value, twins) for name, value in vars(module).items()})
    made = cast("Target", _twin_of_callable(target, twins))
    found = reachable(made)
    if found.modules.keys() & held.modules.keys() or found.tensors.keys() != held.tensors.keys():
        return target, held
    return made, found


def _twin(value: Any, twins: Mapping[int, object]) -> Any:
    """The value of an attribute, with twins in place of modules; its lists, tuples and dicts are copied."""
    if id(value) in twins:
        return twins[id(value)]
    if type(value) in (list, tuple):
        return type(value)([_twin(each, twins) for each in value])
    if type(value) in (dict, OrderedDict):
        return type(value)([(key, _twin(each, twins)) for key, each in value.items()])
    if isinstance(value, types.MethodType) and id(value.__self__) in twins:
        return types.MethodType(value.__func__, twins[id(value.__self__)])
    return value


def _twin_of_callable(target: Any, twins: Mapping[int, object]) -> Any:
    if isinstance(target, functools.partial):
        given = [_twin_of_callable(each, twins) for each in target.args]
        named = {key: _twin_of_callable(each, twins) for key, each in target.keywords.items()}
        return functools.partial(_twin_of_callable(target.func, twins), *given, **named)
    if not isinstance(target, types.FunctionType):
        return _twin(target, twins)
    if not any(_holds(place, name, twins) for place, name in variables(target)):
        return target
    cells = tuple(_cell(cell, twins) for cell in target.__closure__ or ()) or None
    named = {name for place, name in variables(target) if place is target.__globals__}
    own = {**target.__globals__, **{name: _twin(target.__globals__[name], twins) for name in named}}
    made = types.FunctionType(target.__code__, own, target.__name__, target.__defaults__, cells)
    made.__kwdefaults__ = target.__kwdefaults__
    return functools.update_wrapper(made, target, updated=("__dict__",))


def _holds(place: dict[str, object] | types.CellType, name: str, twins: Mapping[int, object]) -> bool:
    value = value_of(place, name)
    return _twin(value, twins) is not value


def _cell(cell: types.CellType, twins: Mapping[int, object]) -> types.CellType:
    """The cell itself if it holds no module, so that other functions with the cell see assignments to it; else a new
    cell with the twin."""
    value = value_of(cell)
    twin = _twin(value, twins)
    return cell if twin is value else types.CellType(twin)
