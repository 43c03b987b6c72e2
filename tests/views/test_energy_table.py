"""The energy of a whole journey, by kernel, unit and kind."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench import Journey


@pytest.fixture(scope="module")
def product() -> Journey:
    layer = torch.nn.Linear(64, 96)
    return wb.trace(lambda x: torch.softmax(layer(x), -1), torch.randn(32, 64), machine="edge-8x8")


def test_energy_is_counts_times_figures(product: Journey) -> None:
    table, stats = product.simulated.energy, product.simulated.stats
    assert (table.pj == table["count"] * table.pj_each).all()
    counted = table.groupby(["unit", "kind"])["count"].sum()
    assert counted["systolic", "mac"] == stats["macs"] == 32 * 64 * 96
    assert counted["dram", "byte"] == stats["dram_request_bytes"]
    assert counted["vector", "alu"] == stats["alu"]
    assert counted["vector", "special"] == stats["special"]
    assert set(table.kernel) == {launch.kernel for launch in product.scheduled.record.launches.launches}


def test_a_figure_of_ones_own_is_no_longer_assumed(product: Journey) -> None:
    table = product.simulated.energy
    assert table.assumed.all()
    mine = product.with_(machine=wb.machine("edge-8x8", mac_pj=2.0)).simulated.energy
    macs = mine[mine.unit == "systolic"].iloc[0]
    assert (macs.pj, macs.assumed) == (2.0 * 32 * 64 * 96, False)
    hbm = product.with_(machine="tpu-v3").simulated.energy
    assert not hbm[hbm.unit == "dram"].assumed.any()
    assert hbm[hbm.kind == "activate"].pj_each.unique().tolist() == [909]
    assert hbm[(hbm.unit == "dram") & (hbm.kind == "byte")].pj_each.unique() == pytest.approx(
        [8 * (1.51 + 1.17 + 0.80)]
    )


def test_the_page_has_it_by_unit(product: Journey) -> None:
    whole = product.simulated.energy.pj.sum() / 1e6
    assert f"{whole:,.3g} µJ" in product.simulated.html()
