"""Batch norms whose scale and shift are computed in each run. In evaluation they depend on four constant vectors, so
they can be folded into the weights before: a channel's weights times its scale, and its bias. The passes over the
result are fused to the product anyway; the cost is the short kernels that compute the scale and the shift, each with a
launch of its own."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.explaining.findings import Facts, Finding, Remedy, finding, times
from workbench.explaining.findings.batch_norms import FOLDED_BATCH_NORMS, batch_norm_pairs
from workbench.explaining.findings.source_changes import call_of

_WRITTEN = "torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn) in place of both"


@finding("batch norms to fold")
def batch_norms_to_fold(facts: Facts) -> Iterator[Finding]:
    norms = tuple(norm.name for _, norm in batch_norm_pairs(facts.lowered.captured, facts.module_at))
    kernels = [kernel for kernel in facts.computed if kernel.nodes and set(kernel.nodes) <= set(norms)]
    launched = sum(len(kernel.launches) for kernel in kernels)
    saved = facts.cycles_of(kernels)
    if saved <= 0:
        return
    with_products = [kernel for kernel in facts.computed if not set(norms).isdisjoint(kernel.nodes)]
    passes = sum(kernel.part("vector") for kernel in with_products if kernel not in kernels)
    yield Finding(
        "",
        min(saved + passes, facts.cycles),
        f"{times(launched, 'launch')} of {len(facts.scheduled.launches.launches)} compute "
        f"only {times(len(norms), 'batch norm')}, whose scale and shift are the same in each run: folded into the "
        "weights before them they take no cycles",
        tuple(sorted(span for kernel in kernels for span in kernel.spans.tolist())),
        nodes=norms,
        remedy=Remedy(call_of(FOLDED_BATCH_NORMS, _WRITTEN), change=FOLDED_BATCH_NORMS),
    )
