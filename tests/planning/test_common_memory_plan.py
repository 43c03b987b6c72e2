"""Plans of the tensors that stay in the common memory, by the user and by the heuristic, and their effects."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from simulator import CommonMemoryFull
from simulator.analysis.stalls import channels_of
from simulator.records.spans import Via
from workbench import Journey
from workbench.ground.errors import BadOption, EmptyTable, NoCommonMemory
from workbench.scheduling.planning import common_memory_plan

WEIGHT, ROWS = 64 * 64 * 4, 32 * 64 * 4
"""Bytes of the weight and of the rows that go through it."""


class Reused(torch.nn.Module):
    """One layer three times, and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.relu(self.fc(x))
        return torch.softmax(x, -1)


@pytest.fixture(scope="module")
def plain() -> Journey:
    return wb.trace(Reused(), torch.randn(32, 64), machine="tpu-v4", fusion={"off": ["rows of a product"]})


def dram_bytes(journey: Journey) -> tuple[int, int]:
    counters = journey.simulated.record.counters
    return counters["dram_read_bytes"], counters["dram_write_bytes"]


def planned_bytes(journey: Journey) -> tuple[int, int]:
    plan = journey.scheduled.residence
    kept = plan[plan.resident]
    return int(kept.saved_read_bytes.sum()), int(kept.saved_write_bytes.sum())


def test_dram_bytes_fall_by_exactly_the_planned_amount(plain: Journey) -> None:
    kept = plain.with_(resident="auto")
    kept.simulated.record.invariants()
    # the weight is read once instead of three times; three results between kernels are neither written nor read
    assert planned_bytes(kept) == (2 * WEIGHT + 3 * ROWS, 3 * ROWS)
    before, after = dram_bytes(plain), dram_bytes(kept)
    assert tuple(b - a for b, a in zip(before, after, strict=True)) == planned_bytes(kept)
    assert kept.simulated.cycles < plain.simulated.cycles


def test_a_user_names_what_stays(plain: Journey) -> None:
    kept = plain.with_(resident=["fc.weight"])
    assert dram_bytes(kept) == (dram_bytes(plain)[0] - 2 * WEIGHT, dram_bytes(plain)[1])
    plan = kept.scheduled.residence.set_index("tensor")
    assert plan[plan.resident].path.tolist() == ["fc.weight"]
    (weight,) = plan[plan.resident].to_dict("records")
    assert (weight["first"], weight["last"], weight["in_dram"], weight["why"]) == (0, 2, True, "asked for")
    other = plan[~plan.resident]
    assert set(other.why) == {"not asked for"}
    assert other.in_dram.all()  # also what lies nowhere else than in the common memory once it is resident
    assert other.saved_read_bytes.sum() == other.saved_write_bytes.sum() == 0
    # what is possible stands apart: three results between kernels, each written and read once
    assert (other.would_save_read_bytes.sum(), other.would_save_write_bytes.sum()) == (3 * ROWS, 3 * ROWS)
    assert weight["would_save_read_bytes"] == weight["saved_read_bytes"] == 2 * WEIGHT
    with pytest.warns(EmptyTable, match=r"there is no plan of the common memory; j.with_\(resident='auto'\)"):
        assert plain.scheduled.residence.empty


def test_a_tensor_made_and_used_while_resident_never_sees_dram(plain: Journey) -> None:
    kept = plain.with_(resident=["relu"])
    assert dram_bytes(kept) == tuple(size - ROWS for size in dram_bytes(plain))
    assert not kept.scheduled.residence.set_index("tensor").loc["relu", "in_dram"]
    events = kept.simulated.events
    assert events[events.via == "common"].groupby("kind").bytes.sum().to_dict() == {"LOAD": ROWS, "STORE": ROWS}


def test_plans_share_kernels_and_change_no_numbers(plain: Journey) -> None:
    assert plain.with_(resident="auto").check().ok
    kept = plain.with_(resident=["fc.weight"])  # which the first launch brings from DRAM, with the kernel of all three
    assert kept.scheduled.kernels[0].record is plain.scheduled.kernels[0].record
    assert kept.check().ok
    assert kept.with_(resident=None).simulated.cycles == plain.simulated.cycles


def test_a_small_common_memory_takes_what_saves_most(plain: Journey) -> None:
    machine = wb.machine("tpu-v4", common_memory_bytes=2 * WEIGHT)  # half of each block is padding
    kept = plain.with_(machine=machine, resident="auto")
    plan = kept.scheduled.residence
    # both save twice their bytes: the rows in two launches each, the weight in three
    assert set(plan[plan.resident].tensor) == {"relu", "relu_1", "relu_2"}
    refused = plan[plan.path == "fc.weight"].why.item()
    assert refused == "tensors with a larger saving a byte leave 0 bytes in launch 1"
    assert dram_bytes(plain)[0] - dram_bytes(kept)[0] == planned_bytes(kept)[0] == 3 * ROWS
    tiny = plain.with_(machine=machine.with_(common_memory_bytes=100), resident="auto").scheduled.residence
    assert not tiny.resident.any()
    assert "larger than the common memory (100 bytes)" in set(tiny.why)


