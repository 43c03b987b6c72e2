"""`workbench doctor`: what is wrong with an installation, and what to do about it.

Nothing of what is examined is imported into this process. A library that crashes when it is loaded does so in a child,
and is a finding like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from workbench.doctor import children, installed, surroundings
from workbench.doctor.findings import Finding, Level

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
    children.imports,
    children.notebook_kernel,
)


def examine() -> list[Finding]:
    """Everything that can be said, in reading order; the trial run last, and only where it can succeed."""
    found = [finding for examination in EXAMINATIONS for finding in examination()]
    broken = any(finding.level == Level.PROBLEM and finding.topic in children.CORE for finding in found)
    return [*found, *children.trial(skipped=broken)]
