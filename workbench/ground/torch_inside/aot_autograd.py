"""AOTAutograd: PyTorch's way to a forward and a backward graph of one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast
from unittest import mock

import torch
from torch import fx

from workbench.ground.environment.this_thread import returning
from workbench.ground.torch_inside.needs import takes

with takes(
    "torch._functorch._aot_autograd.descriptors.BufferAOTInput",
    "torch._functorch._aot_autograd.descriptors.InputMutationAOTOutput",
    "torch._functorch._aot_autograd.descriptors.ParamAOTInput",
    "torch._functorch._aot_autograd.descriptors.PlainAOTInput",
    "torch._functorch._aot_autograd.descriptors.SavedForBackwardsAOTOutput",
    "torch._functorch._aot_autograd.descriptors.TangentAOTInput",
    use="What AOTAutograd says of the inputs and results of its graphs: which tensor each is, or its gradient.",
    instead="none: functorch.compile numbers them",
):
    from torch._functorch._aot_autograd import descriptors as descriptors

Boxed = Callable[[list[object]], object]
"""A function that takes its arguments as a list, and empties it."""
Compiler = Callable[[fx.GraphModule, object], Boxed]


@takes("torch._functorch.aot_autograd.aot_module_simplified", instead="functorch.compile has it by the same name")
def with_gradients(
    module: fx.GraphModule,
    inputs: Sequence[torch.Tensor],
    *,
    forward: Compiler,
    backward: Compiler,
    untrained: Compiler,
    partition: Callable[..., tuple[fx.GraphModule, fx.GraphModule]],
) -> Callable[..., Sequence[torch.Tensor]]:
    """Returns a function with gradients, from what the compilers make of its forward and its backward graph."""
    from torch._functorch.aot_autograd import aot_module_simplified

    return cast(Any, aot_module_simplified)(
        module,
        inputs,
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=untrained,
        partition_fn=partition,
        decompositions={},
    )


@takes("torch._functorch.partitioners.has_recomputable_rng_ops", instead="none")
def draws_again(joint: fx.GraphModule) -> bool:
    """True if a graph has random numbers that a checkpoint draws again."""
    from torch._functorch.partitioners import has_recomputable_rng_ops

    return has_recomputable_rng_ops(joint)


@takes("torch._functorch.partitioners.default_partition", instead="functorch.compile has it by the same name")
def parted(joint: fx.GraphModule, *inputs: Any, **options: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and the backward graph of a joint one."""
    from torch._functorch.partitioners import default_partition

    return cast(Any, default_partition)(joint, *inputs, **options)


@takes("torch._functorch._aot_autograd.graph_compile.collect_bw_donated_buffer_idxs", instead="none")
def nothing_donated() -> AbstractContextManager[object]:
    """Within the block PyTorch lists no tensor that a backward pass may write over.

    Our kernels do not write over kept tensors, so a backward pass may run again (`retain_graph`), which PyTorch refuses
    if it lists some. The caller has the turn.
    """
    from torch._functorch._aot_autograd import graph_compile

    return mock.patch.object(graph_compile, "collect_bw_donated_buffer_idxs", returning(list[int]()))


@takes(
    "torch._functorch.aot_autograd.make_boxed_func(print)._boxed_call",
    instead="functorch.compile.make_boxed_func, which spreads the list",
)
def boxed(function: Boxed) -> Boxed:
    """Marks a function as one that takes its arguments as a list: the caller then keeps none of them."""
    marked = cast(Any, function)
    marked._boxed_call = True
    return function
