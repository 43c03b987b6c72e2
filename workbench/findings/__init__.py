"""Findings: why a run takes as long as it does, and what would help.

A rule is a function of the facts of a run and yields findings. What a remedy gains is predicted, and can be measured:
`j.findings.tried()`. How rules are written: docs/adding-a-finding.md.
"""

from __future__ import annotations

from workbench.findings.facts import Facts as Facts
from workbench.findings.facts import KernelFacts as KernelFacts
from workbench.findings.record import Finding as Finding
from workbench.findings.record import Remedy as Remedy
from workbench.findings.registry import finding as finding
from workbench.findings.search import found as found
