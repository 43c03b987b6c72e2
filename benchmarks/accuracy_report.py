"""Simulated times beside measured ones, for reading and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from measured_tables import CYCLES, Kind, Row
from workloads import family_of


@dataclass(frozen=True)
class Program:
    """The simulated figures of a program."""

    time: float
    """In the unit of the table."""
    asked: int
    """Bytes of DRAM that it needs."""
    moved: int
    """Bytes of DRAM that are moved for it, in whole requests."""
    passes: float
    """The asked bytes by those of its operands."""


@dataclass(frozen=True)
class Outcome:
    """A row of the table, and its two programs."""

    row: Row
    ours: Program
    theirs: Program
    documented: float | None
    """The passes that the documented form of their program means."""
    form: str | None = None
    """The known form of their program; without it theirs is ours."""


def error_of(simulated: float, measured: float) -> float:
    return (simulated - measured) / measured


def mean_abs_error(pairs: Iterable[tuple[float, float | None]]) -> float | None:
    """Of (simulated, measured) pairs, over those that were measured; None without any."""
    errors = [abs(error_of(simulated, measured)) for simulated, measured in pairs if measured is not None]
    return statistics.fmean(errors) if errors else None


Means = tuple[float | None, float | None]


def means(outcomes: Sequence[Outcome]) -> Means:
    """The mean errors of our programs and of theirs."""
    return (
        mean_abs_error((each.ours.time, each.row.measured) for each in outcomes),
        mean_abs_error((each.theirs.time, each.row.measured) for each in outcomes),
    )


def groups(outcomes: Sequence[Outcome], key: Callable[[Row], str]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for each in outcomes:
        if name := key(each.row):
            found.setdefault(name, []).append(each)
    return found


def by_family(row: Row) -> str:
    return family_of(row.workload)


def by_regime(row: Row) -> str:
    return row.regime


def as_json(outcomes: Sequence[Outcome], kind: Kind) -> dict[str, object]:
    ours, theirs = means(outcomes)
    return {
        "rows": [_row_json(each, kind) for each in outcomes],
        "mean_abs_error": ours,
        "mean_abs_error_theirs": theirs,
        "by_family": _means_json(groups(outcomes, by_family)),
        "by_regime": _means_json(groups(outcomes, by_regime)),
    }


def _row_json(outcome: Outcome, kind: Kind) -> dict[str, object]:
    row, unit = outcome.row, "" if kind == CYCLES else f"_{kind.unit}"
    return {
        "workload": row.workload,
        **({} if kind == CYCLES else {"regime": row.regime}),
        f"measured{unit}": row.measured,
        f"simulated{unit}": outcome.ours.time,
        f"simulated_theirs{unit}": outcome.theirs.time,
        "ours": _bytes_json(outcome.ours),
        "theirs": {**_bytes_json(outcome.theirs), "documented_passes": outcome.documented, "form": outcome.form},
    }


def _bytes_json(program: Program) -> dict[str, float]:
    return {"asked_bytes": program.asked, "moved_bytes": program.moved, "passes": program.passes}


def _means_json(grouped: dict[str, list[Outcome]]) -> dict[str, object]:
    found = {name: means(members) for name, members in grouped.items()}
    return {
        name: {"rows": len(grouped[name]), "mean_abs_error": ours, "mean_abs_error_theirs": theirs}
        for name, (ours, theirs) in found.items()
    }


def as_text(outcomes: Sequence[Outcome], kind: Kind) -> str:
    """The rows, what other simulators say, and the mean errors: of all, and by family and by regime."""
    others = list(dict.fromkeys(name for each in outcomes for name in each.row.others))
    heads = ["workload", f"measured, {kind.unit}", "our program", "error", "their program", "error"]
    heads += ["ours: asked", "moved", "passes", "theirs: asked", "moved", "passes", "documented", *others]
    lines = [_line(heads), "|---|" + "--:|" * (len(heads) - 1)]
    lines += [_line(_cells(each, kind, others)) for each in outcomes]
    told = [mean_abs_error(_told(outcomes, other)) for other in others]
    ours, theirs = means(outcomes)
    blank = [""] * 7
    lines.append(
        _line(["mean of absolute errors", "", "", _share(ours), "", _share(theirs), *blank, *map(_share, told)])
    )
    lines += ["", "Bytes are of DRAM; passes are asked bytes by the bytes of the operands, weights included."]
    lines += ["Where nothing is known of their program it is ours."] if not all(each.form for each in outcomes) else []
    for name, key in (("family", by_family), ("regime", by_regime)):
        if grouped := groups(outcomes, key):
            lines += ["", _line([name, "rows", "our programs", "their programs"]), "|---|--:|--:|--:|"]
            for group, members in grouped.items():
                lines.append(_line([group, f"{len(members)}", *map(_share, means(members))]))
    return "\n".join(lines)


def _cells(outcome: Outcome, kind: Kind, others: Sequence[str]) -> list[str]:
    row = outcome.row
    cells = [row.workload, "" if row.measured is None else _number(row.measured, kind)]
    for program, mark in ((outcome.ours, ""), (outcome.theirs, "" if outcome.form else " (ours)")):
        cells += [_number(program.time, kind) + mark, _error(program.time, row)]
    for program in (outcome.ours, outcome.theirs):
        cells += [f"{program.asked:,}", f"{program.moved:,}", f"{program.passes:.2f}"]
    cells.append("" if outcome.documented is None else f"{outcome.documented:.2f}")
    errors = {name: f" ({_error(number, row)})" if row.measured else "" for name, number in row.others.items()}
    told = {name: f"{number:,}{errors[name]}" for name, number in row.others.items()}
    return [*cells, *(told.get(name, "") for name in others)]


def _told(outcomes: Sequence[Outcome], other: str) -> list[tuple[float, float | None]]:
    return [(each.row.others[other], each.row.measured) for each in outcomes if other in each.row.others]


def _number(value: float, kind: Kind) -> str:
    return f"{value:,}" if kind == CYCLES else f"{value:,.3f}"


def _error(simulated: float, row: Row) -> str:
    return "" if row.measured is None else f"{error_of(simulated, row.measured):+.1%}"


def _share(mean: float | None) -> str:
    return "" if mean is None else f"{mean:.1%}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
