"""Checks that a changed copy of the traced function computes the same numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final, cast

from workbench.ground.environment.turns import turn
from workbench.ground.errors import BadOption

_ROUNDING: Final = 2.0**-10
"""The allowed difference, relative to the largest element: sums in another order differ, and folded weights are
products themselves. Types with fewer digits have the square root of their last place."""


def refuse_other_numbers(
    change: str,
    target: Callable[..., object],
    made: Callable[..., object],
    inputs: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    drawn: bool,
) -> None:
    """Raises if the copy computes other numbers for the traced inputs, or raises itself: a module may use its parts in
    other ways than calling them. `drawn` is True if the function draws random numbers."""
    before = _results(copy.deepcopy(target), inputs, kwargs, drawn)
    after = results_of_copy(change, made, inputs, kwargs, drawn=drawn)
    if len(before) != len(after) or any(_apart(*pair) for pair in zip(before, after, strict=True)):
        raise BadOption(
            f"{change!r}: the changed copy computes other numbers than the model, so the model uses these parts "
            "in other ways than calling them; nothing was changed"
        )


def results_of_copy(
    change: str,
    made: Callable[..., object],
    inputs: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    drawn: bool = True,
) -> list[Any]:
    """The float tensors that a changed copy returns. Raises if the copy raises, for instance for a tensor that the
    change did not reach."""
    try:
        return _results(copy.deepcopy(made), inputs, kwargs, drawn)
    except Exception as error:  # the user's code runs, with a part that it does not expect
        told = f"{type(error).__name__}: {error}"
        raise BadOption(f"{change!r}: the changed copy raises an error that the model does not: {told}") from None


def _results(
    target: Callable[..., object], inputs: Sequence[object], kwargs: Mapping[str, object], drawn: bool
) -> list[Any]:
    """The float tensors that a callable returns, with the same random numbers each time; its arguments stay
    unchanged."""
    import torch

    from workbench.ground.torch_inside import pytrees

    def own(value: object) -> object:
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    given, keyed = cast("tuple[Any, Any]", pytrees.tree_map(own, (tuple(inputs), dict(kwargs))))
    with torch.no_grad(), _the_same_lots() if drawn else nullcontext():
        leaves = pytrees.tree_leaves(target(*given, **keyed))
    return [each for each in leaves if isinstance(each, torch.Tensor) and each.is_floating_point()]


@contextmanager
def _the_same_lots() -> Generator[None]:
    """Seeds PyTorch's generator within the block. Threads take turns, since all of them draw from one generator."""
    import torch

    drawing = cast(Any, torch.random)
    with turn(), drawing.fork_rng():
        drawing.manual_seed(0)
        yield


def _apart(before: Any, after: Any) -> bool:
    import torch

    if before.shape != after.shape or before.dtype != after.dtype:
        return True
    if not before.numel():
        return False
    bound = max(_ROUNDING, torch.finfo(before.dtype).eps ** 0.5) * float(before.double().abs().nan_to_num().max())
    return not torch.allclose(before.double(), after.double(), rtol=0, atol=bound, equal_nan=True)
