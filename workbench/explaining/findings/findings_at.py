"""The findings about a place in the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.explaining.findings.finding_record import Finding


def about(found: Iterable[Finding], spans: Sequence[int], kernel: str) -> tuple[Finding, ...]:
    """The findings shown by one of these spans; if there are none, those of the kernel. Most cycles at stake first."""
    found, wanted = tuple(found), set(spans)
    shown = tuple(each for each in found if not wanted.isdisjoint(each.spans))
    return shown or tuple(each for each in found if kernel and each.kernel == kernel)
