"""Tensors that went out and came back. What one kernel makes and another reads lies in DRAM between the two, and a
launch more begins. As one kernel they would not read it from there, and not write it either where nobody else wants it.
A fusion rule that refused says why. What stays in the common memory has not gone out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simulator.tileprogram.program import Access
from workbench.findings.finding_record import Finding
from workbench.findings.rule_registry import finding
from workbench.findings.run_facts import Facts


@finding("missed fusions")
def missed_fusions(facts: Facts) -> Iterator[Finding]:
    lowered, rate = facts.lowered, float(facts.machine.bus_bytes_per_cycle)
    kernel_of = {node.node.name: node.kernel for node in lowered.nodes}
    made_by = {node.node.name: node.node.results for node in lowered.nodes}
    runs = {launch.name: launch.kernel for launch in facts.scheduled.launches.launches}
    base_of = {view.value: view.base for view in lowered.views}
    kept = {base_of.get(value, value) for value in lowered.captured.outputs}
    readers = defaultdict[str, set[str]](set)
    for launch in facts.scheduled.launches.launches:
        for value in launch.arguments:
            readers[base_of.get(value, value)].add(launch.name)
    told = set[tuple[str, str]]()
    for fusion in lowered.fusions:
        producer, consumer = kernel_of.get(fusion.producer, ""), kernel_of.get(fusion.consumer, "")
        apart = producer and consumer and producer != consumer and (producer, consumer) not in told
        if fusion.fused or not apart or {producer, consumer} & facts.host_kernels:
            continue
        told.add((producer, consumer))
        values = [base_of.get(value, value) for value in made_by[fusion.producer]]
        came = sum(facts.moved(consumer, value, Access.READ) for value in values)
        alone = [value for value in values if readers[value] <= {producer, consumer} and value not in kept]
        went = sum(facts.moved(producer, value, Access.WRITE) for value in alone)
        if not came + went:
            continue
        saved = round((went + came) / rate) + facts.machine.launch_overhead_cycles
        yield Finding(
            runs.get(consumer, ""),
            min(saved, facts.cycles),
            f"{fusion.producer} -> {fusion.consumer}: {f'{went:,} bytes go to DRAM and ' if went else ''}"
            f"{came:,} {'' if went else 'bytes '}come back, because "
            + (f"the rule '{fusion.rule}'" if fusion.rule else "no rule")
            + f" did not fuse them: {fusion.reason}",
            nodes=(fusion.producer, fusion.consumer),
        )
