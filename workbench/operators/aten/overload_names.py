"""Names of overloads: `aten.add.Tensor` in records, `aten::add.Tensor` and `torch.ops.aten.add.Tensor` elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from simulator.did_you_mean import nearest
from workbench.ground import errors
from workbench.ground.torch_inside.operator_objects import (
    CustomOpDef,
    all_op_names,
    custom_op_name,
    is_overload,
    is_packet,
    schema_of_op,
)
from workbench.ir import BREAK, AtenGraph, RecordFormatError
from workbench.operators.tensors.element_types import DTYPES

_OURS = ("workbench", "higher_order")
"""Namespaces of the ops that `check_known` does not look up in PyTorch."""


def overloads(given: object) -> tuple[str, ...]:
    """The full names of the overloads that a name stands for: one, or, if the name leaves the overload out, all that
    take or return tensors."""
    namespace, op, overload = _parts(given)
    packet = getattr(getattr(torch.ops, namespace), op, None)
    if packet is None or not hasattr(packet, "overloads"):
        raise _unknown(given, f"torch.ops.{namespace} has no op {op!r}", _close(op, _ops_of(namespace), namespace))
    known: list[str] = packet.overloads()
    if not overload:
        return tuple(f"{namespace}.{op}.{each}" for each in known if _takes_tensors(getattr(packet, each)))
    if overload not in known:
        listed = ", ".join(f"{namespace}.{op}.{each}" for each in known)
        raise _unknown(given, f"{namespace}.{op} has no overload {overload!r}", f"its overloads are {listed}")
    return (f"{namespace}.{op}.{overload}",)


def draws_lots(ops: Iterable[str]) -> bool:
    """Returns True if one of these overloads, by name, draws random numbers."""
    for op in ops:
        namespace, name, overload = op.split(".") if op.count(".") == 2 else ("", "", "")
        found = getattr(getattr(getattr(torch.ops, namespace, None), name, None), overload, None)
        if found is not None and torch.Tag.nondeterministic_seeded in found.tags:
            return True
    return False


def check_known(graph: AtenGraph) -> None:
    """Raises if a graph, perhaps from a file, names an op or an element type that PyTorch does not have."""
    for node in graph.nodes:
        namespace, *rest = _parts(node.op)
        if node.op != BREAK and namespace not in _OURS:
            if not rest[-1]:
                raise _unknown(
                    node.op, f"node {node.name} calls no overload of an operator", "write namespace.op.overload"
                )
            overloads(node.op)
    for value, kind in graph.types.items():
        if kind.dtype not in DTYPES and not isinstance(getattr(torch, kind.dtype, None), torch.dtype):
            raise RecordFormatError(
                f"the captured graph is inconsistent: value {value!r} is of type {kind.dtype!r}, which PyTorch "
                f"does not have; element types are {', '.join(DTYPES)} and the names of torch.dtypes"
            )


def _takes_tensors(overload: object) -> bool:
    """True if an overload takes or returns tensors. ATen also has overloads for plain numbers and strings, for
    TorchScript; no graph holds these."""
    schema = schema_of_op(overload)
    return any("Tensor" in str(each.type) for each in (*schema.arguments, *schema.returns))


def _parts(given: object) -> tuple[str, str, str]:
    """Splits a name into namespace, op and overload; the overload is empty if the name leaves it out."""
    if not isinstance(given, str):
        given = _name_of_object(given)
    text = given.removeprefix("torch.ops.").replace("::", ".")
    parts = text.split(".")
    if len(parts) not in (2, 3) or not all(part.isidentifier() for part in parts):
        raise _unknown(given, "it names no operator", "write namespace.op.overload: 'aten.add.Tensor'")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else ""


def _name_of_object(given: object) -> str:
    """`aten.add.Tensor` for `torch.ops.aten.add.Tensor`, `demo.gate` for the packet or for a custom op's function."""
    if is_overload(given) or is_packet(given):
        return str(given)
    if isinstance(given, CustomOpDef):
        return custom_op_name(given)
    raise _unknown(
        getattr(given, "__qualname__", given),
        f"{type(given).__name__!r} is no operator",
        "write its name: 'aten.add.Tensor'",
    )


def _unknown(given: object, why: str, hint: str) -> errors.UnknownOverload:
    return errors.UnknownOverload(f"{given!r}: {why}; {hint}" if hint else f"{given!r}: {why}")


def _ops_of(namespace: str) -> list[str]:
    found = (name.split("::", 1) for name in all_op_names())
    return sorted({op.split(".")[0] for space, op in found if space == namespace})


def _close(op: str, known: list[str], namespace: str) -> str:
    if not known:
        return f"there is no namespace {namespace!r}: define the op first, with torch.library.custom_op"
    close = nearest(op, known)
    return f"did you mean {namespace}.{close[0]}?" if close else ""
