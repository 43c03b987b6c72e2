"""Modules in training mode. A batch norm then computes mean and variance of each batch, with passes over it that cannot
be fused to the product before, and counts batches; dropout draws numbers. For inference `model.eval()` switches the
model, and its batch norms use the learnt mean and variance. Where the user's own code passes the mode to a call, this
may not help, and the rule has no remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workbench.explaining.findings.evaluation import goes_with_evaluation
from workbench.explaining.findings.finding_record import Finding, Remedy
from workbench.explaining.findings.number_words import times
from workbench.explaining.findings.rule_registry import finding
from workbench.explaining.findings.run_facts import Facts, KernelFacts
from workbench.explaining.findings.source_changes import EVALUATION, call_of
from workbench.ir import Literal, Node

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
        return  # of a step that trains, or the forward pass of one: these need the mode
    trained = [node for node in nodes if _trains(node)]
    sure = [node for node in trained if _goes(facts, node)]
    for each, remedied in ((sure, True), ([node for node in trained if node not in sure], False)):
        if each and (found := _found(facts, _Trained(each), remedied=remedied)):
            yield found


@dataclass(frozen=True)
class _Trained:
    """The nodes that work in training mode."""

    nodes: list[Node]

    @property
    def norms(self) -> list[Node]:
        return [node for node in self.nodes if node.op.startswith(_NORM)]

    @property
    def words(self) -> str:
        drops = len(self.nodes) - len(self.norms)
        named = [(len(self.norms), "batch norm"), (drops, "dropout")]
        means = ["mean and variance of each batch are computed"] * bool(self.norms) + ["numbers are drawn"] * bool(
            drops
        )
        what = " and ".join(times(count, noun) for count, noun in named if count)
        return f"{what} {'works' if len(self.nodes) == 1 else 'work'} in training mode: {' and '.join(means)}"


def _found(facts: Facts, trained: _Trained, *, remedied: bool) -> Finding | None:
    modules = {node.origin.module for node in trained.nodes} if remedied else set[str]()
    ours = {node.name for node in trained.nodes}
    ours |= {node.name for node in facts.lowered.captured.nodes if node.origin.module in modules}  # it counts batches
    touched = [kernel for kernel in facts.kernels if not ours.isdisjoint(kernel.nodes)]
    taken = min(_taken(facts, touched), facts.cycles)
    if taken <= 0:
        return None
    written = "; inference does not need this" if remedied else _YOURS
    return Finding(
        "",
        taken,
        trained.words + written,
        tuple(sorted(span for kernel in touched for span in kernel.spans.tolist())),
        nodes=tuple(node.name for node in trained.nodes),
        remedy=Remedy(call_of(EVALUATION, "model.eval()"), change=EVALUATION) if remedied else None,
    )


def _trains(node: Node) -> bool:
    if node.op.startswith(_ATTENTION):
        dropped = node.args[_DROPPED] if len(node.args) > _DROPPED else dict(node.kwargs).get("dropout_p")
        return isinstance(dropped, Literal) and float(dropped.value or 0) > 0
    return node.op.startswith((_NORM, *_DRAWS))


def _goes(facts: Facts, node: Node) -> bool:
    """True if `model.eval()` changes it: if no module is known, any node of a module counts."""
    if facts.module_at is None:
        return bool(node.origin.module)
    return goes_with_evaluation(facts.module_at, node.origin.module)


def _taken(facts: Facts, kernels: Iterable[KernelFacts]) -> int:
    """Cycles of kernels, with their launch overhead."""
    begun = sum(len(kernel.launches) for kernel in kernels if kernel.scheduled)
    return sum(kernel.cycles for kernel in kernels) + begun * facts.machine.core.launch_overhead_cycles
