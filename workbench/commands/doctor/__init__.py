"""`workbench doctor`: the faults of an installation, and how to mend each.

This process imports none of the examined libraries. A library that crashes while it loads does so in a child, and
becomes a finding like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from workbench.commands.doctor import child_processes, installed, surroundings
from workbench.commands.doctor.diagnosis import Finding, Level

EXAMINATIONS: Final[tuple[Callable[[], Iterable[Finding]], ...]] = (
    installed.python,
    installed.copies,
    installed.requirements,
    installed.shadows,
    surroundings.processor,
    surroundings.protection,
    surroundings.memory,
    surroundings.encoding,
    surroundings.switches,
    surroundings.cache,
    child_processes.imports,
    child_processes.products,
    child_processes.notebook_kernel,
)


def examine() -> list[Finding]:
    """All findings, in reading order; the trial run comes last, and only where it can succeed."""
    found = [finding for examination in EXAMINATIONS for finding in examination()]
    broken = any(finding.level == Level.PROBLEM and finding.topic in child_processes.CORE for finding in found)
    return [*found, *child_processes.trial(skipped=broken)]
