"""Modules in training mode. A batch norm then computes mean and variance of each batch, with passes over it that cannot
be fused to the product before, and counts batches; dropout draws numbers. For inference `model.eval()` switches the
model, and its batch norms use the learnt mean and variance. Where the user's own code passes the mode to a call, this
may not help, and the rule has no remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workbench.explaining.findings import Facts, Finding, Remedy, finding, times
from workbench.explaining.findings.batch_norms import ModuleAt
from workbench.explaining.findings.source_changes import EVALUATION, call_of
from workbench.ir import Literal, Node

if TYPE_CHECKING:
    from torch import nn

_NORM = "aten._native_batch_norm_legit_functional."
_DRAWS = ("aten.native_dropout.", "aten.bernoulli.", "aten.rrelu_with_noise")
_ATTENTION, _DROPPED = "aten.scaled_dot_product_attention.", 4
"""The place of attention's argument for its dropout."""
_YOURS = (
    ". Your own code sets this mode, with training=True, self.training or its own train(): model.eval() "
    "switches off only the parts that read self.training"
)


@finding("training mode")
def training_mode(facts: Facts) -> Iterator[Finding]:
    nodes = facts.lowered.captured.nodes
    if any(node.origin.part for node in nodes):
        return  # a step that trains, or its forward pass, needs the mode
    trained = [node for node in nodes if _trains(node)]
    sure = [node for node in trained if _goes(facts, node)]
    for each, remedied in ((sure, True), ([node for node in trained if node not in sure], False)):
        if each and (found := _found(facts, each, remedied=remedied)):
            yield found


def _words(nodes: Sequence[Node]) -> str:
    """Says which nodes work in training mode, and what they then compute."""
    norms = sum(node.op.startswith(_NORM) for node in nodes)
    kinds = [
        (norms, "batch norm", "mean and variance of each batch are computed"),
        (len(nodes) - norms, "dropout", "numbers are drawn"),
    ]
    what = " and ".join(times(count, noun) for count, noun, _ in kinds if count)
    means = " and ".join(computed for count, _, computed in kinds if count)
    return f"{what} {'works' if len(nodes) == 1 else 'work'} in training mode: {means}"


def _found(facts: Facts, trained: Sequence[Node], *, remedied: bool) -> Finding | None:
    modules = {node.origin.module for node in trained} if remedied else set[str]()
    ours = {node.name for node in trained}
    ours |= {node.name for node in facts.lowered.captured.nodes if node.origin.module in modules}  # it counts batches
    touched = [kernel for kernel in facts.kernels if not ours.isdisjoint(kernel.nodes)]
    taken = min(facts.cycles_of(touched), facts.cycles)
    if taken <= 0:
        return None
    written = "; inference does not need this" if remedied else _YOURS
    return Finding(
        "",
        taken,
        _words(trained) + written,
        tuple(sorted(span for kernel in touched for span in kernel.spans.tolist())),
        nodes=tuple(node.name for node in trained),
        remedy=Remedy(call_of(EVALUATION, "model.eval()"), change=EVALUATION) if remedied else None,
    )


def _trains(node: Node) -> bool:
    if node.op.startswith(_ATTENTION):
        dropped = node.args[_DROPPED] if len(node.args) > _DROPPED else dict(node.kwargs).get("dropout_p")
        return isinstance(dropped, Literal) and float(dropped.value or 0) > 0
    return node.op.startswith((_NORM, *_DRAWS))


def _goes(facts: Facts, node: Node) -> bool:
    """True if `model.eval()` changes the node; if the modules are not known, any node of a module counts."""
    if facts.module_at is None:
        return bool(node.origin.module)
    return _goes_with_evaluation(facts.module_at, node.origin.module)


def _goes_with_evaluation(module_at: ModuleAt, path: str) -> bool:
    """True if the module at `path` is one of PyTorch's own in training mode, and no module above has its own `train` or
    `eval`.

    The effect of `self.training` in a user's module is not known. A batch norm without running statistics computes mean
    and variance in evaluation as well.
    """
    from torch import nn

    from workbench.ground.torch_inside.module_inside import is_dropout, is_norm_of_batches

    module = module_at(path)
    parts = path.split(".") if path else []
    above = [module_at(".".join(parts[:count])) for count in range(len(parts) + 1)]
    if any(_switches_by_itself(each) for each in above if isinstance(each, nn.Module)):
        return False
    if not isinstance(module, nn.Module) or not module.training:
        return False
    if is_norm_of_batches(module):
        return getattr(module, "running_mean", None) is not None
    return is_dropout(module) or isinstance(module, (nn.RReLU, nn.MultiheadAttention))


def _switches_by_itself(module: nn.Module) -> bool:
    from torch import nn

    own = type(module)
    return own.train is not nn.Module.train or own.eval is not nn.Module.eval
