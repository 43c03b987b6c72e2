"""Puts copies in place of the tensors that a user's function holds while a check calls the function, if the call
changes or widens them.

Other threads may read the same parameters, buffers and globals at that moment, so the tensors themselves stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from workbench.capturing import tensor_copies
from workbench.ground.torch_inside.tensor_inside import memory_of
from workbench.ground.torch_inside.uncompiled_thread import uncompiled_here
from workbench.operators.tensors.doubles import Doubles, alias

Arithmetic = Callable[[Sequence[torch.Tensor]], AbstractContextManager[object]]
"""Makes a context to compute in from the tensors that take part. Nobody else reads these tensors, so the context may
give them other numbers."""


def as_given(tensors: Sequence[torch.Tensor]) -> AbstractContextManager[object]:
    """The arithmetic in which the function is written: no context."""
    return nullcontext()


@dataclass(frozen=True)
class Holds:
    """The tensors that a function holds."""

    tensors: Sequence[torch.Tensor]
    changed: frozenset[int]
    """The `id`s of the tensors that a call may change."""
    trained: Sequence[torch.Tensor] | None = None
    """For a step of training, the tensors that may get gradients."""

    @contextmanager
    def on_copies(self, given: Sequence[torch.Tensor], arithmetic: Arithmetic) -> Generator[None]:
        """A context for a call of the function on `given`, which are copies.

        In this context PyTorch does not compile the subgraphs of `cond` and its like: it could not compile them in
        another arithmetic or for copies.
        """
        if arithmetic is as_given and not self.changed and self.trained is None:
            yield
            return
        pairs = self._pairs()
        doubles = Doubles(pairs)
        with ExitStack() as stack:
            stack.enter_context(uncompiled_here())
            stack.enter_context(arithmetic([*given, *(double for _, double in pairs)]))
            if pairs:
                stack.enter_context(doubles if self.trained is None else doubles.going_back())
            yield

    def _pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs the tensors with their doubles: copies of tensors in memory that changes, aliases of all others."""
        every = list({id(each): each for each in (*self.tensors, *(self.trained or ()))}.values())
        known = [each for each in every if not each.is_meta and each.layout is torch.strided]
        memories = {memory_of(each) for each in known if id(each) in self.changed}
        apart = [each for each in known if memory_of(each) in memories]
        copies = dict(zip(map(id, apart), tensor_copies.copies(apart), strict=True))
        return [(each, _like(each, copies.get(id(each)))) for each in every]


def _like(tensor: torch.Tensor, copy: torch.Tensor | None) -> torch.Tensor:
    if copy is None:
        return alias(tensor)
    return copy.requires_grad_() if tensor.is_leaf and tensor.requires_grad else copy
