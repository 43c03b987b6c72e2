"""The nodes that are known to be safe: overloads that a sweep imported, scheduled, compiled and ran, type by type.

`proven.json` is the shipped result of `scripts/sweep_proven.py`. A node in it, on the automatic route or of a shipped
builder or template, is processed in this process at once. A node that is not in it costs a trial, never an error.

The list holds for the processors that it names, by level: the sweep compiled for each of these levels. On any other
processor every node is tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from workbench.ground.environment.processor import processor
from workbench.ir import HOST, Kernel, KernelGraph, LoweredNode, Node, ScheduledProgram, TensorType
from workbench.operators.aten.registry import Registrations

FILE: Final = Path(__file__).with_suffix(".json")

VERSION: Final = 1


def signature(node: Node, types: Mapping[str, TensorType]) -> str:
    """The element types of a node's operands and results: `f32,f32>f32`."""
    return ">".join(",".join(types[value].dtype for value in values) for values in (node.operands, node.results))


def proven(node: Node, types: Mapping[str, TensorType]) -> bool:
    """True if the sweep found this overload safe between these element types."""
    return processor().level in processors() and signature(node, types) in known().get(node.op, frozenset())


def unproven(lowered: KernelGraph, registrations: Registrations) -> dict[str, tuple[str, ...]]:
    """Kernels that have to be tried first, each with its nodes in words."""
    unknown = {item.kernel for item in lowered.nodes if not _trusted(item, lowered.types, registrations)}
    return {
        kernel.name: described(lowered, kernel)
        for kernel in lowered.kernels
        if kernel.kind != HOST and kernel.name in unknown
    }


def changed(lowered: KernelGraph, scheduled: ScheduledProgram, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The kernels whose launch or code is named in `names`, because the user's own script or pass changed it, each with
    its nodes in words."""
    given = set(names)
    found = [each.name for each in scheduled.launches.launches if {each.name, each.kernel} & given]
    return {name: described(lowered, lowered.kernel(name)) for name in found}


def kernel_proven(lowered: KernelGraph, kernel: Kernel, registrations: Registrations) -> bool:
    """True if all of a kernel's nodes are known to be safe."""
    return all(_trusted(lowered.node(name), lowered.types, registrations) for name in kernel.nodes)


def described(lowered: KernelGraph, kernel: Kernel) -> tuple[str, ...]:
    """A kernel's nodes for messages: the user's calls, with their places."""
    origins = (lowered.node(name).node.origin for name in kernel.nodes)
    return tuple(dict.fromkeys(f"{origin.op} at {origin.place}" for origin in origins))


def _trusted(item: LoweredNode, types: Mapping[str, TensorType], registrations: Registrations) -> bool:
    if item.route in ("template", "builder"):
        found = registrations.find(item.node.op, item.route, item.dialect)
        if found is None or not found.owner.is_shipped:
            return False
    return proven(item.node, types)


def known() -> Mapping[str, frozenset[str]]:
    """The shipped list: the proven signatures of each overload."""
    return _read()[1]


def processors() -> frozenset[str]:
    """The levels of processors for which the shipped list holds."""
    return _read()[0]


@cache
def _read() -> tuple[frozenset[str], Mapping[str, frozenset[str]]]:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    if content.get("version") != VERSION:
        raise ValueError(f"{FILE} is of version {content.get('version')!r}; expected {VERSION}")
    signatures = {op: frozenset(found) for op, found in content["signatures"].items()}
    return frozenset(content["processors"]), signatures
