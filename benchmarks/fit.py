"""Fits what nobody published of two chips to both tables at once, and says what the fit is worth.

    python benchmarks/fit.py [--memory simple|banked] [--launch NS] [--sample N] [--seed N] [--jobs N]

UNKNOWNS has the figures that are fitted, and what they are on each chip. Fitted are their programs (their_programs.py)
by least squares of the relative errors, in which each chip counts the same; our programs are told beside them. A row is
compiled once, and simulated with each value of UNKNOWNS while the others stay at their first. Between two values the
time is taken to lie on a line, and the effects of the unknowns to add up; the last table says how far that is from
simulating the fitted figures.

Leave one out: a row is predicted with the figures that fit the others. Leave one family out: with those that fit the
other families. Both again with each unknown removed, which is then what it would be if nobody had looked at a table.
With --launch that one is not fitted: both tables can hardly tell a launch from DRAM's latency. The result goes into
simulator/machine/shipped by hand.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from accuracy_report import error_of
from measured_tables import KINDS, Kind
from simulated_rows import Figures, Simulated, options, simulated

import workbench as wb

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Unknown:
    """Something that one mechanism has on both chips, with the values that are simulated and those that are tried."""

    name: str
    figures: Callable[[Kind, float], Figures]
    simulated: tuple[float, ...]
    tried: tuple[float, ...]
    """Those between two simulated values, or beyond, are taken to lie on a line."""
    removed: float


def _launch(kind: Kind, ns: float) -> Figures:
    return {"launch_overhead_cycles": round(ns / 1000 * wb.machine(kind.machine).clock_mhz)}


def _latency(_: Kind, ns: float) -> Figures:
    return {"dram_latency_ns": ns}


def _switch(_: Kind, cycles: float) -> Figures:
    return {"weight_switch_cycles": round(cycles)}


def _conversion(_: Kind, operations: float) -> Figures:
    return {"vector_conversion_operations": round(operations)}


def _entries(_: Kind, entries: float) -> Figures:
    return {"dram_queue_entries": round(entries)}


def _streams(_: Kind, share: float) -> Figures:
    return {"dram_stream_share": share}


_OF_BOTH = (
    Unknown("launch, ns", _launch, (300, 0), tuple(range(0, 1001, 25)), 0),
    Unknown("DRAM latency, ns", _latency, (275, 100, 500), tuple(range(100, 501, 25)), 100),
    Unknown("weight switch, cycles", _switch, (32, 0, 128), tuple(range(0, 129, 16)), 0),
    Unknown("operations to widen or narrow 16 bits", _conversion, (8, 1, 16), (1, 4, 6, 8, 10, 16), 1),
)
_SHARES = (0.74, 0.78, 0.8, 0.82, 0.84, 0.86, 0.9, 1.0)
UNKNOWNS = {
    "simple": (*_OF_BOTH, Unknown("share of streams", _streams, (0.82, 1.0, 0.9, 0.74), _SHARES, 1.0)),
    "banked": (*_OF_BOTH, Unknown("entries of a queue", _entries, (64, 32, 128), (32, 64, 128), 32)),
}
"""By memory: each has one that the other has no use for."""
Unknowns = tuple[Unknown, ...]
Values = tuple[float, ...]
"""A value of each unknown."""


def with_launch(unknowns: Unknowns, ns: float) -> Unknowns:
    """The same with a launch that is known."""
    launch, *others = unknowns
    return (replace(launch, tried=(ns,), removed=ns), *others)


def variants(unknowns: Unknowns) -> list[tuple[int, float]]:
    """The unknown that is changed, and its value; before them all at their first."""
    changed = [(place, value) for place, unknown in enumerate(unknowns) for value in unknown.simulated[1:]]
    return [(0, unknowns[0].simulated[0]), *changed]


def figures(unknowns: Unknowns, values: Values, kind: Kind) -> Figures:
    told = [unknown.figures(kind, value) for unknown, value in zip(unknowns, values, strict=True)]
    return {name: value for each in told for name, value in each.items()}


def first_but(unknowns: Unknowns, place: int, value: float) -> Values:
    return tuple(value if at == place else unknown.simulated[0] for at, unknown in enumerate(unknowns))


class Sums:
    """The errors of one column with every value of the unknowns, as sums of their effects: [row, value] an unknown."""

    def __init__(self, unknowns: Unknowns, rows: Sequence[Simulated], times: Sequence[Sequence[float]]) -> None:
        self.unknowns = unknowns
        measured = np.array([row.measured for row in rows])
        relative = np.array(times) / measured[:, None]
        self.base: F64 = relative[:, 0] - 1
        self.effects = [self._effect(relative, place) for place in range(len(unknowns))]

    def _effect(self, relative: F64, place: int) -> F64:
        unknown = self.unknowns[place]
        columns = [0, *(at for at, (changed, _) in enumerate(variants(self.unknowns)) if at and changed == place)]
        order = np.argsort(unknown.simulated)
        known = np.array(unknown.simulated)[order]
        change = (relative[:, columns] - relative[:, :1])[:, order]
        return np.stack([_on_lines(np.array(unknown.tried), known, row) for row in change])

    def errors(self, choice: Sequence[int]) -> F64:
        """Of every row, with the tried values of these numbers."""
        return self.base + sum(effect[:, at] for effect, at in zip(self.effects, choice, strict=True))


def _on_lines(tried: F64, known: F64, values: F64) -> F64:
    """The values at the tried places, on lines through the known ones; beyond the last, on the last line."""
    slope = (values[-1] - values[-2]) / (known[-1] - known[-2])
    beyond = np.maximum(tried - known[-1], 0) * slope
    return np.interp(tried, known, values) + beyond


def fitted(sums: Sums, weights: F64, removed: int | None = None) -> tuple[int, ...]:
    """The numbers of the tried values with the least sum of weighted squares. The launch has a closed form."""
    allowed = [range(len(unknown.tried)) for unknown in sums.unknowns]
    if removed is not None:
        at = sums.unknowns[removed].tried.index(sums.unknowns[removed].removed)
        allowed[removed] = range(at, at + 1)
    launch, root = sums.effects[0][:, allowed[0]], np.sqrt(weights)
    best, least = (0,) * len(sums.unknowns), np.inf
    for rest in itertools.product(*allowed[1:]):
        others = sums.base + sum(effect[:, at] for effect, at in zip(sums.effects[1:], rest, strict=True))
        squares = np.square((others[:, None] + launch) * root[:, None]).sum(0)
        at = int(squares.argmin())
        if squares[at] < least:
            best, least = (allowed[0][at], *rest), squares[at]
    return best


def weights(rows: Sequence[Simulated], kept: npt.NDArray[np.bool_]) -> F64:
    """Of each row that is kept its part of its chip, as all chips count the same; of others none."""
    of_kind = {kind: sum(row.kind == kind for row, keep in zip(rows, kept, strict=True) if keep) for kind in KINDS}
    return np.array([keep / max(1, of_kind[row.kind]) for row, keep in zip(rows, kept, strict=True)])


def left_out(
    rows: Sequence[Simulated], columns: Sequence[Sums], name: Callable[[int], str], removed: int | None = None
) -> list[F64]:
    """The errors of each column, every row predicted with what fits those of other names in the last column."""
    names = [name(at) for at in range(len(rows))]
    found = [np.zeros(len(rows)) for _ in columns]
    for each in dict.fromkeys(names):
        out = np.array([other == each for other in names])
        choice = fitted(columns[-1], weights(rows, ~out), removed)
        for errors, column in zip(found, columns, strict=True):
            errors[out] = column.errors(choice)[out]
    return found


def means(rows: Sequence[Simulated], errors: F64) -> list[str]:
    """The mean of absolute errors of each chip."""
    return [
        f"{statistics.fmean(abs(error) for row, error in zip(rows, errors, strict=True) if row.kind == kind):.1%}"
        for kind in KINDS
    ]


def line(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |")


def tell_errors(rows: Sequence[Simulated], columns: Sequence[Sums]) -> None:
    """Errors inside, with one row and with one family left out; all unknowns fitted, and each removed."""
    heads = [f"{kind.machine} {whose}" for whose in ("ours", "theirs") for kind in KINDS]
    line(["fitted", "figures", "rows", *heads])
    print("|---|---|---|" + "--:|" * len(heads))
    unknowns = columns[-1].unknowns
    for removed in (None, *(at for at, unknown in enumerate(unknowns) if len(unknown.tried) > 1)):
        told = "all" if removed is None else f"without {unknowns[removed].name.partition(',')[0].partition(' (')[0]}"
        choice = fitted(columns[-1], weights(rows, np.full(len(rows), True)), removed)
        values = ", ".join(f"{unknown.tried[at]:g}" for unknown, at in zip(unknowns, choice, strict=True))
        inside = [column.errors(choice) for column in columns]
        one, family = (left_out(rows, columns, name, removed) for name in (str, lambda at: rows[at].family))
        for kind, errors in (("all", inside), ("one left out", one), ("family left out", family)):
            line([told, values, kind, *itertools.chain(*(means(rows, each) for each in errors))])


def tell_rows(rows: Sequence[Simulated], columns: Sequence[Sums]) -> None:
    """Of every row of cycles, and of every family of microseconds, the error with all, and with the row left out."""
    choice = fitted(columns[-1], weights(rows, np.full(len(rows), True)))
    inside, outside = columns[-1].errors(choice), left_out(rows, columns[-1:], str)[0]
    print("\nTheir programs, row by row\n")
    line(["chip", "workload", "launches", "error", "left out"])
    print("|---|---|--:|--:|--:|")
    for row, error, out in zip(rows, inside, outside, strict=True):
        line([row.kind.machine, row.row.workload, f"{row.launches}", f"{error:+.1%}", f"{out:+.1%}"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Fits what is unknown of two chips.", allow_abbrev=False)
    options(parser)
    parser.add_argument("--launch", type=float, metavar="NS", help="a launch takes so long, and is not fitted")
    given = parser.parse_args()
    unknowns = UNKNOWNS[given.memory] if given.launch is None else with_launch(UNKNOWNS[given.memory], given.launch)
    machines = [
        {kind: figures(unknowns, first_but(unknowns, *each), kind) for kind in KINDS} for each in variants(unknowns)
    ]
    rows = [*simulated(given, machines)]
    columns = [Sums(unknowns, rows, [getattr(row, whose) for row in rows]) for whose in ("ours", "theirs")]
    choice = fitted(columns[-1], weights(rows, np.full(len(rows), True)))
    values = tuple(unknown.tried[at] for unknown, at in zip(unknowns, choice, strict=True))
    for unknown, value in zip(unknowns, values, strict=True):
        print(f"{unknown.name} = {value:g}")
    for kind in KINDS:
        print(
            f"{kind.machine}: "
            + ", ".join(f"{name} = {value}" for name, value in figures(unknowns, values, kind).items())
        )
    print()
    tell_errors(rows, columns)
    tell_rows(rows, columns)
    again = [*simulated(given, [{kind: figures(unknowns, values, kind) for kind in KINDS}])]
    exact = np.array([error_of(each.theirs[0], each.measured) for each in again])
    off = np.abs(exact - columns[-1].errors(choice))
    print(
        f"\nErrors simulated with the fitted figures are {off.mean():.2%} away from the sums, at most {off.max():.2%}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
