"""Dynamo for a function that is compiled for one call: without work that pays off only over many calls."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Final, cast
from unittest import mock

import torch
import torch._dynamo as dynamo
from torch._dynamo import eval_frame, guards, output_graph, symbolic_convert
from torch._dynamo.backends import registry
from torch._dynamo.variables import higher_order_ops

from workbench.ground.environment.this_thread import in_this_thread, returning
from workbench.ground.torch_inside.functorch_layers import transform_at_work
from workbench.ground.torch_inside.needs import takes

_STATIC = {"automatic_dynamic_shapes": False, "specialize_float": True, "disable": False}
"""Capture needs Dynamo also where the user has turned it off for their own programs."""
_NO_SEARCH = {"run_gc_after_compile": False}
"""PyTorch would collect garbage after each graph, among all young objects of the process."""


@contextmanager
@takes(
    "torch._dynamo.config.automatic_dynamic_shapes",
    "torch._dynamo.config.specialize_float",
    "torch._dynamo.config.disable",
    "torch._dynamo.config.run_gc_after_compile",
    "torch._dynamo.config.patch",
    "torch._dynamo.eval_frame._stance",
    instead="torch.compiler.set_stance tells no stance, and torch.compile(dynamic=False) leaves floats symbolic",
)
def static_graphs(**more: object) -> Generator[None]:
    """Within the block Dynamo takes every number and shape from the call, and compiles in spite of other settings."""
    stance = cast(Any, eval_frame)._stance.stance
    default = nullcontext() if stance == "default" else torch.compiler.set_stance("default")
    with cast(Any, dynamo.config).patch(**_STATIC, **_NO_SEARCH, **more), default:
        yield


@contextmanager
@takes("torch._dynamo.guards.profile_guard_manager", instead="none")
def unmeasured_guards() -> Generator[None]:
    """Within the block PyTorch does not measure how long it takes to see that a graph may be used again.

    For the measurement it would empty the processor's caches, and write the figure to its log. The caller has the turn
    (`workbench.ground.environment.turns`).
    """
    with mock.patch.object(guards, "profile_guard_manager", returning(0.0)):
        yield


@contextmanager
@takes(
    "torch._dynamo.eval_frame.get_compiler_fn",
    "torch._dynamo.backends.registry._lazy_import",
    "torch._dynamo.output_graph.uninteresting_files",
    "torch._dynamo.symbolic_convert.InstructionTranslator._throw_if_in_functorch",
    "torch._dynamo.config.use_graph_deduplication",
    "torch._dynamo.config.track_nodes_for_deduplication",
    "torch._dynamo.output_graph.GraphRegionTracker",
    "torch._dynamo.config.side_effect_replay_policy",
    "torch._dynamo.output_graph.OutputGraph.get_replayed_side_effect_source_refs",
    "torch._dynamo.variables.higher_order_ops.LocalMapWrappedHigherOrderVariable.should_wrap_in_hop",
    instead="none",
)
def no_other_compiler() -> Generator[None]:
    """Within the block Dynamo loads no compiler of PyTorch's, which takes longer than reading a small function.

    Dynamo would load compilers for five reasons: to wrap the backend in tools that look for the fault of a compiler; to
    see in a transform of `torch.func` whether the backend is the one that compiles nothing; to mark equal parts of a
    graph; to leave its own files out of the places of calls, where only the user's are looked for; and to name changes
    of the user's objects in a warning. It would also load the package that spreads tensors over machines, to see
    whether a value is from there. A feature that the user has turned on stays on. The caller has the turn
    (`workbench.ground.environment.turns`).
    """
    config = cast(Any, dynamo.config)
    changed: list[tuple[object, str, object]] = [
        # Other threads call these two without the turn, in `torch.compile`. Our backend is never searched for by name.
        (eval_frame, "get_compiler_fn", in_this_thread(_as_it_is, eval_frame.get_compiler_fn)),
        (registry, "_lazy_import", in_this_thread(returning(None), cast(Any, registry)._lazy_import)),
        (output_graph, "uninteresting_files", returning(_GENERATED)),
    ]
    if not transform_at_work():
        changed.append((symbolic_convert.InstructionTranslator, "_throw_if_in_functorch", returning(None)))
    if not (config.use_graph_deduplication or config.track_nodes_for_deduplication):
        changed.append((output_graph, "GraphRegionTracker", object))  # which is not used then
    if config.side_effect_replay_policy not in ("warn", "error"):
        changed.append((output_graph.OutputGraph, "get_replayed_side_effect_source_refs", returning(list[str]())))
    if _SPREAD not in sys.modules:
        changed.append((higher_order_ops.LocalMapWrappedHigherOrderVariable, "should_wrap_in_hop", returning(False)))
    with ExitStack() as patched:
        for owner, name, ours in changed:
            patched.enter_context(mock.patch.object(owner, name, ours))
        yield


_GENERATED: Final = frozenset({"<string>"})
"""The file of code that PyTorch writes, which else would look like the user's."""
_SPREAD = takes(
    "torch.distributed.tensor.experimental._func_map",
    use="The module that Dynamo would load to see whether a value is spread over machines.",
    instead="none",
).path


def _as_it_is(backend: object) -> object:
    return backend
