"""`torch.export`, seen by this thread alone.

While PyTorch exports, it says so in a global, and `torch.compile` returns functions unchanged: a function that another
thread compiles at that moment would run without the backend it asked for.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final, cast
from unittest import mock

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from workbench.ground.environment.this_thread import in_this_thread
from workbench.ground.torch_inside.module_inside import HOOKS_OF_ALL_MODULES
from workbench.ground.torch_inside.needs import takes

with takes(
    "torch.export._trace._ignore_backend_decomps",
    "torch.export._trace._override_builtin_ops",
    use="What an export changes for the whole process meanwhile: the switch of oneDNN, and Python's max, min and pow.",
    instead="none",
):
    from torch.export import _trace as traces  # pyright: ignore[reportPrivateUsage]

with takes(
    "torch.fx._symbolic_trace._is_fx_tracing_flag",
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing",
    use="Tells a function that torch.compile made that an export is under way; here for one thread alone.",
    instead="torch.compiler.is_exporting, which such a function asks as well, and which is one for all threads",
):
    from torch.fx import _symbolic_trace as symbolic_trace  # pyright: ignore[reportPrivateUsage]

_trace, _tracing = cast("tuple[Any, Any]", (traces, symbolic_trace))
_of_export: Final = _trace._override_builtin_ops


def export(module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, object] | None = None) -> ExportedProgram:
    """The exported graph of one call. The caller has the turn (`workbench.ground.environment.turns`)."""
    builtin = nullcontext if isinstance(module, fx.GraphModule) else _builtins_of_tensors  # a graph calls no builtins
    with (
        exporting_here_alone(),
        hooks_of_users_modules(module),
        mock.patch.object(_trace, "_override_builtin_ops", builtin),
        onednn_as_it_is(module),
    ):
        return torch.export.export(module, inputs, kwargs, strict=False)


@contextmanager
def _builtins_of_tensors() -> Generator[None]:
    """Within the block `max`, `min` and `math.pow` take tensors, as export has them, in this thread alone.

    Numba, which recognises `max` by its identity, compiles nothing meanwhile.
    """
    places = ((builtins, "max"), (builtins, "min"), (math, "pow"))
    before = [getattr(owner, name) for owner, name in places]
    lock = cast(Any, sys.modules.get("numba.core.compiler_lock"))
    with lock.global_compiler_lock if lock else nullcontext(), _of_export(), ExitStack() as stack:
        for (owner, name), theirs in zip(places, before, strict=True):
            stack.enter_context(mock.patch.object(owner, name, in_this_thread(getattr(owner, name), theirs)))
        yield


def onednn_as_it_is(module: nn.Module) -> AbstractContextManager[object]:
    """Within the block an export leaves the switch of oneDNN, which all threads share, as it is.

    PyTorch turns the switch off during an export, since oneDNN computes an LSTM as a whole. A graph that calls an LSTM
    is exported in PyTorch's way; in a function, only the call of the LSTM itself runs without oneDNN.
    """
    graphs = [each.graph for each in module.modules() if isinstance(each, fx.GraphModule)]
    targets = (node.target for graph in graphs for node in graph.nodes)
    if any("lstm" in f"{target} {getattr(target, '__name__', '')}" for target in targets):
        return nullcontext()
    return mock.patch.object(_trace, "_ignore_backend_decomps", nullcontext)


_OURS: Final = "_workbench_traces"
"""The name of our function in a module of PyTorch's while a thread exports."""


@contextmanager
def exporting_here_alone() -> Generator[None]:
    """Within the block other threads are not told that PyTorch exports, or traces symbolically.

    A function that `torch.compile` made keeps PyTorch's function that tells of symbolic tracing and calls it, so the
    latter gets other code.
    """
    compiler = cast(Any, torch.compiler)
    told, exporter = compiler.is_exporting, threading.get_ident()

    def is_exporting() -> bool:
        return threading.get_ident() == exporter and told()

    with (
        mock.patch.object(compiler, "is_exporting", is_exporting),
        mock.patch.object(_tracing, _OURS, lambda: threading.get_ident() == exporter, create=True),
        _told_by(_tracing.is_fx_symbolic_tracing, _traces_here),
    ):
        yield


@contextmanager
def _told_by(function: Any, other: Any) -> Generator[None]:
    """Replaces the function's code by that of `other` within the block."""
    before, function.__code__ = function.__code__, other.__code__
    try:
        yield
    finally:
        function.__code__ = before


def _traces_here() -> bool:
    """Answers like PyTorch's own function, but for one thread. Its code runs with the globals of that function's
    module."""
    scope = globals()
    return scope["_is_fx_tracing_flag"] and scope["_workbench_traces"]() and not torch.compiler.is_compiling()


@contextmanager
def hooks_of_users_modules(exported: nn.Module) -> Generator[None]:
    """Within the block, which calls the module, this thread calls no hooks of all modules for the modules that export
    adds.

    The effects of these hooks on the user's modules are already nodes of a graph, so none is called when a graph is
    exported.
    """
    exporter = threading.get_ident()

    def is_ours(module: nn.Module) -> bool:
        own = isinstance(exported, fx.GraphModule) or module is exported or type(module).__module__.startswith(_EXPORTS)
        return own and threading.get_ident() == exporter

    def of_theirs(hook: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(hook)
        def called(module: nn.Module, *given: object) -> object:
            return None if is_ours(module) else hook(module, *given)

        return called

    tables = [cast("dict[int, Any]", getattr(nn.modules.module, name)) for name in HOOKS_OF_ALL_MODULES[:2]]
    before = [dict(table) for table in tables]
    for table, hooks in zip(tables, before, strict=True):
        table.update({key: of_theirs(hook) for key, hook in hooks.items()})
    try:
        yield
    finally:
        for table, hooks in zip(tables, before, strict=True):
            table.update({key: hook for key, hook in hooks.items() if key in table})


_OLDER = takes(
    "torch._export",
    use="A package of the modules that an export puts around what it is given: no hook is called for these.",
    instead="none: torch.export has the other",
).path
_EXPORTS = ("torch.export.", f"{_OLDER}.")
"""The packages of the modules that export puts around its argument."""
