"""Findings: why a run takes as long as it does, and what would help.

A rule is a function of the facts of a run and yields findings. The gain of a remedy is predicted, and can be measured:
`j.findings.tried()`. docs/adding-a-finding.md shows how to write rules.
"""

from __future__ import annotations

from workbench.explaining.findings.finding_record import LEAST_SHARE as LEAST_SHARE
from workbench.explaining.findings.finding_record import Finding as Finding
from workbench.explaining.findings.finding_record import Remedy as Remedy
from workbench.explaining.findings.number_words import percent as percent
from workbench.explaining.findings.number_words import times as times
from workbench.explaining.findings.rule_registry import finding as finding
from workbench.explaining.findings.rule_search import found as found
from workbench.explaining.findings.run_facts import ComputedFacts as ComputedFacts
from workbench.explaining.findings.run_facts import Facts as Facts
from workbench.explaining.findings.run_facts import KernelFacts as KernelFacts
