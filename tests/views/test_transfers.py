"""Tests each transfer's use of the memory: by span, by kernel, in stalls and in findings."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from tests.simulator.build import at_peak
from workbench.ground.errors import EmptyTable


@pytest.fixture(scope="module")
def every_sixteenth() -> wb.Journey:
    """One element of each request of 64 bytes: the memory moves 16 times what is asked for."""
    return wb.trace(lambda x: x[:, ::16].contiguous(), torch.randn(512, 512), machine=at_peak())


def test_spans_say_what_they_ask_for_and_what_is_moved(every_sixteenth: wb.Journey):
    events = every_sixteenth.simulated.events
    loads, stores = (events[events["kind"] == kind] for kind in ("LOAD", "STORE"))
    assert (loads["run"] == 4).all() and (loads["stretch"] == 4).all()
    assert (loads["moved"] == 16 * loads["bytes"]).all() and (stores["moved"] == stores["bytes"]).all()
    assert (loads["peak_share"] == 1 / 16).all() and (stores["peak_share"] == 1).all()
    assert events["moved"].sum() == every_sixteenth.simulated.trace.counters["dram_request_bytes"]


def test_kernels_say_the_same_of_all_their_transfers(every_sixteenth: wb.Journey):
    simulated = every_sixteenth.simulated
    table, events = simulated.transfers.set_index("kind"), simulated.events
    assert set(table.index) == {"LOAD", "STORE"}
    for kind, row in table.iterrows():
        mine = events[events["kind"] == kind]
        assert (row["transfers"], row["bytes"], row["moved"]) == (len(mine), mine["bytes"].sum(), mine["moved"].sum())
    assert table.loc["LOAD", "run"] == 4 and table.loc["LOAD", "peak_share"] == 1 / 16
    assert table.loc["LOAD", "cycles"] == 16 * table.loc["STORE", "cycles"]


def test_who_waits_for_them_waits_for_inefficient_transfers(every_sixteenth: wb.Journey):
    waits = every_sixteenth.simulated.stalls[["memory_peak", "inefficient_transfers"]].sum()
    assert waits["inefficient_transfers"] > 8 * waits["memory_peak"]
    longer = wb.trace(lambda x: x[::16].contiguous(), torch.randn(512, 512), machine="edge-8x8").simulated
    assert longer.stalls["inefficient_transfers"].sum() == 0 < longer.stalls["memory_peak"].sum()


def test_a_memory_that_is_busy_with_what_nobody_asked_for_is_not_at_its_peak(every_sixteenth: wb.Journey):
    told = "memory at its peak"
    assert told not in set(every_sixteenth.findings["rule"])
    assert told in set(wb.trace(torch.relu, torch.randn(512, 512), machine="edge-8x8").findings["rule"])


def test_the_picture_and_the_texts_name_both_waits(every_sixteenth: wb.Journey):
    html = every_sixteenth.simulated.html()
    assert "idle: inefficient transfers" in html and "--c-inefficient_transfers" in html
    assert "idle: bandwidth" not in html and "memory_bus" not in html


def test_where_nothing_goes_to_memory_the_table_says_so():
    simulated = wb.trace(lambda x: x.t(), torch.randn(4, 4)).simulated
    with pytest.warns(EmptyTable, match="nothing is moved from or to DRAM"):
        assert len(simulated.transfers) == 0
    assert len(simulated.events) == 0 and "peak_share" in simulated.events.columns
