"""Autograd's engine, as `backward()` and `torch.autograd.grad` call it, and the hooks of the tensors that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, cast
from unittest import mock

import torch

from workbench.ground.environment.this_thread import in_this_thread
from workbench.ground.torch_inside.needs import takes

_torch = cast(Any, torch)
Function = Callable[..., Any]


@takes("torch.autograd._engine_run_backward", instead="none: no mode of PyTorch's sees the engine")
def engine_as(made: Callable[[Function], Function]) -> AbstractContextManager[object]:
    """Within the block this thread calls `made(engine)` in place of the engine of gradients.

    The caller has the turn (`workbench.ground.environment.turns`).
    """
    engine = _torch.autograd._engine_run_backward
    return mock.patch.object(_torch.autograd, "_engine_run_backward", in_this_thread(made(engine), engine))


@takes("torch.autograd._make_grads", instead="none: the gradient that backward() begins with is made inside of it")
def first_gradients_as(made: Callable[[Function], Function]) -> AbstractContextManager[object]:
    """Within the block this thread calls `made(function)` in place of the function that makes the gradients with which
    `backward()` begins."""
    ones = _torch.autograd._make_grads
    return mock.patch.object(_torch.autograd, "_make_grads", in_this_thread(made(ones), ones))


@takes("torch._C._autograd._top_saved_tensors_default_hooks", instead="none")
def saved_by_hooks() -> bool:
    """True if a user's hooks, such as those of `torch.utils.checkpoint`, get the tensors that are kept for a backward
    pass."""
    return _torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


@contextmanager
@takes(
    "torch._C._autograd._top_saved_tensors_default_hooks",
    "torch._C._autograd._pop_saved_tensors_default_hooks",
    "torch._C._autograd._push_saved_tensors_default_hooks",
    instead="torch.autograd.graph.disable_saved_tensors_hooks, which raises an error where there are some",
)
def unseen_by_saving_hooks() -> Generator[None]:
    """Within the block the user's hooks of saved tensors are not called.

    A graph is compiled in the middle of a call. `torch.utils.checkpoint` counts the tensors that the call keeps, and
    must not count those of the compilation.
    """
    stack = _torch._C._autograd
    with ExitStack() as put_back:
        while (top := stack._top_saved_tensors_default_hooks(True)) is not None:
            stack._pop_saved_tensors_default_hooks()
            put_back.callback(stack._push_saved_tensors_default_hooks, *top)
        yield


@takes("torch._C._autograd._get_data_attr", instead="none: Dynamo writes it into a graph for x.data")
def data_reader() -> Function:
    """Returns the function that a graph of Dynamo's calls for `x.data`."""
    return _torch._C._autograd._get_data_attr


@takes(
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
    instead="none: Dynamo writes both into a graph for `with torch.autocast(...)`",
)
def autocast_in_graphs() -> tuple[Function, Function]:
    """Returns the functions with which a graph of Dynamo's begins and ends a region of autocast."""
    mode = _torch.amp.autocast_mode
    return mode._enter_autocast, mode._exit_autocast
