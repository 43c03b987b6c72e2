"""`torch.export`, seen by this thread alone.

PyTorch notes in a global that it exports, and `torch.compile` gives functions back as they are while it does: one that
another thread compiles at that moment would run without the backend it asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, cast
from unittest import mock

import torch
from torch import fx, nn
from torch.export import ExportedProgram


def export(module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, object] | None = None) -> ExportedProgram:
    """The exported graph of one call. The caller has the turn (`workbench.environment.turns`)."""
    with exporting_here_alone(), hooks_of_users_modules(module):
        return torch.export.export(module, inputs, kwargs, strict=False)


@contextmanager
def exporting_here_alone() -> Generator[None]:
    """Within the block other threads are not told that PyTorch exports."""
    compiler = cast(Any, torch.compiler)
    told, exporter = compiler.is_exporting, threading.get_ident()

    def is_exporting() -> bool:
        return threading.get_ident() == exporter and told()

    with mock.patch.object(compiler, "is_exporting", is_exporting):
        yield


@contextmanager
def no_transform_left() -> Generator[None]:
    """A transform of functions, such as `torch.func.jvp`, is part of a graph; an error in the midst of one would leave
    it in force for all that is called later."""
    functorch, forward = cast(Any, torch)._C._functorch, cast(Any, torch.autograd.forward_ad)
    depth, level = functorch.get_dynamic_layer_stack_depth(), forward._current_level
    try:
        yield
    except BaseException:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if level < 0:  # there is one level at most, which a graph enters without telling `forward_ad`
            forward._current_level = level
            with suppress(RuntimeError):  # it is entered
                cast(Any, torch)._C._enter_dual_level()
            cast(Any, torch)._C._exit_dual_level(0)
        raise


_OF_ALL = ("_global_forward_pre_hooks", "_global_forward_hooks")
"""Where PyTorch has the hooks of all modules."""


@contextmanager
def hooks_of_users_modules(exported: nn.Module) -> Generator[None]:
    """Within the block, which calls the module, this thread calls hooks of all modules for none of export's own.

    What they do to the user's modules is in a graph already, so none is called inside of one.
    """
    exporter = threading.get_ident()

    def is_ours(module: nn.Module) -> bool:
        own = isinstance(exported, fx.GraphModule) or module is exported or type(module).__module__.startswith(_EXPORTS)
        return own and threading.get_ident() == exporter

    def of_theirs(hook: Callable[..., object]) -> Callable[..., object]:
        def called(module: nn.Module, *given: object) -> object:
            return None if is_ours(module) else hook(module, *given)

        return called

    tables = [cast("dict[int, Any]", getattr(nn.modules.module, name)) for name in _OF_ALL]
    before = [dict(table) for table in tables]
    for table, hooks in zip(tables, before, strict=True):
        table.update({key: of_theirs(hook) for key, hook in hooks.items()})
    try:
        yield
    finally:
        for table, hooks in zip(tables, before, strict=True):
            table.update({key: hook for key, hook in hooks.items() if key in table})


_EXPORTS = ("torch.export.", "torch._export.")
"""The packages of the modules that export puts around what it is given."""
