"""Checks that a rule's findings fit their run, since they are summed, sorted and shown with those of other rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from simulator.analysis.binding import PARTS
from workbench.explaining.findings.finding_record import Finding, Remedy
from workbench.explaining.findings.run_facts import Facts


def refuse_unsound(given: object, facts: Facts) -> None:
    """Raises for a finding that does not fit the run, with the expected form: users write rules too."""
    if not isinstance(given, Finding):
        raise TypeError(f"it yielded {given!r}, of type {type(given).__name__}; expected wb.Finding(...)")
    _cycles("cycles", given.cycles, facts)
    if given.predicted is not None:
        _cycles("predicted", given.predicted, facts)
    _typed("reason", given.reason, str, "text")
    _typed("about", given.about, str, "text")
    if given.about and given.about not in PARTS:
        raise ValueError(f"about={given.about!r}: expected one of {list(PARTS)}, or '' for several")
    _typed("kernel", given.kernel, str, "text")
    kernels = ["", *(kernel.name for kernel in facts.kernels)]
    if given.kernel not in kernels:
        raise ValueError(f"kernel={given.kernel!r}: expected one of {kernels}; '' is the whole program")
    _spans(given.spans, facts)
    _nodes(given.nodes, facts)
    if given.remedy is not None:
        _remedy(given.remedy, facts)


def _cycles(name: str, value: object, facts: Facts) -> None:
    if not _whole(value):
        raise TypeError(f"{name}={value!r}, of type {type(value).__name__}; expected a whole number of cycles")
    if name == "cycles" and not 0 <= cast("int", value) <= facts.cycles:
        raise ValueError(f"cycles={value:,}: expected 0 to {facts.cycles:,}, the cycles of the run")
    if cast("int", value) > facts.cycles:
        raise ValueError(f"{name}={value:,}: a remedy cannot save more than the {facts.cycles:,} cycles of the run")


def _typed(name: str, value: object, kind: type, expected: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r}, of type {type(value).__name__}; expected {expected}")


def _spans(spans: tuple[object, ...], facts: Facts) -> None:
    rows = len(facts.trace)
    _typed("spans", spans, tuple, "a tuple of rows of events")
    for span in spans:
        if not _whole(span) or not 0 <= cast("int", span) < rows:
            raise ValueError(f"spans has {span!r}; expected rows of events, whose number is {rows:,}")


def _nodes(nodes: tuple[object, ...], facts: Facts) -> None:
    _typed("nodes", nodes, tuple, "a tuple of names of nodes")
    known = facts.origins
    for node in nodes:
        if node not in known:
            raise ValueError(f"nodes has {node!r}; expected names of nodes, captured or lowered: {sorted(known)}")


def _remedy(remedy: Remedy, facts: Facts) -> None:
    _typed("remedy", remedy, Remedy, "wb.Remedy(...)")
    _typed("remedy.call", remedy.call, str, "text")
    _typed("remedy.change", remedy.change, str, "text")
    _typed("remedy.options", remedy.options, Mapping, "a mapping")
    _typed("remedy.machine", remedy.machine, Mapping, "a mapping")
    facts.machine.with_(**remedy.machine)  # raises for a wrong figure


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
