"""Tensors on several chiplets: where they lie by themselves and by the user's plan, and what crosses the links."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from simulator import Machine, NoSuchPlace
from workbench import Journey
from workbench.ground.errors import BadOption, EmptyTable

FIGURES = {"cores": 2, "chiplets": 2, "dram_channels": 2, "dram_bytes_per_second": 51_200_000_000}
SIZE = 128 * 128 * 4


def machine(**figures: int | str) -> Machine:
    return wb.machine("edge-8x8", **{**FIGURES, **figures})


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(128, 128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ self.weight, -1)


@pytest.fixture(scope="module")
def turns() -> Journey:
    """Pages in turn; the softmax has a kernel of its own."""
    return wb.trace(Layer(), torch.randn(128, 128), machine=machine(), fusion={"off": ["rows of a product"]})


def remote(journey: Journey) -> int:
    journey.simulated.record.invariants()
    return int(journey.simulated.stats["dram_remote_bytes"])


@pytest.mark.test_all
def test_pages_with_those_who_ask_most_cross_fewer_links(turns: Journey) -> None:
    local = turns.with_(machine=machine(dram_placement="local"))
    assert local.scheduled.kernels[0].mapping.cores == turns.scheduled.kernels[0].mapping.cores
    assert turns.simulated.stats["dram_request_bytes"] == local.simulated.stats["dram_request_bytes"]
    assert remote(local) < 0.6 * remote(turns)
    # half of all bytes in turn; of the local ones half of the weight crosses, which each core reads twice
    assert remote(turns) == turns.simulated.stats["dram_request_bytes"] / 2
    assert remote(local) == 2 * SIZE
    slow = {"chiplet_link_bytes_per_cycle": 4}
    cycles = [
        turns.with_(machine=machine(dram_placement=each, **slow)).simulated.cycles for each in ("interleaved", "local")
    ]
    assert cycles[1] < cycles[0] / 1.3


def test_the_table_says_where_each_tensor_lay(turns: Journey) -> None:
    found = turns.with_(machine=machine(dram_placement="local")).simulated
    table = found.placement.set_index("tensor")
    assert set(table.placed) == {"local"} and set(table.bytes) == {SIZE}
    assert table[["pages_on_0", "pages_on_1"]].to_numpy().tolist() == [[8, 8]] * len(table)
    weight = table[table.path == "weight"]
    assert weight[["local_bytes", "remote_bytes"]].to_numpy().tolist() == [[2 * SIZE, 2 * SIZE]]
    assert table.remote_bytes.sum() == found.stats["dram_remote_bytes"] == 2 * SIZE
    assert (table.local_bytes + table.remote_bytes).sum() == found.stats["dram_request_bytes"]
    assert found.by_kernel.set_index("kernel").bytes_remote.tolist() == [2 * SIZE, 0]
    assert f"2 chiplets: {2 * SIZE:,} of " in found.text() and "tensors on chiplets" in found.html()
    assert int(found.links.set_index(["from", "to"]).loc[("chiplet1", "chiplet0"), "bytes"]) == SIZE


def test_a_machine_in_one_piece_tells_nothing_of_chiplets(turns: Journey) -> None:
    whole = turns.with_(machine="edge-8x8").simulated
    with pytest.warns(EmptyTable, match=r"has no chiplets; a machine with chiplets: j\.with_\(machine=j\.machine"):
        assert whole.placement.empty
    assert "chiplet" not in whole.text() + whole.html() and "bytes_remote" not in whole.by_kernel
    assert whole.stats["dram_remote_bytes"] == 0


def test_a_user_says_where_tensors_lie(turns: Journey) -> None:
    local = machine(dram_placement="local")
    planned = turns.with_(machine=local, placement={"weight": 1, "x": "interleaved", "softmax": 0})
    table = planned.simulated.placement.set_index("path")
    assert table.loc["weight", ["placed", "pages_on_0", "pages_on_1"]].tolist() == ["1", 0, 16]
    assert table.loc["weight", ["local_bytes", "remote_bytes"]].tolist() == [2 * SIZE, 2 * SIZE]
    # of a core's own rows, which it reads four times, half lies elsewhere if pages are in turn
    assert table.loc["x", ["placed", "pages_on_0", "remote_bytes"]].tolist() == ["interleaved", 8, 2 * SIZE]
    assert planned.simulated.placement.set_index("tensor").loc["softmax", "remote_bytes"] == SIZE // 2
    told = "// placement: weight on chiplet 1, x interleaved, softmax on chiplet 0; all other tensors by the machine's"
    assert told in planned.scheduled.text()
    remote(planned)
    assert planned.check().ok


def test_plans_share_kernels(turns: Journey) -> None:
    planned = turns.with_(placement={"weight": 0})
    assert planned.scheduled.kernels[0].record is turns.scheduled.kernels[0].record
    assert planned.with_(placement=None).simulated.record.digest() == turns.simulated.record.digest()
    assert turns.with_(placement=None) is turns


def test_a_plan_is_refused_where_it_cannot_be_kept(turns: Journey) -> None:
    with pytest.raises(BadOption, match=r"there is no tensor 'wieght' in DRAM; did you mean 'weight'\?") as told:
        _ = turns.with_(placement={"wieght": 1}).scheduled
    assert f"placement= was given at {__file__}" in str(told.value)
    with pytest.raises(NoSuchPlace, match=r"is to be on chiplet 2: machine 'edge-8x8' has chiplets 0 to 1"):
        _ = turns.with_(placement={"weight": 2}).scheduled
    with pytest.raises(NoSuchPlace, match="has one chiplet, 0"):
        wb.simulate(turns.lowered, turns.with_(placement={"weight": 1}).scheduled, machine="edge-8x8")
    with pytest.raises(BadOption, match="'weight': 'locl'}, of type dict; did you mean 'local'"):
        turns.with_(placement={"weight": "locl"})
    with pytest.raises(BadOption, match="placement must be names of tensors with the number of a chiplet"):
        turns.with_(placement=["weight"])  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=r"set the machine's figure, wb\.machine\(\.\.\., dram_placement='local'\)"):
        turns.with_(placement="local")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=r"got {'weight': True}"):
        turns.with_(placement={"weight": True})


def test_a_saved_journey_keeps_its_plan(turns: Journey, tmp_path: Path) -> None:
    planned = turns.with_(placement={"weight": 1})
    planned.save(tmp_path / "j.wb")
    loaded = wb.load(tmp_path / "j.wb")
    assert loaded.scheduled.record.placement == planned.scheduled.record.placement
    assert loaded.simulated.placement.equals(planned.simulated.placement)
    loaded.simulated.record.invariants()
    again = wb.simulate(loaded.lowered, loaded.scheduled, machine=machine())
    assert again.record.digest() == planned.simulated.record.digest() != turns.simulated.record.digest()
    assert loaded.with_(placement={"weight": 1}).simulated.cycles == planned.simulated.cycles


def test_the_stage_alone_takes_a_plan(turns: Journey) -> None:
    alone = wb.schedule(turns.lowered, turns.rendered, machine=machine(), placement={"weight": 1})
    assert [each.chiplet for each in alone.record.placement] == [1]


@pytest.mark.test_all
@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_what_takes_an_address_after_another_is_placed_anew(memory: str) -> None:
    """Twelve tensors, most of which live one after another at three addresses, and rows that are read by index."""
    table = torch.nn.Embedding(64, 256)

    def chain(i: torch.Tensor) -> torch.Tensor:
        x = table(i)
        for _ in range(6):
            x = torch.softmax(x @ x.T, -1)
        return x

    line = {"chiplets": 4, "cores": 4, "dram_channels": 4, "chiplet_links": "0-1 1-2 2-3", "dram_placement": "local"}
    apart = {"off": ["rows of a product"]}
    journey = wb.trace(chain, torch.arange(64), machine=machine(memory=memory, **line), fusion=apart)
    storages = journey.scheduled.record.launches.storages
    assert len({each.address for each in storages}) == 6 < len(storages) == 15
    assert remote(journey) > 0
    pages = journey.simulated.placement.set_index("tensor").filter(like="pages_on")
    assert pages.sum(axis=1).drop("i").tolist() == [each.bytes // 4096 for each in storages if each.value != "i"]
    assert pages.loc["embedding"].tolist() == [4] * 4  # who writes a page first has it
    assert pages.filter(like="softmax", axis=0).to_numpy().tolist() == [[1] * 4] * 6
    with pytest.raises(BadOption, match="'table_weight' is placed twice"):
        _ = journey.with_(placement={"table.weight": 1, "table_weight": 0}).scheduled
