"""The findings of a journey: applies the rules to its records, and tries remedies on new journeys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from workbench.explaining.artefacts.staged import Staged
from workbench.explaining.findings import Facts, Finding, Remedy, found
from workbench.explaining.findings.module_copies import submodule_at
from workbench.explaining.findings.remedy_trials import Followed, Trials
from workbench.explaining.findings.rule_registry import Rule
from workbench.explaining.findings.rule_search import rules
from workbench.explaining.findings.rules.mapping_of_ones_own import AS_CHOSEN
from workbench.explaining.findings.source_changes import changed
from workbench.ground.basics.cards import Card, Why
from workbench.ground.errors import BadOption, Stopped, WorkbenchError
from workbench.ir import ScheduledKernel
from workbench.ir.kernels import USER_SCRIPT
from workbench.stages.journey_request import GraphCall, Request
from workbench.stages.pipeline import Stages

if TYPE_CHECKING:
    from simulator import Machine
    from workbench.scheduling.user_mapping import UserMapping


_Figures: TypeAlias = tuple[tuple[str, float], ...]
_PREDICTS = "j.findings predicts what it saves"
_MEASURES = "j.findings.tried() measures what it saves"


class Advice:
    """The findings of one journey, and the gains of their remedies that are known so far."""

    def __init__(self, journey: Staged, request: Request) -> None:
        self._journey, self._request = journey, request
        self._made = list[Facts]()
        self._found: tuple[Mapping[str, Rule], tuple[Finding, ...]] | None = None
        """The rules at the last search, and the findings."""
        self._predicted = dict[_Figures, int | None]()
        self._measured = dict[str, int]()
        """Whole remedy -> measured cycles; two remedies may have the same text and different effects."""
        self._tiled = dict[str, ScheduledKernel | None]()
        """Kernel and mapping -> scheduled kernel; several rules may try the same tile."""

    @property
    def _facts(self) -> Facts:
        """The facts of the run, made once. No lock is held meanwhile, since a stage may wait for another thread."""
        if not self._made:
            journey = self._journey
            records = journey.lowered.record, journey.scheduled.record, journey.simulated.record
            # Measures the journey as if no mapping were given; None without a mapping.
            chosen = partial(self._cycles_anew, AS_CHOSEN) if self._request.mapping else None
            target = self._target
            module_at = None if target is None else partial(submodule_at, target)
            self._made.append(Facts(*records, chosen, module_at, target, self._retiled, self._cycles_anew))
        return self._made[0]

    @property
    def _target(self) -> Callable[..., object] | None:
        """The traced function; None for a loaded journey and for a journey of `torch.compile`."""
        target = self._request.target
        return None if isinstance(target, GraphCall) else target

    def _cycles_anew(self, remedy: Remedy) -> int | None:
        try:
            return self.measured(remedy)
        except Stopped:
            raise
        except WorkbenchError:
            return None

    def _retiled(self, kernel: ScheduledKernel, mapping: UserMapping) -> ScheduledKernel | None:
        """The kernel scheduled with another mapping; None if it has no mapping, or if this mapping is refused."""
        key = f"{kernel.kernel} {mapping}"
        if key not in self._tiled:
            self._tiled[key] = self._scheduled_with(kernel, mapping)
        return self._tiled[key]

    def _scheduled_with(self, kernel: ScheduledKernel, mapping: UserMapping) -> ScheduledKernel | None:
        if not kernel.schedule or kernel.mapping.reason == USER_SCRIPT:
            return None
        from workbench.exploring.tuning.measured import scheduled_with  # MLIR, which a kept kernel needs not
        from workbench.exploring.tuning.tuner import work_of

        try:
            return scheduled_with(work_of(self._journey, self._request, kernel), mapping)
        except Stopped:
            raise
        except WorkbenchError:
            return None

    def found(self) -> tuple[Finding, ...]:
        """The findings of the current rules."""
        now, last = rules(), self._found
        if last is None or last[0] != now:
            last = self._found = now, found(self._facts)
        return last[1]

    def trials(self) -> Trials:
        facts = self._facts
        return Trials(facts.cycles, self.predicted, self.measured, self.followed, self.place, self.card, facts.binding)

    def why(self, *, predicted: bool = False) -> Why:
        """All findings, with the known gains of their remedies; with `predicted`, gains are predicted if possible."""
        every = self.found()
        for each in every if predicted else ():
            if each.remedy and each.predicted is None:
                self.predicted(each.remedy)
        return Why(self._facts.binding.text(), tuple(map(self.card, every)))

    def card(self, finding: Finding) -> Card:
        """The finding's card, with known gains only: nothing is simulated."""
        remedy, whole = finding.remedy, self._facts.cycles
        call, predicted, measured, ask = remedy.call if remedy else "", finding.predicted, None, ""
        if remedy:
            ask = _MEASURES
            if remedy.keeps_program:
                after = self._predicted.get(_figures(remedy))
                predicted = whole - after if predicted is None and after is not None else predicted
                ask = ask if _figures(remedy) in self._predicted else _PREDICTS
            measured = whole - self._measured[repr(remedy)] if repr(remedy) in self._measured else None
        return Card(
            finding.rule,
            self._journey.scheduled.titles.get(finding.kernel, finding.kernel),
            finding.kernel,
            finding.reason,
            self.place(finding)[1],
            max(finding.cycles, predicted or 0, measured or 0),
            whole,
            call,
            predicted,
            measured,
            ask,
            hardware=bool(remedy and remedy.machine),
        )

    def predicted(self, remedy: Remedy) -> int | None:
        """Cycles of the same program on the changed machine; None if the remedy changes the program itself. If a
        template reads a changed figure, its text changes, so the remedy is measured instead."""
        if not remedy.keeps_program:
            return None
        key = _figures(remedy)
        if key not in self._predicted:
            try:
                self._predicted[key] = self._predict(remedy)
            except WorkbenchError:  # the program cannot run on that machine: its cycles cannot be predicted
                self._predicted[key] = None
        return self._predicted[key]

    def _predict(self, remedy: Remedy) -> int | None:
        written = (module.written for module in self._journey.rendered.record)
        if any(each and not remedy.machine.keys().isdisjoint(each.read) for each in written):
            return self.measured(remedy) if self._request.target is not None else None
        return self._facts.cycles_on(self._machine(remedy.machine)) + self._costed_otherwise

    @cached_property
    def _costed_otherwise(self) -> int:
        """The cycles of a file's trace minus those of the same program simulated here: another release, with other
        costs, may have written the file."""
        return self._facts.cycles - self._facts.cycles_on(self._journey.machine) if self._request.target is None else 0

    def measured(self, remedy: Remedy) -> int:
        """The cycles of the journey with the remedy: all changed stages run again."""
        key = repr(remedy)
        if key not in self._measured:
            self._measured[key] = self.followed(remedy).simulated.cycles
        return self._measured[key]

    def followed(self, remedy: Remedy) -> Followed:
        """The journey with the remedy applied."""
        if remedy.change:
            return self.retraced(remedy.change)
        options = dict(remedy.options)
        if remedy.machine:
            options["machine"] = self._machine(remedy.machine)
        if remedy.keeps_program:
            options["mapping"] = self._journey.scheduled.mappings
        return self._journey.with_(**cast("dict[str, Any]", options))

    def retraced(self, change: str) -> Followed:
        """The journey of a changed copy of the function, with the same options."""
        request = self._request
        if self._target is None:
            raise BadOption(
                f"{change!r} changes the function and traces it anew, but this journey has no function: it was "
                "loaded from a file, or comes from torch.compile. Trace the function with wb.trace, and try the "
                "findings of that journey"
            )
        if traced := self._journey.captured.program:
            traced.refuse_changed()
        try:
            function, inputs, kwargs = changed(
                change, self._target, request.inputs, request.kwargs, self._journey.captured.record
            )
        except WorkbenchError:
            raise
        except Exception as error:  # copying runs code of the user's own objects
            told = f"{type(error).__name__}: {error}"
            raise BadOption(f"{change!r} cannot be tried on a copy of the traced function: {told}") from error
        as_it_was = request.mapping == self._journey.scheduled.mappings  # its kernels need not exist after the change
        mapping = None if as_it_was else request.mapping
        anew = replace(request, target=function, inputs=inputs, kwargs=MappingProxyType(kwargs), mapping=mapping)
        return cast("Any", type(self._journey))(anew, Stages(anew))

    def place(self, found: Finding) -> tuple[tuple[str, ...], str]:
        """The nodes of a finding, and its line in the user's code: the line of a node in the finding's kernel if there
        is one, else of another node."""
        own = next((each.nodes for each in self._facts.kernels if each.name == found.kernel), ())
        nodes, origins = found.nodes or own, self._facts.origins
        known = (origins[name] for name in sorted(nodes, key=lambda name: name not in own) if name in origins)
        places = (origin.place for origin in known if origin.file)
        return nodes, next(places, "")

    def _machine(self, figures: Mapping[str, float]) -> Machine:
        return self._journey.machine.with_(**figures)


def _figures(remedy: Remedy) -> _Figures:
    return tuple(sorted(remedy.machine.items()))
