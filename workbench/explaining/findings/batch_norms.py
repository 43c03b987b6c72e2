"""Finds batch norms that can be folded into the weights before them, and makes a module without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from workbench.explaining.findings.folded_windows import folded_window_class
from workbench.explaining.findings.module_copies import copied_module, has_hooks, submodule_at, with_submodule
from workbench.ground.errors import BadOption
from workbench.ir import AtenGraph, Node

if TYPE_CHECKING:
    from torch import nn

ModuleAt: TypeAlias = Callable[[str], object | None]
"""The module at a path of the traced module."""

FOLDED_BATCH_NORMS = "folded batch norms"
"""Name of the change that folds batch norms into the weights of the convolutions or linear layers before them."""

_WEIGHTED = {"aten.conv1d.": 3, "aten.conv2d.": 4, "aten.conv3d.": 5, "aten.linear.": 2}
"""Layers with weights, and the rank of their results for batches."""
_VIEWS = ("aten.flatten.", "aten.unsqueeze.", "aten.permute.", "aten.view.", "aten.reshape.")
_NORM = "aten._native_batch_norm_legit_no_training."
"""A batch norm in evaluation: its mean and variance are the same in each run."""


def batch_norm_pairs(graph: AtenGraph, module_at: ModuleAt | None = None) -> list[tuple[Node, Node]]:
    """Pairs of a layer with weights and a batch norm over its channels that is the only reader of the layer's result.
    Both are modules that run once, and nothing else reads their weights. If the modules are known, only pairs that can
    be folded."""
    given = graph.paths
    runs = Counter(node.origin.module for node in graph.nodes if node.op.startswith((*_WEIGHTED, _NORM)))
    readers = Counter(value for node in graph.nodes for value in node.operands)
    norms = [node for node in graph.nodes if node.op.startswith(_NORM)]

    def foldable(layer: Node, norm: Node) -> bool:
        own, at = layer.origin.module, norm.origin.module
        weight = _seen_through(graph, layer.operands[1])
        read_once = all(readers[value] == 1 for value in (weight, *layer.operands[1:], *norm.operands[1:]))
        known = module_at is None or _folds(module_at(own), module_at(at))
        mine = given.get(weight) in (f"{own}.weight", f"{own}.conv.weight")
        return mine and read_once and known and runs[own] == runs[at] == 1

    return [pair for pair in products_before(graph, norms) if foldable(*pair)]


def products_before(graph: AtenGraph, norms: Iterable[Node]) -> list[tuple[Node, Node]]:
    """Pairs of a layer and its norm: the norms over the channels of a layer's result that are its only readers."""
    weighted = {node.results[0]: node for node in graph.nodes if node.op.startswith(tuple(_WEIGHTED))}
    readers = Counter(value for node in graph.nodes for value in node.operands)
    alone = {
        value
        for value, node in weighted.items()
        if readers[value] == 1 and value not in graph.outputs and _in_batches(graph, node)
    }
    return [(weighted[norm.operands[0]], norm) for norm in norms if norm.operands[0] in alone]


def _in_batches(graph: AtenGraph, layer: Node) -> bool:
    """True if the second axis of the layer's result, over whose places a batch norm works, is that of the channels."""
    rank = next(rank for op, rank in _WEIGHTED.items() if layer.op.startswith(op))
    return len(graph.types[layer.results[0]].shape) == rank


def _seen_through(graph: AtenGraph, value: str) -> str:
    """The base of a value that is a view; the value itself if it is none."""
    made = {node.results[0]: node for node in graph.nodes if node.op.startswith(_VIEWS)}
    while value in made:
        value = made[value].operands[0]
    return value


def with_batch_norms_folded(target: Callable[..., object], graph: AtenGraph) -> nn.Module:
    """A copy of the module with its foldable batch norms folded into the weights and removed."""
    from torch import nn

    made, folded = copied_module(FOLDED_BATCH_NORMS, target), 0
    whole = made
    for layer, norm in batch_norm_pairs(graph, lambda path: submodule_at(whole, path)):
        found = made.get_submodule(layer.origin.module), made.get_submodule(norm.origin.module)
        made = with_submodule(made, layer.origin.module, _fold(*found))
        made = with_submodule(made, norm.origin.module, nn.Identity())
        folded += 1
    if not folded:
        raise BadOption(
            f"{FOLDED_BATCH_NORMS!r}: no batch norm can be folded. It must be in evaluation mode and the only "
            "reader of the result of a plain convolution or linear layer; both must be modules without hooks "
            "that run once, and nothing else may read their weights"
        )
    return made


def _folds(layer: object, norm: object) -> bool:
    """True if layer and norm are plain modules of PyTorch: the work of a subclass or a hook would be lost."""
    from torch import nn

    folded = isinstance(layer, folded_window_class())
    inner = cast(Any, layer).conv if folded else layer
    plain = type(inner) in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
    plain_norm = type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return plain and plain_norm and not any(has_hooks(cast("nn.Module", each)) for each in (layer, inner, norm))


def _fold(layer: nn.Module, norm: nn.Module) -> nn.Module:
    """The layer with the norm as part of its weights, in the layer's own mode (training or evaluation)."""
    from torch import nn
    from torch.nn.utils import fusion

    if isinstance(layer, folded_window_class()):
        return folded_window_class()(_fold(cast(Any, layer).conv, norm))
    fuse: Any = fusion.fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fusion.fuse_conv_bn_eval
    return fuse(layer.eval(), norm.eval()).train(layer.training)
