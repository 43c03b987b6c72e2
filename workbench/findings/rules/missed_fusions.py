"""Tensors that went out and came back. What one kernel makes and another reads lies in DRAM between the two: written
once and read once, and a launch more. A fusion rule that refused says why."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.findings.facts import Facts, bytes_of
from workbench.findings.record import Finding
from workbench.findings.registry import finding


@finding("missed fusions")
def missed_fusions(facts: Facts) -> Iterator[Finding]:
    lowered, rate = facts.lowered, float(facts.machine.bus_bytes_per_cycle)
    kernel_of = {node.node.name: node.kernel for node in lowered.nodes}
    made_by = {node.node.name: node.node.results for node in lowered.nodes}
    runs = {launch.name: launch.kernel for launch in facts.scheduled.launches.launches}
    told = set[tuple[str, str]]()
    for fusion in lowered.fusions:
        producer, consumer = kernel_of.get(fusion.producer, ""), kernel_of.get(fusion.consumer, "")
        apart = producer and consumer and producer != consumer and (producer, consumer) not in told
        if fusion.fused or not apart or {producer, consumer} & facts.host_kernels:
            continue
        told.add((producer, consumer))
        size = sum(bytes_of(lowered.types[value]) for value in made_by[fusion.producer])
        saved = round(2 * size / rate) + facts.machine.launch_overhead_cycles
        yield Finding(
            runs.get(consumer, ""),
            saved,
            f"{fusion.producer} -> {fusion.consumer}: {size:,} bytes go to DRAM and come back, because "
            f"{fusion.rule or 'no rule'} did not fuse them: {fusion.reason}",
            nodes=(fusion.producer, fusion.consumer),
        )
