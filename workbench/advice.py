"""The findings of a journey: the rules on its records, and remedies tried on journeys of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from simulator.errors import WorkbenchError
from workbench.errors import BadOption
from workbench.findings import Facts, Finding, Remedy, found
from workbench.findings.answer import Findings, Trials
from workbench.findings.changes import changed
from workbench.pipeline import GraphCall, Request, Stages

if TYPE_CHECKING:
    from simulator import Machine
    from workbench.journey import Journey


def findings(journey: Journey, request: Request) -> Findings:
    """Every rule's findings, and how to try them."""
    facts = Facts(journey.lowered.record, journey.scheduled.record, journey.simulated.record)
    trials = _Trials(journey, request, facts)
    lent = Trials(facts.cycles, trials.predicted, trials.followed, trials.place)
    return Findings.of(found(facts), lent)


class _Trials:
    """Remedies tried on copies of the journey."""

    def __init__(self, journey: Journey, request: Request, facts: Facts) -> None:
        self._journey, self._request, self._facts = journey, request, facts
        self._origins = {node.name: node.origin for node in facts.lowered.captured.nodes}
        self._simulated = dict[tuple[tuple[str, float], ...], int | None]()

    def predicted(self, remedy: Remedy) -> int | None:
        """Cycles of the same program on the changed machine; None if the program itself is to change."""
        if remedy.change or remedy.options or not remedy.machine:
            return None
        key = tuple(sorted(remedy.machine.items()))
        if key not in self._simulated:
            try:
                self._simulated[key] = self._facts.cycles_on(self._machine(remedy.machine))
            except WorkbenchError:  # the program is not one of that machine: what it takes is not known before
                self._simulated[key] = None
        return self._simulated[key]

    def followed(self, remedy: Remedy) -> Journey:
        """The journey with everything done anew."""
        if remedy.change:
            return self._retraced(remedy.change)
        options = dict(remedy.options)
        if remedy.machine:
            options["machine"] = self._machine(remedy.machine)
        if remedy.keeps_tiles:
            options["mapping"] = self._journey.scheduled.mappings
        return self._journey.with_(**cast("dict[str, Any]", options))

    def place(self, found: Finding) -> tuple[tuple[str, ...], str]:
        """The captured nodes a finding is about, and the user's line of the first of them that has one."""
        nodes = found.nodes or next((each.nodes for each in self._facts.kernels if each.name == found.kernel), ())
        known = (self._origins[name] for name in nodes if name in self._origins)
        places = (origin.place for origin in known if origin.file)
        return nodes, next(places, "")

    def _machine(self, figures: Mapping[str, float]) -> Machine:
        return self._journey.machine.with_(**figures)

    def _retraced(self, change: str) -> Journey:
        request = self._request
        if request.target is None or isinstance(request.target, GraphCall):
            raise BadOption(
                f"trying {change!r} traces the function anew, and this journey has none: it was loaded from a file, or "
                "comes from torch.compile. Trace the function with wb.trace, and try the findings of that journey"
            )
        function, inputs, kwargs = changed(change, request.target, request.inputs, request.kwargs)
        anew = replace(request, target=function, inputs=inputs, kwargs=MappingProxyType(kwargs))
        return type(self._journey)(anew, Stages.of(anew))
