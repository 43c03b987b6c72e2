"""The fit of both chips: it finds figures that made the times, and leaves out what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import workbench as wb

if TYPE_CHECKING:
    from simulated_rows import Simulated

LAUNCHES = (1, 3, 1, 63, 15, 1, 1)
SWITCHES = (0, 0, 500, 40, 900, 3, 7)
LATENCIES = (2, 4, 3, 90, 20, 2, 5)
CONVERSIONS = (5, 0, 80, 0, 400, 1, 90)
BYTES = (100, 900, 2_000, 70_000, 30_000, 10, 800)


def time(row: int, values: tuple[float, ...]) -> float:
    """Of a made-up machine, in which each unknown adds what it costs."""
    launch, latency, switch, operations, entries = values
    moved = BYTES[row] * (1.1 if entries < 64 else 1.05 if entries < 128 else 1.0) + CONVERSIONS[row] * operations
    return LAUNCHES[row] * launch + LATENCIES[row] * latency + SWITCHES[row] * switch + moved


def made_up(truth: tuple[float, ...]) -> list[Simulated]:
    """Rows of both chips, measured on a machine with these figures."""
    import fit
    from measured_tables import CYCLES, MICROSECONDS, Row
    from simulated_rows import Simulated

    found = list[Simulated]()
    for at, launches in enumerate(LAUNCHES):
        kind = CYCLES if at % 2 else MICROSECONDS
        unknowns = fit.UNKNOWNS["banked"]
        times = tuple(time(at, fit.first_but(unknowns, *each)) for each in fit.variants(unknowns))
        found.append(Simulated(kind, Row(f"relu_{at}", at, time(at, truth)), times, times, launches))
    return found


@pytest.mark.parametrize("truth", [(300, 275, 32, 8, 64), (0, 150, 128, 1, 128), (1000, 500, 0, 16, 32)])
def test_figures_that_made_the_times_are_found(truth: tuple[float, ...]) -> None:
    import fit

    rows = made_up(truth)
    unknowns = fit.UNKNOWNS["banked"]
    sums = fit.Sums(unknowns, rows, [row.theirs for row in rows])
    everything = fit.weights(rows, np.full(len(rows), True))
    choice = fit.fitted(sums, everything)
    assert tuple(unknown.tried[at] for unknown, at in zip(unknowns, choice, strict=True)) == truth
    assert np.abs(sums.errors(choice)).max() < 1e-9
    without = fit.fitted(sums, everything, removed=1)
    assert unknowns[1].tried[without[1]] == unknowns[1].removed
    assert np.abs(sums.errors(without)).max() > 0.01


@pytest.mark.parametrize("launch", [300, 225])
def test_a_launch_that_is_known_is_not_fitted(launch: int) -> None:
    """With the true latency all others are found; with a wrong one some error is left."""
    import fit

    rows = made_up((300, 275, 32, 8, 64))
    unknowns = fit.with_launch(fit.UNKNOWNS["banked"], launch)
    sums = fit.Sums(unknowns, rows, [row.theirs for row in rows])
    choice = fit.fitted(sums, fit.weights(rows, np.full(len(rows), True)))
    found = tuple(unknown.tried[at] for unknown, at in zip(unknowns, choice, strict=True))
    assert found[0] == launch
    assert (found == (300, 275, 32, 8, 64)) == (launch == 300) == (np.abs(sums.errors(choice)).max() < 1e-9)


def test_chips_count_the_same() -> None:
    import fit
    from measured_tables import CYCLES, MICROSECONDS

    rows = made_up((300, 275, 32, 8, 64))
    weights = fit.weights(rows, np.array([at != 1 for at in range(len(rows))]))
    assert weights[1] == 0
    for kind in (CYCLES, MICROSECONDS):
        of_kind = [weight for row, weight in zip(rows, weights, strict=True) if row.kind == kind]
        assert sum(of_kind) == pytest.approx(1)


def test_a_row_left_out_does_not_fit_itself() -> None:
    """A row that took twice as long draws a fit of all towards itself, and not one without it."""
    import fit
    from measured_tables import Row
    from simulated_rows import Simulated

    rows = made_up((300, 275, 32, 8, 64))
    odd = Row("gemm_8x8x8", 9, rows[4].measured * 2)
    rows[4] = Simulated(rows[4].kind, odd, rows[4].ours, rows[4].theirs, rows[4].launches)
    sums = fit.Sums(fit.UNKNOWNS["banked"], rows, [row.theirs for row in rows])
    inside = sums.errors(fit.fitted(sums, fit.weights(rows, np.full(len(rows), True))))
    for name in (str, lambda at: rows[at].family):
        (outside,) = fit.left_out(rows, [sums], name)
        assert outside[4] == pytest.approx(-0.5) and abs(inside[4]) < abs(outside[4])


def test_a_sample_has_every_family_and_is_always_the_same() -> None:
    from measured_tables import CYCLES, MICROSECONDS, read_table
    from simulated_rows import measured_rows
    from workloads import family_of

    rows = read_table(MICROSECONDS.table).rows
    found = measured_rows(30, 0)
    of_v4 = [row for kind, row in found if kind == MICROSECONDS]
    assert {family_of(row.workload) for row in of_v4} == {family_of(row.workload) for row in rows}
    assert 25 <= len(of_v4) <= 40 and len({row.line for row in of_v4}) == len(of_v4)
    assert sum(kind == CYCLES for kind, _ in found) == len(read_table(CYCLES.table).rows)
    assert found == measured_rows(30, 0) != measured_rows(30, 1)


def test_unknowns_and_mechanisms_are_figures_of_both_chips() -> None:
    """Each is a figure that the machines have, and switching a mechanism off changes one of them."""
    import ablation
    import fit
    from measured_tables import KINDS

    for kind in KINDS:
        machine = wb.machine(kind.machine, memory="banked")
        for unknowns in fit.UNKNOWNS.values():
            for place, value in fit.variants(unknowns):
                machine.with_(**fit.figures(unknowns, fit.first_but(unknowns, place, value), kind))
    (first, none), *others = ablation.MECHANISMS
    assert first == "all on" and not none
    for name, figures in others:
        machines = [wb.machine(kind.machine, memory="banked") for kind in KINDS]
        off = [machine.with_(**figures) for machine in machines]
        assert any(one.figures() != two.figures() for one, two in zip(machines, off, strict=True)), name


@pytest.mark.test_all
def test_one_row_is_simulated_with_every_variant() -> None:
    from measured_tables import CYCLES, MICROSECONDS, Row
    from simulated_rows import simulated_row

    off = [dict.fromkeys((CYCLES, MICROSECONDS), figures) for figures in ({}, {"launch_overhead_cycles": 0})]
    found = simulated_row((CYCLES, Row("softmax_16x64", 1, 1000), "simple", off))
    launch = wb.machine("tpu-v3").figures()["launch_overhead_cycles"]
    assert found.launches == 3 and found.theirs[0] - found.theirs[1] == 3 * launch
    assert found.ours[0] - found.ours[1] == launch


@pytest.mark.parametrize("style", ["light", "dark"])
def test_the_picture_has_every_row(style: str) -> None:
    import accuracy_plot

    rows = [
        {"workload": "softmax_8x8", "measured": 100, "simulated": 80, "simulated_theirs": 120},
        {"workload": "gemm_8x8x8", "measured": 1000, "simulated": 900, "simulated_theirs": 900},
    ]
    (axes,) = accuracy_plot.figure(rows, style, "cycles").axes
    points = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert points == {(100, 80), (100, 120), (1000, 900)}
    told = {text.get_text() for text in axes.get_legend().get_texts()}
    assert told == {"softmax", "gemm", "their program", "our program, where it differs", "within 10%"}
