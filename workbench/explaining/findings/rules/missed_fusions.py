"""Tensors that go out to DRAM and come back. A tensor from one kernel to another goes through DRAM, and costs one more
launch. A single kernel would not read it from there, nor write it unless another kernel reads it too. The fusion rule
that refused gives the reason; all refusals for one reason are one finding. Tensors in the common memory do not count.
If two products or reductions read one operand, the second one loads the operand again; where that makes no difference
on the machine, nothing is missed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.analysis.binding import MEMORY
from simulator.tileprogram.program import Access
from workbench.explaining.findings import Facts, Finding, finding
from workbench.lowering.product_room import FEW, READ_ONCE, SHARED

if TYPE_CHECKING:
    from workbench.ir import Fusion


@finding("missed fusions")
def missed_fusions(facts: Facts) -> Iterator[Finding]:
    lowered, rate = facts.lowered, float(facts.machine.bus_bytes_per_cycle)
    kernel_of = {node.node.name: node.kernel for node in lowered.nodes}
    nodes = {node.node.name: node.node for node in lowered.nodes}
    runs = {launch.name: launch.kernel for launch in facts.scheduled.launches.launches}
    kept = {facts.base_of(value) for value in lowered.captured.outputs}
    readers = defaultdict[str, set[str]](set)
    for launch in facts.scheduled.launches.launches:
        for value in launch.arguments:
            readers[facts.base_of(value)].add(launch.name)
    told, alike = set[tuple[str, str]](), defaultdict[tuple[str, str], list[_Missed]](list)
    names = {*nodes, *lowered.types}
    for fusion in lowered.fusions:
        producer, consumer = kernel_of.get(fusion.producer, ""), kernel_of.get(fusion.consumer, "")
        apart = producer and consumer and producer != consumer and (producer, consumer) not in told
        if fusion.fused or not apart or {producer, consumer} & facts.host_kernels or FEW in fusion.reason:
            continue
        told.add((producer, consumer))
        first, second = nodes[fusion.producer], nodes[fusion.consumer]
        gone = {*first.operands}.intersection(second.operands) if fusion.rule in (SHARED, READ_ONCE) else first.results
        values = [facts.base_of(value) for value in gone]
        came = sum(facts.moved(consumer, value, Access.READ) for value in values)
        alone = [value for value in values if readers[value] <= {producer, consumer} and value not in kept]
        went = sum(facts.moved(producer, value, Access.WRITE) for value in alone)
        if came + went:
            words = re.sub(r"[\w.]+", lambda word: "_" if word[0] in names else word[0], fusion.reason)
            alike[fusion.rule, words].append(_Missed(fusion, runs.get(consumer, ""), went, came))
    for missed in alike.values():
        saved = [round((each.went + each.came) / rate) + facts.machine.core.launch_overhead_cycles for each in missed]
        kernels = {each.kernel for each in missed}
        yield Finding(
            kernels.pop() if len(kernels) == 1 else "",
            min(sum(saved), facts.cycles),
            _reason(missed),
            nodes=tuple(
                dict.fromkeys(node for each in missed for node in (each.fusion.producer, each.fusion.consumer))
            ),
            about=MEMORY,
        )


@dataclass(frozen=True)
class _Missed:
    """A refusal, the scheduled kernel that reads, and the bytes that go out and come back."""

    fusion: Fusion
    kernel: str
    went: int
    came: int


def _reason(missed: list[_Missed]) -> str:
    """One sentence for all refusals with one reason, given for the first."""
    first = missed[0].fusion
    went, came = sum(each.went for each in missed), sum(each.came for each in missed)
    others = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
    return (
        f"{first.producer} -> {first.consumer}{others}: {f'{went:,} bytes go to DRAM and ' if went else ''}"
        f"{came:,} {'' if went else 'bytes '}come back, because "
        f"{f'the rule {first.rule!r} did not fuse them' if first.rule else 'no rule fuses them'}: {first.reason}"
    )
