"""The answer of `j.findings`: a DataFrame that can try its own advice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import pandas as pd

from workbench.explaining.findings.finding_record import Finding, Remedy
from workbench.explaining.findings.remedy_trials import Trials
from workbench.explaining.findings.rule_search import place_of
from workbench.explaining.findings.trial_tables import CardTable, StepTable
from workbench.ground.basics.cards import Card
from workbench.ground.environment.progress import counted, waiting
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, WorkbenchError

R = TypeVar("R")

COLUMNS = ("kernel", "rule", "cycles", "share", "reason", "place", "nodes", "spans", "remedy", "predicted")
STEPS = ("step", "rule", "kernel", "remedy", "predicted", "cycles", "gain", "kept", "untried")
_OTHER_MACHINE = "not tried: it changes the machine"


class Findings(CardTable):
    """One row a finding: first the findings about the part that binds the run, then all others, in both groups those
    with most cycles at stake first.

    `.tried()` measures what each remedy gains, `.followed()` what several gain together.
    """

    _metadata = ["_found", "_trials", "_line"]  # noqa: RUF012 - as pandas wants it

    @staticmethod
    def of(found: Sequence[Finding], trials: Trials) -> Findings:
        """Makes the table. Removes remedies with a predicted saving of nothing; cycles at stake are at least the
        predicted saving."""
        kept = sorted((_known(each, trials) for each in found), key=partial(place_of, trials.binding.by))
        rows = [_row(each, trials) for each in kept]
        made = Findings(rows, columns=pd.Index(COLUMNS))
        made["predicted"] = pd.array([row[-1] for row in rows], dtype="Int64")
        made._found, made._trials = tuple(kept), trials
        made._line = trials.binding.text()
        return made

    @property
    def cards(self) -> tuple[Card, ...]:
        """The rows as cards, with the measured gains of their remedies; none if rows were removed in place."""
        found = self._kept_of_rows("_found")
        return tuple(map(vars(self)["_trials"].card, found)) if found else ()

    @knows_its_options
    def tried(self, *, same_machine: bool = False) -> CardTable:
        """The findings with `gain`: the cycles that each remedy saves, measured by compiling and simulating a copy with
        the remedy. With `same_machine` it tries only remedies that keep the machine.

        Where a remedy cannot be tried, `untried` has the reason: a loaded journey cannot try a change of the function.
        """
        trials, found = self._own()
        known = dict[str, tuple[int | None, str]]()
        with waiting("try the remedies"):
            for each in counted([each for each in found if each.remedy]):
                remedy = cast("Remedy", each.remedy)
                if repr(remedy) not in known:
                    left = same_machine and remedy.machine
                    known[repr(remedy)] = (None, _OTHER_MACHINE) if left else _or_why_not(trials.gain, remedy)
        results = [known[repr(each.remedy)] if each.remedy else (None, "") for each in found]
        made = CardTable(self)
        made._cards = tuple(
            replace(card, measured=None if untried else card.measured, untried=untried)
            for card, (_, untried) in zip(self.cards, results, strict=True)
        )
        made._line = trials.binding.text()
        gains = [max(each.cycles, gain or 0) for each, (gain, _) in zip(found, results, strict=True)]
        made["cycles"], made["share"] = gains, [each / max(trials.cycles, 1) for each in gains]
        made["gain"] = pd.array([gain for gain, _ in results], dtype="Int64")
        made["untried"] = [untried for _, untried in results]
        return made

    @property
    def records(self) -> tuple[Finding, ...]:
        """The finding behind each row."""
        return self._own()[1]

    @knows_its_options
    def measured(self, row: int) -> Card:
        """Tries the remedy of one row on a copy, which is compiled and simulated, and returns the row's card."""
        trials, found = self._own()
        if not 0 <= row < len(found):
            raise BadOption(f"measured({row}): expected a row of the findings, 0 to {len(found) - 1}")
        remedy = found[row].remedy
        if remedy is None:
            raise BadOption(f"measured({row}): {found[row].rule!r} has no remedy to try")
        with waiting("try the remedy"):
            gain, untried = _or_why_not(trials.gain, remedy)
        if gain is None:
            raise BadOption(f"measured({row}): {untried}")
        return trials.card(found[row])

    @knows_its_options
    def followed(self, steps: int = 3, *, same_machine: bool = False) -> StepTable:
        """The saving of several remedies together: one row a step, the first row without a change.

        Each step follows the remedy with the largest predicted saving, or with most cycles at stake where none is
        predicted, on a copy with all remedies before, and searches the copy for findings. A remedy that saves nothing
        is shown and not kept. With `same_machine` it takes only remedies that keep the machine. Each row's remedy is a
        call on the journey of the last kept row before it: that of row 1 is `j1`.
        """
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadOption(f"steps={steps!r}: expected the number of remedies to follow, a whole number of 1 or more")
        trials, found = self._own()
        rows: list[tuple[Any, ...]] = [(0, "", "", "", None, trials.cycles, None, True, "")]
        done, failed, name = set[tuple[str, str]](), set[str](), "j"
        with waiting("follow the remedies"):
            for step in counted(range(1, steps + 1)):
                wanted = (each for each in found if _open(each, done, same_machine))
                left = [each for each in wanted if each.remedy and each.remedy.call not in failed]
                if not left:
                    break
                each = max(left, key=_promise)
                done.add((each.rule, each.kernel))
                remedy = cast("Remedy", each.remedy)
                journey, untried = _or_why_not(trials.followed, remedy)
                after = journey.simulated.cycles if journey is not None else None
                gain = None if after is None else trials.cycles - after
                kept = gain is not None and gain > 0
                failed = {*failed, *([remedy.call] if untried else [])} if not kept else set[str]()
                call = re.sub(r"\bj\.", f"{name}.", remedy.call)
                rows.append(
                    (step, each.rule, each.kernel, f"j{step} = {call}", each.predicted, after, gain, kept, untried)
                )
                if journey is not None and kept:
                    (trials, found), name = journey.findings._own(), f"j{step}"
        made = StepTable(rows, columns=pd.Index(STEPS))
        left = sum(_open(each, done, same_machine) for each in found)
        others = sum(_open(each, done, False) for each in found) - left
        made._more = _what_is_left(step_count=len(rows) - 1, left=left, others=others, same_machine=same_machine)
        for place, column in enumerate(STEPS):
            if column in ("predicted", "cycles", "gain"):
                made[column] = pd.array([row[place] for row in rows], dtype="Int64")
        return made

    def _own(self) -> tuple[Trials, tuple[Finding, ...]]:
        found = self._kept_of_rows("_found")
        if "_found" not in vars(self) or len(found) != len(self):
            raise BadOption("these rows are only some of a journey's findings; j.findings has all of them")
        return vars(self)["_trials"], found

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles the plain table: trying a remedy needs the journey."""
        return pd.DataFrame(self).__reduce__()


def _known(each: Finding, trials: Trials) -> Finding:
    """The finding with its predicted saving; without its remedy if that saves nothing. The saving of a changed function
    or layout is not predicted."""
    remedy, predicted = each.remedy, each.predicted
    if remedy is None:
        return replace(each, predicted=None)
    if predicted is None:
        after = trials.predict(remedy)
        predicted = None if after is None else trials.cycles - after
    unknown = predicted is None and remedy.machine and not remedy.changes_program
    if unknown or (predicted is not None and predicted <= 0):
        return replace(each, remedy=None, predicted=None)
    return replace(each, predicted=predicted, cycles=max(each.cycles, predicted or 0))


def _row(each: Finding, trials: Trials) -> tuple[Any, ...]:
    nodes, place = trials.places(each)
    share, call = each.cycles / max(trials.cycles, 1), each.remedy.call if each.remedy else ""
    return (
        *(each.kernel, each.rule, each.cycles, share, each.reason),
        *(place, nodes, each.spans, call, each.predicted),
    )


def _or_why_not(work: Callable[[Remedy], R], remedy: Remedy) -> tuple[R | None, str]:
    """The result of trying a remedy; or the reason why there is none."""
    try:
        return work(remedy), ""
    except WorkbenchError as error:
        return None, str(error)
    except Exception as error:  # a changed copy runs the user's code
        return None, f"the changed copy raises {type(error).__name__}: {error}"


def _promise(each: Finding) -> int:
    """The expected saving of a finding's remedy: the predicted cycles, or without a prediction the cycles at stake."""
    return each.cycles if each.predicted is None else each.predicted


def _what_is_left(*, step_count: int, left: int, others: int, same_machine: bool) -> str:
    """The number of findings with remaining remedies, and the call to continue."""
    if left:
        told = "1 more finding has a remedy" if left == 1 else f"{left} more findings have a remedy"
        return f"{told}: .followed({step_count + left}{', same_machine=True' if same_machine else ''}) goes on"
    if others:
        told, them = ("1 remedy is", "it") if others == 1 else (f"{others} remedies are", "them")
        needs = "needs" if others == 1 else "need"
        return f"{told} left that {needs} another machine: call it without same_machine=True to follow {them}"
    return ""


def _open(each: Finding, done: set[tuple[str, str]], same_machine: bool) -> bool:
    """True if a finding's remedy is still to be followed."""
    wanted = each.remedy is not None and not (same_machine and each.remedy.machine)
    return wanted and (each.rule, each.kernel) not in done
