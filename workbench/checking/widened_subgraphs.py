"""Ops with subgraphs, in an arithmetic of one's own: their subgraphs are computed in it too.

PyTorch computes such an op for a mode of dispatch only if the mode says how. Here each becomes its definition, a loop
or a branch in Python, so that every op inside reaches the mode by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode
from workbench.ground.torch_inside.higher_order import (
    attention_by_products,
    cond_op,
    flex_attention,
    map_impl,
    scan_op,
    while_loop_op,
)

Function = Callable[..., Any]


def _cond(chosen: object, if_true: Function, if_false: Function, given: Sequence[Any]) -> Any:
    return if_true(*given) if chosen else if_false(*given)


def _while_loop(goes_on: Function, body: Function, carried: Sequence[Any], given: Sequence[Any] = ()) -> Any:
    while goes_on(*carried, *given):
        carried = tuple(body(*carried, *given))
    return tuple(carried)


def _scan(turn: Function, carried: Sequence[Any], over: Sequence[Any], given: Sequence[Any] = ()) -> Any:
    count, rows = len(carried), list[list[Any]]()
    for place in range(over[0].shape[0]):
        made = list(turn(*carried, *(each[place] for each in over), *given))
        carried = made[:count]
        rows.append(made[count:])
    return *carried, *(torch.stack(column) for column in zip(*rows, strict=True))


def _map(turn: Function, over: Sequence[Any], given: Sequence[Any] = ()) -> Any:
    rows = [turn(*(each[place] for each in over), *given) for place in range(over[0].shape[0])]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def _attention(query: Any, *given: Any, **named: Any) -> Any:
    out, *others = attention_by_products()(query, *given, **named)
    return out.contiguous(), *others


_MEANINGS: tuple[tuple[Any, Function], ...] = (
    (cond_op, _cond),
    (while_loop_op, _while_loop),
    (scan_op, _scan),
    (map_impl, _map),
    (flex_attention, _attention),
)


def computed_inside(mode: type[TorchDispatchMode]) -> None:
    """Lets functions that use such ops be called under a mode of this class."""
    for op, meaning in _MEANINGS:

        def rule(entered: TorchDispatchMode, *args: Any, _meaning: Function = meaning, **kwargs: Any) -> Any:
            with entered:
                return _meaning(*args, **kwargs)

        op.py_impl(mode)(rule)
