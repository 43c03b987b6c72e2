"""The answer of `j.findings`: a DataFrame that can try its own advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from workbench.findings.record import Finding, Remedy
from workbench.progress import counted, waiting

COLUMNS = ("kernel", "rule", "cycles", "share", "reason", "place", "nodes", "spans", "remedy", "predicted")


@dataclass(frozen=True)
class Trials:
    """What a journey lends its findings: how long the whole takes, and how long it would with a remedy."""

    cycles: int
    predict: Callable[[Remedy], int | None]
    """The same program on a changed machine; None where the remedy changes the program."""
    measure: Callable[[Remedy], int]
    """Everything done anew."""
    places: Callable[[Finding], tuple[tuple[str, ...], str]]
    """The nodes it is about, and the line of Python."""


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

    def tried(self) -> pd.DataFrame:
        """The same with `gain`: the cycles that each remedy saves, measured by doing everything anew with it."""
        trials: Trials = object.__getattribute__(self, "_trials")
        found: tuple[Finding, ...] = object.__getattribute__(self, "_found")
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