def test_a_plan_is_refused_where_it_cannot_be_kept(plain: Journey) -> None:
    with pytest.raises(CommonMemoryFull, match="the machine has 100"):
        _ = plain.with_(machine=wb.machine("tpu-v4", common_memory_bytes=100), resident=["fc.weight"]).scheduled
    with pytest.raises(CommonMemoryFull, match="has none"):
        wb.simulate(plain.lowered, plain.with_(resident=["fc.weight"]).scheduled, machine="tpu-v3")
    with pytest.warns(NoCommonMemory, match="'tpu-v3' has no common memory") as told:
        none = plain.with_(machine="tpu-v3", resident="auto")
    assert [each.filename for each in told] == [__file__]
    with pytest.warns(NoCommonMemory):
        _ = wb.trace(torch.relu, torch.ones(4), resident="auto")
    assert "the machine has no common memory" in set(none.scheduled.residence.why)
    with pytest.raises(BadOption, match=r"no tensor 'fc.wieght' in DRAM; did you mean 'fc.weight'\?"):
        _ = plain.with_(resident=["fc.wieght"]).scheduled
    with pytest.raises(BadOption, match=r"for one tensor write \['fc.weight'\]"):
        plain.with_(resident="fc.weight")


def test_tensors_that_are_looked_into_are_not_kept() -> None:
    table = torch.nn.Embedding(16, 64)
    journey = wb.trace(lambda i: table(i) + table(i + 1), torch.arange(8), machine="tpu-v4", resident="auto")
    plan = journey.scheduled.residence.set_index("path")
    assert "single elements" in plan.loc["table.weight"].why
    journey.simulated.record.invariants()


def test_a_saved_journey_keeps_its_plan(plain: Journey, tmp_path: Path) -> None:
    kept = plain.with_(resident=["fc.weight"])
    kept.save(tmp_path / "j.wb")
    loaded = wb.load(tmp_path / "j.wb")
    assert loaded.scheduled.record.residence == kept.scheduled.record.residence
    assert loaded.simulated.record.digest() == kept.simulated.record.digest()
    loaded.simulated.record.invariants()
    again = wb.simulate(loaded.lowered, loaded.scheduled, machine="tpu-v4")
    assert again.record.digest() == kept.simulated.record.digest()
    assert loaded.with_(simulate_seconds=100).simulated.record.counters == kept.simulated.record.counters


def test_with_banked_memory_only_what_goes_to_dram_is_asked_of_the_channels(plain: Journey) -> None:
    machine = wb.machine("tpu-v4", memory="banked")
    kept = plain.with_(machine=machine, resident="auto")
    trace = kept.simulated.record
    trace.invariants()
    moved = trace.requested[trace.via == Via.DRAM].sum()
    assert moved == 2 * trace.bytes[trace.via == Via.DRAM].sum(), "blocks have 128 columns, and 64 are in use"
    assert sum(row["reads"] + row["writes"] for row in channels_of(trace)) * machine.dram.request_bytes == moved


def test_the_plan_is_told_in_text_and_html(plain: Journey) -> None:
    kept = plain.with_(resident="auto")
    assert kept.scheduled.text().startswith(
        f"// common memory: 4 of 6 tensors stay, at most {2 * (WEIGHT + 2 * ROWS):,} bytes at once; "
        f"this saves {2 * WEIGHT + 6 * ROWS:,} bytes of DRAM\n//   fc.weight: {2 * WEIGHT:,} bytes, launches 0 to 2"
    )
    assert "4 of 6 tensors stay" in kept.scheduled.html()
    assert f"common memory {2 * WEIGHT + 6 * ROWS:,} bytes" in kept.simulated.text()
    assert "common memory" not in plain.simulated.html() + plain.scheduled.html()
    assert "common memory bytes" in kept.simulated.html()


def test_a_kernel_is_tiled_for_what_the_common_memory_serves() -> None:
    """Loads and stores are on two buses at once, so tiles are more and smaller."""

    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).sum(0)

    plain = wb.trace(twice, torch.randn(512, 512), machine="tpu-v4", fusion="none")
    names = [launch.name for launch in plain.scheduled.record.launches.launches]
    value = plain.scheduled.record.launches.launches[0].arguments[-1]
    kept = plain.with_(resident=[value])
    assert common_memory_plan.served(plain.scheduled.record) == {}
    assert common_memory_plan.served(kept.scheduled.record) == {names[0]: frozenset({1}), names[1]: frozenset({0})}
    first, second = kept.scheduled.record.kernels[:2]
    assert "in the common memory" in first.mapping.reason and "in the common memory" in second.mapping.reason
    tiled = {kernel.kernel: kernel.mapping for kernel in plain.scheduled.record.kernels}
    as_before = {name: {"tile": tiled[name].tile, "order": tiled[name].order} for name in names[:2]}
    assert kept.simulated.cycles < kept.with_(mapping=as_before).simulated.cycles
    kept.simulated.record.invariants()


def test_a_loaded_plan_leaves_no_tiles_behind(tmp_path: Path) -> None:
    """Tiles of a file are for what its plan serves; with another plan the others are made."""
    made = wb.trace(
        lambda x, w, v: torch.relu(x @ w) @ v,
        torch.randn(256, 512),
        torch.randn(512, 512),
        torch.randn(512, 256),
        machine="tpu-v4",
    )
    made.with_(resident="auto").save(tmp_path / "kept.journey")
    for resident in (None, ["x"], "auto"):
        again = wb.load(tmp_path / "kept.journey").with_(resident=resident)
        assert again.simulated.cycles == made.with_(resident=resident).simulated.cycles
