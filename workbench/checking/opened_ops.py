"""Ops made of other ops, opened under a mode that computes in another arithmetic: the mode then sees every op inside.

Below autograd PyTorch gives a mode its composite ops (`linear`, `matmul`, `einsum`) whole, and an operator of the
user's own as one op. A mode of ours and the modes around the function, which say of a wide tensor the type it has in
the program, work inside of such an op as well. So a program computes the same whether its lines stand in the function
or in an operator: a check of types in the operator passes as it did, and its roundings are drawn one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from torch.overrides import TorchFunctionMode

from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode, function_modes, functions_seen
from workbench.ground.torch_inside.operator_objects import cpu_kernels, has_kernel, kernels_in_words, overload_name

PYTORCHS: Final = ("aten", "prims", "workbench")
"""The namespaces whose ops are no operators of the user's."""
_CPU: Final = cpu_kernels()
_KERNEL: Final = re.compile(r"^(?:CPU|CompositeExplicitAutograd)\S*: registered at (.+):\d+", re.MULTILINE)
_COMPILED: Final = (".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cu", ".hip")


def is_composite(func: Any) -> bool:
    """True for an op that is made of other ops by its definition."""
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
    """Computes an op by those inside of it, under the mode and those `around` the function, which PyTorch took off."""
    here = set(map(id, function_modes()))
    with ExitStack() as entered:
        entered.enter_context(functions_seen())
        for each in around:
            if id(each) not in here:
                entered.enter_context(each)
        entered.enter_context(mode)
        return func.redispatch(_CPU, *args, **kwargs)
