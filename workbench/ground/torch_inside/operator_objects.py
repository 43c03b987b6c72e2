"""PyTorch's objects for operators: their classes, schemas and names, and the dispatcher's tables of their kernels."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from workbench.ground.torch_inside.needs import takes
from workbench.ground.torch_inside.pytrees import tensors_in

_torch = cast(Any, torch)

with takes(
    "torch._ops.HigherOrderOperator",
    use="The class of ops with graphs as arguments, such as cond and while_loop.",
    instead="none: torch.ops.higher_order has the objects and not their class",
):
    from torch._ops import HigherOrderOperator as HigherOrderOperator

with takes(
    "torch._library.custom_ops.CustomOpDef",
    use="The class of what torch.library.custom_op returns.",
    instead="none: the function returns it, and its class has no public name",
):
    from torch._library.custom_ops import CustomOpDef as CustomOpDef


@takes("torch._ops.OpOverload", instead="none: torch.ops has the objects and not their class")
def is_overload(target: object) -> bool:
    """True for an overload, as `torch.ops.aten.add.Tensor`."""
    return isinstance(target, _torch._ops.OpOverload)


@takes("torch._ops.OpOverloadPacket", instead="none: torch.ops has the objects and not their class")
def is_packet(target: object) -> bool:
    """True for all overloads of an op together, as `torch.ops.aten.add`."""
    return isinstance(target, _torch._ops.OpOverloadPacket)


@takes("torch.ops.aten.add.Tensor._schema", instead="none: str(op.default) has its name alone")
def schema_of_op(op: object) -> torch.FunctionSchema:
    """Returns the schema of an overload."""
    return cast("torch.FunctionSchema", cast(Any, op)._schema)


@takes("torch.ops.aten.add.Tensor._schema", instead="none: str(op.default) has its name alone")
def schema_if_op(target: object) -> torch.FunctionSchema | None:
    """Returns the schema of an overload, None for any other object."""
    return cast("torch.FunctionSchema | None", getattr(target, "_schema", None))


def by_name(op: object, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """Returns the arguments of a call by their names in the schema."""
    return {**dict(zip((each.name for each in schema_of_op(op).arguments), args, strict=False)), **kwargs}


def written_by(op: object, args: Sequence[object], kwargs: Mapping[str, object]) -> list[torch.Tensor]:
    """Returns the tensors that a call changes in place, as the schema says."""
    given, arguments = by_name(op, args, kwargs), schema_of_op(op).arguments
    return tensors_in([given.get(each.name) for each in arguments if each.alias_info and each.alias_info.is_write])


@takes("torch.ops.aten.add.Tensor._overloadname", instead="the text of the overload behind its last dot")
def overload_name(op: object) -> str:
    """Returns `Tensor` for `aten.add.Tensor`."""
    return str(cast(Any, op)._overloadname)


@takes("torch.ops.aten.add.Tensor._opname", instead="the text of the overload between its dots")
def op_name(target: object) -> str:
    """Returns `add` for `aten.add.Tensor`, an empty text for any other object."""
    return str(getattr(target, "_opname", ""))


def custom_op_name(defined: CustomOpDef) -> str:
    """Returns `demo::gate` for what `torch.library.custom_op` returned."""
    return repr(defined).partition("(")[2].rpartition(")")[0]


@takes("torch._C._dispatch_get_all_op_names", instead="none: dir(torch.ops.aten) lists only ops that were used")
def all_op_names() -> list[str]:
    """Returns the names of all registered overloads, as `aten::add.Tensor`."""
    return cast("list[str]", _torch._C._dispatch_get_all_op_names())


@takes("torch._C._dispatch_has_kernel_for_dispatch_key", instead="none")
def has_kernel(name: str, key: str) -> bool:
    """True if an op, as `aten::add.Tensor`, has a kernel for a key of the dispatcher."""
    return bool(_torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


@takes("torch._C._dispatch_dump", instead="none")
def kernels_in_words(op: object) -> str:
    """Returns a line for each kernel of an op, with the file that registered it."""
    return str(_torch._C._dispatch_dump(cast(Any, op).name()))


@takes("torch._C._dispatch_get_registrations_for_dispatch_key", instead="none")
def ops_with_a_kernel_for(key: str) -> tuple[str, ...]:
    """Returns the names of the ops that have a kernel for a key of the dispatcher."""
    return tuple(_torch._C._dispatch_get_registrations_for_dispatch_key(key))


@takes("torch._C.parse_schema", instead="none: torch.library.define reads it, and keeps the op")
def parsed_schema(text: str) -> torch.FunctionSchema:
    """Reads the schema of an op that may not exist."""
    return cast("torch.FunctionSchema", _torch._C.parse_schema(text))


@takes("torch._decomp.decomposition_table", instead="torch.export.default_decompositions has a part of it")
def decomposition_table() -> Mapping[Any, Callable[..., Any]]:
    """Returns PyTorch's definitions of ops in other ops."""
    from torch import _decomp

    return cast(Any, _decomp).decomposition_table


@takes("torch._C.DispatchKey", "torch._C.DispatchKeySet", instead="none")
def cpu_kernels() -> object:
    """Returns the keys for which an op is computed by its kernel for the CPU."""
    return _torch._C.DispatchKeySet(_torch._C.DispatchKey.CPU)


@contextmanager
@takes("torch._C.DispatchKey", "torch.ops.aten.add.Tensor._dispatch_cache", instead="none")
def without_autograd_kernels(ops: Sequence[Any]) -> Generator[None]:
    """Within the block these ops lack the kernels for autograd that Python gave them."""
    key = _torch._C.DispatchKey.Autograd
    kernels = {op: op.py_kernels.pop(key) for op in ops if key in op.py_kernels}
    for op in ops:
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op in ops:
            op.py_kernels.update({key: kernels[op]} if op in kernels else {})
            op._dispatch_cache.clear()
