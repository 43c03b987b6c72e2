"""Modules in training mode. There a batch norm works out mean and variance of each batch, which takes passes over it
and cannot go along with the product before, and counts batches; dropout draws numbers. A model that is only to answer
is switched with `model.eval()`, and its batch norms take the mean and the variance that they have learnt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.findings.batch_norms import products_before
from workbench.findings.finding_record import Finding, Remedy
from workbench.findings.number_words import times
from workbench.findings.rule_registry import finding
from workbench.findings.run_facts import Facts, KernelFacts
from workbench.findings.source_changes import EVALUATION, call_of
from workbench.ir import Node

_NORM = "aten._native_batch_norm_legit_functional."
_DROPOUT = "aten.native_dropout."
_LEFT = 2
"""Launches that are left of a batch norm: those that make its scale and its shift. Each loads and stores."""


@finding("training mode")
def training_mode(facts: Facts) -> Iterator[Finding]:
    nodes = facts.lowered.captured.nodes
    norms = [node for node in nodes if node.op.startswith(_NORM)]
    drops = [node for node in nodes if node.op.startswith(_DROPOUT)]
    modules = {node.origin.module for node in (*norms, *drops)}
    if not modules:
        return
    ours = {node.name for node in nodes if node.origin.module in modules}  # what counts batches as well
    touched = [kernel for kernel in facts.kernels if not ours.isdisjoint(kernel.nodes)]
    along = ours | _with_products(facts, norms)
    gone = [kernel for kernel in touched if set(kernel.nodes) <= along]
    left = _LEFT * len(norms) * (2 * facts.machine.dram_latency_cycles + facts.machine.launch_overhead_cycles)
    saved = _taken(facts, gone) - left
    if saved <= 0:
        return
    what = [times(len(each), noun) for each, noun in ((norms, "batch norm"), (drops, "dropout")) if each]
    means = ["mean and variance of each batch are worked out"] * bool(norms) + ["numbers are drawn"] * bool(drops)
    alone = "works" if len(norms) + len(drops) == 1 else "work"
    yield Finding(
        "",
        min(_taken(facts, touched), facts.cycles),
        f"{' and '.join(what)} {alone} in training mode: {' and '.join(means)}; a model that is only to answer "
        "does without",
        tuple(sorted(span for kernel in touched for span in kernel.spans.tolist())),
        nodes=tuple(node.name for node in (*norms, *drops)),
        remedy=Remedy(call_of(EVALUATION, "model.eval()"), change=EVALUATION),
        predicted=min(saved, facts.cycles),
    )


def _taken(facts: Facts, kernels: Iterable[KernelFacts]) -> int:
    """Cycles of kernels from the begin of their launches."""
    begun = sum(len(kernel.launches) for kernel in kernels if kernel.scheduled)
    return sum(kernel.cycles for kernel in kernels) + begun * facts.machine.launch_overhead_cycles


def _with_products(facts: Facts, norms: list[Node]) -> set[str]:
    """What is fused to batch norms that read a product alone: in evaluation it goes along with the product, as they
    do."""
    alone = {norm.name for _, norm in products_before(facts.lowered.captured, norms)}
    others = {norm.name for norm in norms} - alone
    return {
        name
        for kernel in facts.kernels
        if not alone.isdisjoint(kernel.nodes) and others.isdisjoint(kernel.nodes)
        for name in kernel.nodes
    }
