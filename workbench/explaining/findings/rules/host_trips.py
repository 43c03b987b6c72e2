"""Steps on the host. The tensors of an op without a kernel go over the host link, the host computes, and the results
come back; the machine is idle meanwhile. What helps most is a kernel of your own (docs/adding-an-op.md), or another
operator; the remedy that can be tried is a host of twice the rate that counts most."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import HOST
from workbench.explaining.findings.finding_record import Finding, Remedy
from workbench.explaining.findings.number_words import times
from workbench.explaining.findings.rule_registry import finding
from workbench.explaining.findings.run_facts import Facts
from workbench.ir.host_work import WITHOUT_OPERATORS


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
                f"{'at least ' if WITHOUT_OPERATORS in step.what else ''}{step.flops * often:,} operations",
                tuple(kernel.spans.tolist()),
                remedy=Remedy.of_machine(**{figure: twice}),
                about=HOST,
            )
