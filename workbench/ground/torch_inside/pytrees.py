"""PyTorch's containers of tensors: taken apart, made again, and the classes that are registered for it."""

from __future__ import annotations

import torch

from workbench.ground.torch_inside.needs import takes

with takes(
    "torch.utils._pytree.tree_flatten",
    "torch.utils._pytree.tree_leaves",
    "torch.utils._pytree.tree_map",
    "torch.utils._pytree.tree_map_only",
    use="The leaves of containers as PyTorch's own tracers see them, and containers with other leaves.",
    instead="none in PyTorch; the package optree has other registrations",
):
    from torch.utils._pytree import tree_flatten as tree_flatten
    from torch.utils._pytree import tree_leaves as tree_leaves
    from torch.utils._pytree import tree_map as tree_map
    from torch.utils._pytree import tree_map_only as tree_map_only


def tensors_in(tree: object) -> list[torch.Tensor]:
    """Returns the tensors among the leaves of containers."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


with takes(
    "torch.utils._pytree.SUPPORTED_NODES",
    "torch.utils._pytree.NodeDef",
    use="The classes of containers that a user has registered with PyTorch, each with how it is taken apart.",
    instead="none: torch.export.register_dataclass registers one, and nothing lists them",
):
    from torch.utils._pytree import SUPPORTED_NODES as SUPPORTED_NODES
    from torch.utils._pytree import NodeDef as NodeDef
