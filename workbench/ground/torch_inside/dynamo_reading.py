"""Dynamo's errors, guards and decisions while it reads a function. Dynamo is loaded with this file."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast
from unittest import mock

from workbench.ground.environment.this_thread import returning
from workbench.ground.torch_inside.needs import takes

with takes(
    "torch._dynamo.exc.InternalTorchDynamoError",
    "torch._dynamo.exc.TorchRuntimeError",
    "torch._dynamo.exc.Unsupported",
    "torch._dynamo.exc.UserError",
    use="Dynamo's errors: a fault of its own, an error of the user's ops, a break of a graph, and what it refuses.",
    instead="none: torch.compiler names no class of errors",
):
    from torch._dynamo import exc as exc


class GuardManager(Protocol):
    """The conditions of one compiled function, as Dynamo checks them."""

    code_parts: list[str]

    def check(self, scope: Mapping[str, object]) -> bool:
        """True if all conditions hold."""
        ...

    def check_verbose(self, scope: Mapping[str, object]) -> Any:
        """Returns a result whose `verbose_code_parts` has the first condition that does not hold."""
        ...


@takes("torch._dynamo.eval_frame._debug_get_cache_entry_list", instead="none: torch.compiler prints guards to a log")
def guards_of(read: types.FunctionType) -> GuardManager:
    """Returns the conditions under which Dynamo would use the graph of a function again."""
    from torch._dynamo import eval_frame

    return cast(Any, eval_frame)._debug_get_cache_entry_list(read.__code__)[0].guard_manager


@takes("torch._dynamo.symbolic_convert.InstructionTranslatorBase.maybe_has_backedge", instead="none")
def breaks_in_loops() -> AbstractContextManager[object]:
    """Within the block Dynamo makes graphs of a function in which a graph ends inside of a loop.

    Otherwise Dynamo leaves the whole function to Python, to avoid a graph for each iteration. Here such graphs are
    wanted: a loop over the experts of a mixture has a break in each iteration. The caller has the turn.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    return mock.patch.object(InstructionTranslatorBase, "maybe_has_backedge", returning(False))


class _Hiding(dict[str, object]):
    """PyTorch's table of backends, in which one backend is never found."""

    hidden: object = None

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) and self.get(cast(str, name)) is not self.hidden


@takes("torch._dynamo.backends.registry._COMPILER_FNS", instead="none: torch.compiler lists backends")
def registered_again_and_again(backend: Callable[..., object]) -> None:
    """Lets several threads be the first to use a backend at the same time, which PyTorch finds by its entry point.

    PyTorch looks for the entry point, loads it and registers its function, without a lock, and raises an error if
    another thread has registered the name meanwhile. So its table hides this backend, and PyTorch registers it again,
    which changes nothing. Another backend registered under the same name takes precedence.
    """
    from torch._dynamo.backends import registry

    table = _Hiding(cast(Any, registry)._COMPILER_FNS)
    table.hidden = backend
    cast(Any, registry)._COMPILER_FNS = table
