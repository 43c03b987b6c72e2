"""Batch norms that could be part of the weights before them: which there are in a graph, and a module without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from workbench.errors import BadOption
from workbench.findings.module_copies import copied_module, has_hooks, with_submodule
from workbench.ir import AtenGraph, Node

if TYPE_CHECKING:
    from torch import nn

FOLDED_BATCH_NORMS = "folded batch norms"
"""Every convolution or linear layer with the batch norm after it as one, by weights that have its scale and shift."""

_WEIGHTED = ("aten.conv1d.", "aten.conv2d.", "aten.conv3d.", "aten.linear.")
_NORM = "aten._native_batch_norm_legit_no_training."
"""In evaluation: its mean and variance are the same in each run."""


def batch_norm_pairs(graph: AtenGraph) -> list[tuple[Node, Node]]:
    """A layer with weights, and the batch norm that alone reads what it makes. Both are modules that run once."""
    given = {each.value: each.path for each in graph.inputs}
    runs = Counter(node.origin.module for node in graph.nodes)
    norms = [node for node in graph.nodes if node.op.startswith(_NORM)]
    return [
        (layer, norm)
        for layer, norm in products_before(graph, norms)
        if given.get(layer.operands[1]) == f"{layer.origin.module}.weight"
        and runs[layer.origin.module] == runs[norm.origin.module] == 1
    ]


def products_before(graph: AtenGraph, norms: Iterable[Node]) -> list[tuple[Node, Node]]:
    """The norms that alone read what a layer with weights makes, each after its layer."""
    weighted = {node.results[0]: node for node in graph.nodes if node.op.startswith(_WEIGHTED)}
    readers = Counter(value for node in graph.nodes for value in node.operands)
    alone = {value for value in weighted if readers[value] == 1 and value not in graph.outputs}
    return [(weighted[norm.operands[0]], norm) for norm in norms if norm.operands[0] in alone]


def with_batch_norms_folded(target: Callable[..., object], graph: AtenGraph) -> nn.Module:
    """A copy of the module in which they are part of the weights, and nothing stands in their place."""
    from torch import nn

    made, folded = copied_module(FOLDED_BATCH_NORMS, target), 0
    for layer, norm in batch_norm_pairs(graph):
        found = made.get_submodule(layer.origin.module), made.get_submodule(norm.origin.module)
        if _folds(*found):
            with_submodule(made, layer.origin.module, _fold(*found))
            with_submodule(made, norm.origin.module, nn.Identity())
            folded += 1
    if not folded:
        raise BadOption(
            f"{FOLDED_BATCH_NORMS!r}: there is no batch norm in evaluation mode that alone reads what a plain "
            "convolution or linear layer makes, both of them modules without hooks that run once"
        )
    return made


def _folds(layer: nn.Module, norm: nn.Module) -> bool:
    """Whether nothing is lost that a subclass or a hook does."""
    from torch import nn

    plain = type(layer) in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
    plain_norm = type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return plain and plain_norm and not has_hooks(layer) and not has_hooks(norm)


def _fold(layer: nn.Module, norm: nn.Module) -> nn.Module:
    from torch import nn
    from torch.nn.utils import fusion

    fuse: Any = fusion.fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fusion.fuse_conv_bn_eval
    return fuse(layer, norm)
