"""Transforms of `torch.func` that are at work, and the tensors that they wrap."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

import torch

from workbench.ground.torch_inside.needs import takes

_torch = cast(Any, torch)

_FIRST_NODES = takes(
    "torch._C._functorch._grad_increment_nesting",
    "torch._C._functorch._jvp_increment_nesting",
    "torch._C._functorch._unwrap_for_grad",
    "torch._C._enter_dual_level",
    use="The functions with which a transform begins, by which a graph of Dynamo's shows that it has one.",
    instead="none: torch.func has the transforms under other names",
).names

_PUBLIC_NAMES = ("torch.func.grad", "torch.func.jvp", "torch.func.grad", "torch.autograd.forward_ad")
TRANSFORMS = dict(zip(_FIRST_NODES, _PUBLIC_NAMES, strict=True))
"""The name of the first node that a transform leaves in a graph -> the public name of the transform."""


@takes("torch._functorch.eager_transforms", instead="none: torch.func has the functions under other names")
def transforms_file() -> str:
    """Returns the file whose functions are in the traceback of an error in a transform."""
    from torch._functorch import eager_transforms

    return str(eager_transforms.__file__)


@takes("torch._C._functorch.peek_interpreter_stack", instead="none")
def transform_at_work() -> bool:
    """True while a transform of `torch.func` (grad, jvp, vmap) computes."""
    return _torch._C._functorch.peek_interpreter_stack() is not None


@takes(
    "torch._C._functorch.is_functorch_wrapped_tensor",
    "torch._is_functional_tensor",
    instead="none: the wrapped tensor is of the class torch.Tensor",
)
def is_wrapped(tensor: torch.Tensor) -> bool:
    """True for a tensor that a transform has wrapped: its numbers are not those in its memory."""
    return bool(_torch._C._functorch.is_functorch_wrapped_tensor(tensor) or _torch._is_functional_tensor(tensor))


@takes("torch._C._functorch.is_legacy_batchedtensor", instead="none")
def is_batch_of_gradients(value: object) -> bool:
    """True for a batch of gradients, as `torch.autograd.grad(..., is_grads_batched=True)` has."""
    return isinstance(value, torch.Tensor) and bool(_torch._C._functorch.is_legacy_batchedtensor(value))


@takes("torch.autograd.forward_ad._current_level", instead="none: forward_ad.unpack_dual fails outside of a level")
def in_forward_mode() -> bool:
    """True inside of `torch.autograd.forward_ad.dual_level`."""
    return _torch.autograd.forward_ad._current_level >= 0


@contextmanager
@takes(
    "torch._C._functorch.get_dynamic_layer_stack_depth",
    "torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth",
    "torch._C._enter_dual_level",
    "torch._C._exit_dual_level",
    "torch.autograd.forward_ad._current_level",
    instead="none: a graph has the calls that begin and end a transform, with no context manager around them",
)
def no_transform_left() -> Generator[None]:
    """Ends the transforms of functions, such as `torch.func.jvp`, that an error within the block left at work.

    A graph begins and ends its transforms; a transform that is not ended would apply to all later calls.
    """
    functorch, forward = _torch._C._functorch, _torch.autograd.forward_ad
    depth, level = functorch.get_dynamic_layer_stack_depth(), forward._current_level
    try:
        yield
    except BaseException:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if level < 0:  # there is one level at most, which a graph enters without telling `forward_ad`
            forward._current_level = level
            with suppress(RuntimeError):  # the level is entered already
                _torch._C._enter_dual_level()
            _torch._C._exit_dual_level(0)
        raise


@takes("torch._functorch.predispatch._remove_batch_dim", instead="none: torch.vmap writes it into a graph")
def batch_dim_remover() -> Any:
    """Returns the function that ends a `vmap` in a graph of Dynamo's: its argument is where the batch dim goes."""
    from torch._functorch import predispatch

    return cast(Any, predispatch)._remove_batch_dim
