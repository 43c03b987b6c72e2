"""What PyTorch itself computes: the side of `j.check()` that is taken as right."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from workbench.ir import AtenGraph
from workbench.ops import trees
from workbench.ops.execute import Executed

_HALF = (torch.float16, torch.bfloat16)


def reference(
    call: Callable[[Sequence[torch.Tensor]], object],
    graph: AtenGraph,
    user: Sequence[torch.Tensor],
    held: Sequence[torch.Tensor],
) -> Executed:
    """Calls the function on copies of `user`, and puts back what it changes of `held`, the tensors it holds itself.

    With 16-bit floats anywhere in the graph all of it computes in float32, so that the reference does not carry the
    rounding that is to be judged.
    """
    copies = [tensor.detach().clone() for tensor in user]
    slots = {slot.value: tensor for slot, tensor in zip(graph.inputs, [*copies, *held], strict=True)}
    before = {change.target: slots[change.target].detach().clone() for change in graph.mutations}
    returned = computed(call, graph, copies, held)
    with torch.no_grad():
        outputs = [leaf.detach().clone() for _, leaf in trees.flatten(returned)[1]]
        after = {name: slots[name].detach().clone() for name in before}
        for name, old in before.items():
            slots[name].copy_(old)
    return Executed(outputs, after)


def computed(
    call: Callable[[Sequence[torch.Tensor]], object],
    graph: AtenGraph,
    leaves: Sequence[torch.Tensor],
    held: Sequence[torch.Tensor],
) -> object:
    """What the function returns; it and the tensors it holds are float32 meanwhile if there are 16-bit floats."""
    has_half = any(kind.dtype in ("f16", "bf16") for kind in graph.types.values())
    with torch.no_grad(), _wide([*leaves, *held] if has_half else []), _InSingle() if has_half else nullcontext():
        return call(leaves)


@contextmanager
def _wide(tensors: Sequence[torch.Tensor]) -> Generator[None]:
    """The same tensors with float32 numbers in place of 16-bit ones.

    Functions of PyTorch compare the types of their operands before any of their ops can be seen, so results in float32
    must not meet parameters in 16 bits. What is written into the tensors meanwhile is rounded into them at the end.
    """
    own = {id(tensor): (tensor, tensor.data) for tensor in tensors if tensor.dtype in _HALF}
    try:
        for tensor, numbers in own.values():
            tensor.data = numbers.to(torch.float32)
        yield
    finally:
        for tensor, numbers in own.values():
            wide, tensor.data = tensor.data, numbers
            if wide.shape == numbers.shape and not torch.equal(wide, numbers.to(torch.float32)):
                tensor.copy_(wide)


class _InSingle(TorchDispatchMode):
    """Raises the 16-bit floats that an op takes or asks for to float32, but for ops that write into one of them."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if func._schema.is_mutable:
            return func(*args, **dict(kwargs or {}))
        raised = tree_map(_raised, (tuple(args), dict(kwargs or {})))
        return func(*raised[0], **raised[1])


def _raised(value: object) -> object:
    if isinstance(value, torch.Tensor) and value.dtype in _HALF:
        return value.to(torch.float32)
    return torch.float32 if value in _HALF else value
