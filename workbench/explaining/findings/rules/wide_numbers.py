"""Floats of 32 bits or more at a roof. A kernel at the memory's peak is faster only with fewer bytes, and one at the
arrays' peak, where these take several passes for a wide float, only with narrower ones. A model has one type as a rule:
the remedy changes all of its kernels, so there is one finding for all, and its saving is that of the whole run. Sums
stay in 32 bits, so a kernel converts what it adds to them: where that takes the vector unit longer than the kernel
takes, as in a depthwise convolution, nothing is spared."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import ARRAYS, MEMORY
from workbench.explaining.findings import Facts, Finding, Remedy, finding, times
from workbench.explaining.findings.narrower_numbers import spared_when_narrow
from workbench.explaining.findings.numpy_use import function_with_numpy
from workbench.explaining.findings.rules.arrays_at_their_peak import at_peak
from workbench.explaining.findings.rules.bound_by_memory import at_memorys_peak
from workbench.explaining.findings.source_changes import BFLOAT16, call_of

_OF_MODULES = "model.bfloat16(), with inputs of torch.bfloat16, if its numbers suffice"
_OF_FUNCTIONS = "inputs of torch.bfloat16, if its numbers suffice"


@finding("wide numbers")
def wide_numbers(facts: Facts) -> Iterator[Finding]:
    trains = any(node.origin.part for node in facts.lowered.captured.nodes)  # an optimizer needs its digits
    if trains:
        return
    by_memory = [kernel for kernel in facts.computed if at_memorys_peak(facts, kernel)]
    by_arrays = [kernel for kernel in facts.computed if at_peak(facts, kernel) and facts.passes(kernel) > 1]
    spared = [spared_when_narrow(facts, kernel) for kernel in facts.computed]
    faster = (kernel for kernel, cycles in zip(facts.computed, spared, strict=True) if cycles > 0)
    bound = [each for each in faster if each in by_memory or each in by_arrays]
    if not bound or sum(spared) <= 0:
        return
    written = _OF_MODULES if facts.module_at and facts.module_at("") is not None else _OF_FUNCTIONS
    yield Finding(
        "",
        sum(spared),
        f"{times(len(bound), 'kernel')} of {sum(each.cycles for each in bound):,} cycles, with floats of 32 bits or "
        f"more, {'is' if len(bound) == 1 else 'are'} near the roof of memory or arrays; at stake are the bytes and "
        f"passes of the whole program that bfloat16 spares{_numpys(facts)}",
        tuple(sorted(span for each in bound for span in each.showing(*each.transfers, "matmul stream"))),
        remedy=Remedy(call_of(BFLOAT16, written), change=BFLOAT16) if facts.module_at else None,
        about=MEMORY if any(each in by_memory for each in bound) else ARRAYS,
    )


def _numpys(facts: Facts) -> str:
    """Names a function of the traced code that uses NumPy, with which the remedy may fail; empty if none does."""
    name = function_with_numpy(facts.function) if facts.function is not None else ""
    return f". {name} uses NumPy, which has no bfloat16: the remedy fails where such numbers reach it" if name else ""
