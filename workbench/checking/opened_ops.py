"""Opens ops that are made of other ops, under a mode that computes in another arithmetic: the mode then sees every op
inside.

Below autograd PyTorch gives a mode its composite ops (`linear`, `matmul`, `einsum`) whole, and a user's own operator as
one op. Here the mode works inside such an op as well, and so do the modes around the function, which give a wide tensor
the type that it has in the program. So lines compute the same in the function and in an operator: a check of types in
the operator passes as before, and the operator's roundings are drawn one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode, function_modes, functions_seen
from workbench.ground.torch_inside.higher_order import (
    attention_by_products,
    cond_op,
    flex_attention,
    map_impl,
    scan_op,
    while_loop_op,
)
from workbench.ground.torch_inside.operator_objects import cpu_kernels, has_kernel, kernels_in_words, overload_name

PYTORCHS: Final = ("aten", "prims", "workbench")
"""The namespaces whose ops are not a user's operators."""
_CPU: Final = cpu_kernels()
_KERNEL: Final = re.compile(r"^(?:CPU|CompositeExplicitAutograd)\S*: registered at (.+):\d+", re.MULTILINE)
_COMPILED: Final = (".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cu", ".hip")


def is_composite(func: Any) -> bool:
    """True for an op that is defined by other ops."""
    name = func.name()
    made = has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU")
    return made and not overload_name(func).endswith("out")


def is_own(func: Any) -> bool:
    """True for an operator of the user's that is written in Python."""
    if func.namespace in PYTORCHS:
        return False
    found = _KERNEL.search(kernels_in_words(func))
    return found is not None and not found[1].endswith(_COMPILED)


def call_inside(
    func: Any,
    mode: TorchDispatchMode,
    around: Sequence[TorchFunctionMode],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> Any:
    """Computes an op by the ops inside it, under the mode and the modes `around` the function, which PyTorch has
    switched off."""
    here = set(map(id, function_modes()))
    with ExitStack() as entered:
        entered.enter_context(functions_seen())
        for each in around:
            if id(each) not in here:
                entered.enter_context(each)
        entered.enter_context(mode)
        return func.redispatch(_CPU, *args, **kwargs)


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
    """Lets functions with the ops of `_MEANINGS`, such as `cond`, be called under a mode of this class."""
    for op, meaning in _MEANINGS:

        def rule(entered: TorchDispatchMode, *args: Any, _meaning: Function = meaning, **kwargs: Any) -> Any:
            with entered:
                return _meaning(*args, **kwargs)

        op.py_impl(mode)(rule)
