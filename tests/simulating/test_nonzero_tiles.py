"""Tiles of zeros in the tensors of a call, skipped by machines that can."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench import Journey


class Pruned(torch.nn.Module):
    """A layer with a block of its weight pruned away, then another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(32, 32, bias=False), torch.nn.Linear(32, 32, bias=False)
        with torch.no_grad():
            self.first.weight[:, 16:] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.softmax(self.first(x), -1))


MAPPING = {"*": {"tile": {"m": 16, "n": 16, "k": 16}}}
TILE = 16 * 16 * 4


@pytest.fixture(scope="module")
def traced() -> tuple[Pruned, Journey]:
    model = Pruned()
    mapping = {name: MAPPING["*"] for name in ("k0_linear", "k2_linear")}
    apart = {"off": ["rows of a product"]}
    return model, wb.trace(model, torch.randn(32, 32), machine="edge-8x8", mapping=mapping, fusion=apart)


@pytest.fixture(scope="module")
def skipping(traced: tuple[Pruned, Journey]) -> Journey:
    return traced[1].with_(machine=wb.machine("edge-8x8", skips_zero_tiles=True))


def test_tiles_of_a_pruned_weight_are_skipped(traced: tuple[Pruned, Journey], skipping: Journey) -> None:
    skipping.simulated.record.invariants()
    table = skipping.simulated.skipped
    rows = table[table.kernel == "k0_linear"].set_index("kind")
    # half of the steps along k: of two row tiles and two column tiles each
    products = rows.loc["product"]
    assert (products["count"], products.skipped, products.macs_skipped) == (8, 4, 4 * 16**3)
    weight = table[table.tensor == "first.weight"].iloc[0]
    assert weight.known and weight.skipped * 2 == weight["count"]
    assert weight.bytes_skipped == weight.skipped * TILE
    plain = traced[1].simulated.stats
    for name, less in (("dram_read_bytes", weight.bytes_skipped), ("macs", 4 * 16**3)):
        assert skipping.simulated.stats[name] == plain[name] - less


def test_what_a_kernel_computes_is_not_known(skipping: Journey) -> None:
    table = skipping.simulated.skipped
    later = table[table.kernel == "k2_linear"]
    assert later.skipped.sum() == 0
    assert later[later.tensor == "softmax"].known.tolist() == [False]


def test_numbers_stay_and_other_machines_skip_nothing(traced: tuple[Pruned, Journey], skipping: Journey) -> None:
    assert skipping.check().ok
    assert traced[1].simulated.skipped.skipped.sum() == 0
    assert "on zeros skipped" in skipping.simulated.text()
    assert "on zeros skipped" in skipping.simulated.html()
    assert "on zeros skipped" not in traced[1].simulated.text() + traced[1].simulated.html()


def test_inputs_count_as_they_are_when_the_timeline_is_made(traced: tuple[Pruned, Journey]) -> None:
    model = traced[0]
    x = torch.zeros(32, 32)
    journey = wb.trace(model, x, machine=wb.machine("edge-8x8", skips_zero_tiles=True))
    table = journey.simulated.skipped.set_index("tensor")
    assert table.loc["x"].skipped == table.loc["x"]["count"] > 0


def test_a_file_has_the_timeline_and_no_data(skipping: Journey, tmp_path: Path) -> None:
    skipping.save(tmp_path / "j.wb")
    loaded = wb.load(tmp_path / "j.wb")
    assert loaded.simulated.cycles == skipping.simulated.cycles
    assert loaded.simulated.skipped.skipped.sum() == skipping.simulated.skipped.skipped.sum() > 0
    assert loaded.simulated.events.slack.tolist() == skipping.simulated.events.slack.tolist()
    assert loaded.simulated.energy.equals(skipping.simulated.energy)
    loaded.simulated.record.invariants()
    again = wb.simulate(loaded.lowered, loaded.scheduled, machine=skipping.machine)
    assert again.skipped.skipped.sum() == 0
    assert not again.skipped.known.any()


def test_models_on_the_meta_device_have_no_zeros() -> None:
    with torch.device("meta"):
        model, x = torch.nn.Linear(16, 16), torch.empty(8, 16)
    journey = wb.trace(model, x, machine=wb.machine("edge-8x8", skips_zero_tiles=True))
    assert not journey.simulated.skipped.known.any()
