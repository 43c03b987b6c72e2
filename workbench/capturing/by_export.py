"""Capture through `torch.export`, which calls the function on stand-ins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import torch
import torch.fx.traceback as fx_traceback
from torch import nn
from torch.overrides import TorchFunctionMode

from workbench.capturing.blame import replaced, user_errors
from workbench.capturing.capture_state import Capturing, given_tensors, record_of, refuse_replaced
from workbench.capturing.functional_graph import functional, substitute
from workbench.capturing.module_twins import on_twins
from workbench.capturing.record_nodes import Recorded
from workbench.ground import errors
from workbench.ground.environment.call_sites import lines_inside, place_text
from workbench.ground.torch_inside.capture_settings import without_onednn
from workbench.ground.torch_inside.torch_export import export
from workbench.ir import Tree
from workbench.operators.tensors.doubles import Doubles
from workbench.operators.tensors.reachable_tensors import Reachable
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
    """The module that `torch.export` wants: calls the target, and owns the modules the target holds elsewhere."""

    tree: Tree
    """The containers of the target's results; export itself has only the tensors in them."""
    given: frozenset[int] = frozenset()
    """The inputs by `id`, while it is called."""

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
        """Calls the target with the tensors in their containers, which export need not know.

        Export loses a buffer that is replaced below the root, so this looks for itself.
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
    """Notes where each torch function is called from: export by itself keeps only frames named `forward`.

    And refuses one that gives an input another shape, which export cannot follow.
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
    """Export takes a parameter that no module owns for a constant, which it wants without a gradient: each with another
    tensor of its memory, that has none."""
    owned = {id(p) for _, module in held.modules.values() for p in module.parameters()}
    loose = [slot.tensor for slot in held.tensors.values() if id(slot.tensor) not in owned]
    return [(tensor, tensor.detach()) for tensor in loose if tensor.requires_grad and tensor.is_leaf]
