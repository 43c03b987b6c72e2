"""Doubles: tensors that replace a user's tensors, in this thread alone.

A user's function reads its own tensors from variables, attributes and lists that all threads share, so these stay as
they are. A call of PyTorch that gets such a tensor gets its double instead, and a double among the call's results is
handed back as its tensor: the function never sees a double.
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
    """Within the block, calls of PyTorch's functions in this thread get doubles in place of their tensors."""

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
        """The same values with the tensors in place of doubles. A `torch.Size` stays as it is: a map over trees would
        make it a tuple."""
        if isinstance(values, torch.Size):
            return values
        return tree_map_only(torch.Tensor, lambda each: self._itself.get(id(each), each), values)

    @contextmanager
    def going_back(self) -> Generator[None]:
        """Surrounds a function that takes gradients, in turn (`workbench.ground.environment.turns`): doubles get the
        gradients, and hooks and functions with a backward pass of their own see what the function sees.

        PyTorch asks no mode about its autograd engine and about `Function.apply`, so both are replaced for this thread.
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
    """Registers the tensor's hooks with its double."""
    if not double.requires_grad:
        return
    of_gradient, of_accumulated = TENSOR_HOOKS
    for hook in _hooks(tensor, of_gradient):
        cast(Any, double).register_hook(hook)
    for hook in _hooks(tensor, of_accumulated):
        cast(Any, double).register_post_accumulate_grad_hook(_with_tensor(hook, tensor))


def _with_tensor(hook: Callable[[torch.Tensor], object], tensor: torch.Tensor) -> Callable[[torch.Tensor], object]:
    """Wraps the hook so that it is called with this tensor, whichever tensor it gets."""
    return lambda _: hook(tensor)


def _hooks(tensor: torch.Tensor, name: str) -> list[Callable[..., object]]:
    hooks = cast("dict[int, Callable[..., object]] | None", getattr(tensor, name, None))
    return list((hooks or {}).values())


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor over the same memory, which requires a gradient if the tensor is a leaf that does."""
    result = tensor.detach()
    return result.requires_grad_() if tensor.is_leaf and tensor.requires_grad else result
