"""Stand-ins without data in the places of tensors from outside, while a training step is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.fx.traceback as fx_traceback

from workbench.capturing.step_parts import Parts
from workbench.ground import errors
from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode, no_modes
from workbench.ground.torch_inside.fake_tensors import FakeTensor
from workbench.ground.torch_inside.operator_objects import schema_of_op
from workbench.ground.torch_inside.pytrees import tensors_in, tree_leaves, tree_map
from workbench.ir import BACKWARD, FORWARD, STEP


class StandIns(TorchDispatchMode):
    """Gives each op the stand-ins of the tensors from outside, and notes the part of the step that the op belongs
    to."""

    def __init__(
        self,
        given: Sequence[torch.Tensor],
        fakes: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        parts: Parts,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._of = {id(tensor): fake for tensor, fake in zip(given, fakes, strict=True)}
        self._parts = parts
        for gradient in gradients:
            _mark(self._of[id(gradient)])

    def of(self, value: Any) -> Any:
        """Returns the stand-in of a tensor from outside; other values unchanged."""
        return self._of.get(id(value), value)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        real = tensors_in((args, kwargs))
        if any(isinstance(each, torch.Generator) for each in tree_leaves((args, kwargs))):
            raise errors.NoTrainingStep(
                self._parts.name,
                f"{func} draws from a generator of its own, whose state no graph has",
                "Draw with PyTorch's own generator: torch.manual_seed",
            )
        if schema_of_op(func).name not in _LIFTS:
            self._parts.refuse_strange(real)
        given = cast("tuple[Any, Any]", tree_map(self.of, (tuple(args), dict(kwargs or {}))))
        part = self._parts.inside[-1] if self._parts.inside else _outside(real, given)
        fx_traceback.current_meta["custom"] = {"part": part}
        if part == BACKWARD and torch.Tag.nondeterministic_seeded in func.tags:
            raise errors.NoTrainingStep(
                self._parts.name,
                f"its backward pass draws random numbers ({func}), as torch.utils.checkpoint does to repeat what the "
                "forward pass drew, and a graph would draw others",
                "Keep dropout and other random numbers out of what is checkpointed",
            )
        made = func(*given[0], **given[1])
        if part == BACKWARD or (part == STEP and not self._parts.inside):
            tree_map(_mark, made)
        self._note_initial(func, real, args, kwargs or {}, made)
        back = {id(self._of[id(each)]): each for each in real if id(each) in self._of}

        def itself(value: Any) -> Any:
            """Returns the tensor from outside for its stand-in, which an op in place returns; other values
            unchanged."""
            return back.get(id(value), value)

        return tree_map(itself, made)

    def _note_initial(
        self, func: Any, real: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Mapping[str, Any], made: object
    ) -> None:
        """Notes a function that makes the tensor again, if that needs no data: for a constant, or a filled tensor of
        another's shape."""
        if not isinstance(made, torch.Tensor) or schema_of_op(func).is_mutable:
            return
        name = schema_of_op(func).name
        if name in _LIFTS and not isinstance(args[0], FakeTensor):
            with no_modes():
                constant = args[0].detach().clone()
            self._parts.made[id(made)] = made, constant.clone
        elif name in ("aten::detach", "aten::alias") and id(args[0]) in self._parts.made:
            self._parts.made[id(made)] = made, self._parts.made[id(args[0])][1]
        elif name in _FILLED:
            alike, given = [_likeness(each) for each in args], dict(kwargs)
            self._parts.made[id(made)] = made, lambda: func(*(make() for make in alike), **given)


_LIFTS = frozenset(("aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift"))
_FILLED = frozenset(f"aten::{name}" for name in ("zeros_like", "ones_like", "full_like", "zeros", "ones", "full"))


def _likeness(given: Any) -> Callable[[], Any]:
    """Returns a function that returns the argument; for a tensor, one that makes a tensor of its shape, strides and
    type."""
    if not isinstance(given, torch.Tensor):
        return lambda: given
    return partial(torch.empty_strided, tuple(given.shape), given.stride(), dtype=given.dtype)


def _outside(real: Sequence[torch.Tensor], given: Any) -> str:
    """The part of the step for an op that neither autograd's engine nor an optimizer calls."""
    if torch.is_grad_enabled() and any(each.requires_grad for each in real):
        return FORWARD
    works_on_gradients = any(getattr(each, _MARK, False) for each in tree_leaves(given))
    return STEP if works_on_gradients else FORWARD


_MARK = "_workbench_gradient"


def _mark(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        setattr(value, _MARK, True)
    return value
