"""Steps on the host. The tensors of an op without a kernel go over the host link, the host computes, and the results
come back; the machine is idle meanwhile. What helps most is a kernel of your own (docs/adding-an-op.md), or another
operator; the remedy that can be tried is a host of twice the rate that counts most. A model of `quantize_dynamic`
multiplies on the host, layer by layer, since quantized products have no kernel: there the remedy keeps the int8 weights
and multiplies floats on the machine, with other numbers, since inputs are no longer rounded."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import HOST
from workbench.explaining.findings import Facts, Finding, Remedy, finding, times
from workbench.explaining.findings.int8_weights import INT8_WEIGHTS, has_dynamic_linear
from workbench.explaining.findings.source_changes import call_of
from workbench.ir.host_work import BREAK, WITHOUT_OPERATORS, HostStep

_QUANTIZED = "quantized."
_LINEAR = "quantized.linear_dynamic.default"
_WITH_KERNELS = ". Quantized operators have no kernel; float weights, or int8 weights that multiply floats, have one"
_WITHOUT = ". A kernel of your own, or an operator with one, spares them"
_BETWEEN = ". What is computed between two graphs comes back with each call: move it before or behind them"
_WRITTEN = "wb.int8_linear(linear) for each nn.Linear of the float model instead of quantize_dynamic"


@finding("host trips")
def host_trips(facts: Facts) -> Iterator[Finding]:
    steps = {step.kernel: step for step in facts.scheduled.hosts}
    for kernel in facts.kernels:
        step = steps.get(kernel.name)
        if step is not None:
            link, compute, often = kernel.part("host link"), kernel.part("host compute"), len(kernel.launches)
            figure = "host_link_bytes_per_second" if link >= compute else "host_flops_per_second"
            twice = 2 * int(facts.machine.figures()[figure])
            yield Finding(
                kernel.name,
                kernel.cycles,
                f"{step.what} on the host, {times(often, 'time')}: {link:,} cycles on the host link for "
                f"{(step.bytes_in + step.bytes_out) * often:,} bytes, {compute:,} there for "
                f"{'at least ' if WITHOUT_OPERATORS in step.what else ''}{step.flops * often:,} operations"
                f"{_helps(step)}",
                tuple(kernel.spans.tolist()),
                remedy=_multiplied_here(facts, step) or Remedy.of_machine(**{figure: twice}),
                about=HOST,
            )


def _helps(step: HostStep) -> str:
    """Says how to spare the step, which saves more than any faster host."""
    if any(work.op.startswith(_QUANTIZED) for work in step.work):
        return _WITH_KERNELS
    return _BETWEEN if step.op == BREAK else _WITHOUT


def _multiplied_here(facts: Facts, step: HostStep) -> Remedy | None:
    """The remedy that keeps the int8 weights of `quantize_dynamic` in layers with kernels; None where the model or the
    step has none."""
    if facts.module_at is None or not any(work.op == _LINEAR for work in step.work):
        return None
    if not has_dynamic_linear(facts.module_at("")):
        return None
    return Remedy(call_of(INT8_WEIGHTS, _WRITTEN), change=INT8_WEIGHTS)
