"""A file of mappings that applies to none of the kernels. A user gives such a file to choose the tiling of some
kernels; with a wrong op or a missing shape in its entries, scheduling chooses all tilings. The saving is not known: no
kernel has a mapping of the file."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.explaining.findings import Facts, Finding, finding
from workbench.scheduling.mappings.mapping_file import NO_ENTRY


@finding("mapping file unused")
def mapping_file_unused(facts: Facts) -> Iterator[Finding]:
    reasons = [each.scheduled.mapping.reason for each in facts.computed]
    if not reasons or not all(NO_ENTRY in reason for reason in reasons):
        return
    first = facts.computed[0]
    why = reasons[0][reasons[0].index(NO_ENTRY) :]
    others = f"; {len(reasons) - 1} more kernels have none either" if len(reasons) > 1 else ""
    yield Finding(first.name, 0, f"{why}{others}. Correct the entry, or leave mapping= out", nodes=first.nodes)
