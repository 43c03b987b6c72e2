"""The answer of `j.findings`: a DataFrame that can try its own advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from workbench.findings.record import Finding
from workbench.findings.trials import Trials
from workbench.progress import counted, waiting
from workbench.views import markup
from workbench.views.cards import cards_html

COLUMNS = ("kernel", "rule", "cycles", "share", "reason", "place", "nodes", "spans", "remedy", "predicted")


_MOST = 6
"""Cards that are shown open."""


class Findings(pd.DataFrame):
    """One row a finding, most cycles at stake first. `.tried()` measures what each remedy gains."""

    _metadata = ["_found", "_trials"]  # noqa: RUF012 - as pandas wants it

    @staticmethod
    def of(found: Sequence[Finding], trials: Trials) -> Findings:
        rows = list[tuple[Any, ...]]()
        for each in found:
            nodes, place = trials.places(each)
            remedy, predicted = each.remedy, each.predicted
            if remedy is not None and predicted is None:
                after = trials.predict(remedy)
                predicted = None if after is None else trials.cycles - after
            share = each.cycles / max(trials.cycles, 1)
            call = remedy.call if remedy else ""
            rows.append(
                (each.kernel, each.rule, each.cycles, share, each.reason, place, nodes, each.spans, call, predicted)
            )
        made = Findings(rows, columns=pd.Index(COLUMNS))
        made["predicted"] = pd.array([row[-1] for row in rows], dtype="Int64")
        made._found, made._trials = tuple(found), trials
        return made

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        """A part of the rows is a plain table: what could be tried is known of the whole alone."""
        return pd.DataFrame

    def _repr_html_(self) -> str:
        """The findings as cards; the table is `pd.DataFrame(j.findings)`."""
        trials, found = self._given()
        return markup.fragment(cards_html(map(trials.card, found), _MOST))

    def _given(self) -> tuple[Trials, tuple[Finding, ...]]:
        return object.__getattribute__(self, "_trials"), object.__getattribute__(self, "_found")

    def tried(self) -> pd.DataFrame:
        """The same with `gain`: the cycles that each remedy saves, measured by doing everything anew with it."""
        trials, found = self._given()
        known = dict[str, int]()
        with waiting("try the remedies"):
            for each in counted([each for each in found if each.remedy]):
                assert each.remedy is not None
                if each.remedy.call not in known:
                    known[each.remedy.call] = trials.cycles - trials.measure(each.remedy)
        gains = [known[each.remedy.call] if each.remedy else None for each in found]
        made = pd.DataFrame(self)
        made["gain"] = pd.array(gains, dtype="Int64")
        return made
