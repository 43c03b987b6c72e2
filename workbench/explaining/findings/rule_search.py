"""Runs the rules."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from workbench.explaining.findings.finding_record import LEAST_SHARE, Finding
from workbench.explaining.findings.rule_registry import Rule, registered
from workbench.explaining.findings.run_facts import Facts
from workbench.explaining.findings.soundness import refuse_unsound


def rules() -> dict[str, Rule]:
    """All rules, in the order in which they were registered."""
    importlib.import_module("workbench.explaining.findings.rules")  # the shipped rules register themselves on import
    return registered()


def found(facts: Facts, *, least: float | None = None) -> tuple[Finding, ...]:
    """All rules' findings: first those about the part that binds the run, then the others, in both groups those with
    most cycles at stake first; findings without cycles at stake come last. `least` is the least cycles at stake to
    report, by default a hundredth of all.

    A rule that raises becomes a finding of its own, and the others still answer.
    """
    every = [each for name, rule in rules().items() for each in _findings_of_rule(name, rule, facts)]
    bound = LEAST_SHARE * facts.cycles if least is None else least
    worth = [each for each in every if each.cycles == 0 or each.cycles >= bound]
    return tuple(sorted(worth, key=partial(place_of, facts.binding.by)))


def about(found: Iterable[Finding], spans: Sequence[int], kernel: str) -> tuple[Finding, ...]:
    """The findings shown by one of these spans; if there are none, those of the kernel. Most cycles at stake first."""
    found, wanted = tuple(found), set(spans)
    shown = tuple(each for each in found if not wanted.isdisjoint(each.spans))
    return shown or tuple(each for each in found if kernel and each.kernel == kernel)


def place_of(binds: str, each: Finding) -> tuple[bool, bool, int]:
    """The sort key of a finding in a run that the part `binds` of the machine binds."""
    return each.cycles == 0, each.about != binds, -each.cycles


def _findings_of_rule(name: str, rule: Rule, facts: Facts) -> list[Finding]:
    try:
        every = list(rule(facts))
        for each in every:
            refuse_unsound(each, facts)
        return [replace(each, rule=name) for each in every]
    except Exception as error:  # a rule may be the user's code
        what = f"the rule {name!r} failed: {type(error).__name__}: {error}"
        return [Finding("", 0, what, rule=name)]
