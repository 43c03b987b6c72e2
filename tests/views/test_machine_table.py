"""Tests the sources of a machine's figures in tables, pages and cards."""

from __future__ import annotations

from dataclasses import replace

from simulator import Launched, simulate
from simulator.machine.machine_file import load_machine, parse_machine
from tests.simulator.units.test_closed_forms import one_matmul
from workbench.explaining.views.pages import objects
from workbench.explaining.views.timelines import timeline
from workbench.explaining.views.timelines.machine_table import figures_table, machines_table

MEASURED = """
version = 1
base = "edge-8x8"
[energy]
mac_pj = 2.0
fitted = { mac_pj = "a meter at the socket" }
"""


def test_a_fitted_figure_is_told_as_one_in_the_list_of_figures() -> None:
    told = {name: source for name, _, source in figures_table(load_machine("tpu-v3")).rows}
    assert told["weight_switch_cycles"].startswith("fitted: benchmarks/fit.py")
    assert (told["systolic_selection"], told["systolic_rows"]) == ("assumed", "public")


def test_fitted_figures_are_counted_beside_assumed_ones_where_there_are_some() -> None:
    v3, edge = load_machine("tpu-v3"), load_machine("edge-8x8")
    table = machines_table([v3, edge])
    assert table.columns[-2:] == ("assumed", "fitted")
    assert [row[-2:] for row in table.rows] == [(len(v3.assumed), len(v3.fitted)), (len(edge.assumed), 0)]
    assert machines_table([edge]).columns[-1] == "assumed"


def test_the_card_of_a_machine_counts_the_fitted_ones() -> None:
    v3 = load_machine("tpu-v3")
    assert f"assumed: nobody published them; {len(v3.fitted)} fitted to measurements" in objects.machine_html(v3)
    assert "fitted" not in objects.machine_html(load_machine("edge-8x8"))


def test_energy_by_a_fitted_figure_is_told_as_such() -> None:
    program = one_matmul(8, 8, 8)
    launched = [Launched("k", program, tuple(at << 16 for at in range(len(program.arguments))))]
    trace = simulate(launched, parse_machine("measured", MEASURED))
    for table in (timeline.energy(trace), timeline.energy_by_unit(trace)):
        place = table.columns.index("unit")
        guessed = {row[place]: row[-2:] for row in table.rows}
        assert table.columns[-2:] == ("assumed", "fitted")
        assert guessed["systolic"] == (False, True) and guessed["scratchpad"] == (True, False)
    plain = replace(trace, machine=load_machine("edge-8x8"))
    assert {row[-2:] for row in timeline.energy(plain).rows} == {(True, False)}
