"""Tensors of the user's that another tensor stands for, in this thread alone.

A function of the user's reads its own tensors from variables, attributes and lists that all threads share. So they stay
there as they are, and each call of PyTorch's that is given one of them gets its double in its place. What is made in
place of a double is handed back as the tensor that it stands for: the function never sees a double.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, cast
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from workbench.ground.torch_inside.autograd_inside import engine_as
from workbench.ground.torch_inside.module_inside import TENSOR_HOOKS
from workbench.ground.torch_inside.pytrees import tree_map_only

_TENSOR: Final = cast("Any", torch.Tensor)


class Doubles(TorchFunctionMode):
    """Within the block, calls of PyTorch's functions in this thread get doubles in place of the tensors."""

    def __init__(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Takes pairs of a tensor and its double."""
        super().__init__()
        self._pairs = list(pairs)
        self._double = {id(tensor): double for tensor, double in self._pairs}
        self._itself = {id(double): tensor for tensor, double in self._pairs}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given, named = self.doubled((tuple(args), dict(kwargs or {})))
        return self.themselves(func(*given, **named))

    def doubled(self, values: Any) -> Any:
        """The same values with doubles in place of tensors."""
        return tree_map_only(torch.Tensor, lambda each: self._double.get(id(each), each), values)

    def themselves(self, values: Any) -> Any:
        """The same values with the tensors in place of doubles; a shape stays a `torch.Size`, of which a map over trees
        makes a tuple."""
        if isinstance(values, torch.Size):
            return values
        return tree_map_only(torch.Tensor, lambda each: self._itself.get(id(each), each), values)

    @contextmanager
    def going_back(self) -> Generator[None]:
        """For a function that takes gradients, in turn (`workbench.ground.environment.turns`): doubles get them, and
        hooks and functions with a backward pass of their own see what the function sees.

        PyTorch asks no mode about the engine of its gradients and about `Function.apply`. Other threads get both as
        they are.
        """
        function, caller = cast(Any, torch.autograd.Function), threading.get_ident()
        apply = function.__dict__["apply"]

        def of_doubles(engine: Callable[..., Any]) -> Callable[..., Any]:
            def run(*given: Any, **named: Any) -> Any:
                given, named = self.doubled((given, named))
                with self:
                    return engine(*given, **named)

            return run

        def applied(cls: type, *given: Any, **named: Any) -> Any:
            if threading.get_ident() != caller:
                return apply.__get__(None, cls)(*given, **named)
            given, named = self.doubled((given, named))
            return self.themselves(apply.__get__(None, cls)(*given, **named))

        with ExitStack() as stack:
            stack.enter_context(engine_as(of_doubles))
            stack.enter_context(mock.patch.object(function, "apply", classmethod(cast(Any, applied))))
            for tensor, double in self._pairs:
                _with_hooks(tensor, double)
            stack.enter_context(self)
            yield


def _with_hooks(tensor: torch.Tensor, double: torch.Tensor) -> None:
    """Has the double call the tensor's hooks."""
    if not double.requires_grad:
        return
    of_gradient, of_accumulated = TENSOR_HOOKS
    for hook in _hooks(tensor, of_gradient):
        cast(Any, double).register_hook(hook)
    for hook in _hooks(tensor, of_accumulated):
        cast(Any, double).register_post_accumulate_grad_hook(_with_tensor(hook, tensor))


def _with_tensor(hook: Callable[[torch.Tensor], object], tensor: torch.Tensor) -> Callable[[torch.Tensor], object]:
    """The hook, called with this tensor whichever it is given."""
    return lambda _: hook(tensor)


def _hooks(tensor: torch.Tensor, name: str) -> list[Callable[..., object]]:
    hooks = cast("dict[int, Callable[..., object]] | None", getattr(tensor, name, None))
    return list((hooks or {}).values())


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same memory, which requires a gradient where the tensor is a leaf that does."""
    result = tensor.detach()
    return result.requires_grad_() if tensor.is_leaf and tensor.requires_grad else result
