"""Refusing tensors that no record can describe, wherever a capture meets one: given, held, or made on the way."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

from workbench.ground.environment.call_sites import place_text
from workbench.ground.errors import UnreadableTensor
from workbench.ground.torch_inside import pytrees as pytree
from workbench.operators.tensors.tensor_memory import not_strided


def refuse_unreadable(tensor: torch.Tensor, what: str, name: str) -> None:
    """`what` is how the user calls it, `name` the function it is for. Stand-ins have a layout too."""
    if why := not_strided(tensor):
        raise UnreadableTensor(name, what, why)


def refuse_unreadable_in(exported: ExportedProgram, name: str) -> None:
    """Refuses them among what an exported graph is given and makes."""
    for node in exported.graph.nodes:
        place = place_text(node.meta.get("stack_trace"))
        what = f"{node.target}" if node.op == "placeholder" else f"the result of {node.target}"
        for part in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(part, torch.Tensor):
                refuse_unreadable(part, f"{what}, at {place}," if place else what, name)
