"""The tensors in DRAM: what is shown of their orders, bytes and places."""

from __future__ import annotations

import pytest
import torch

import workbench as wb


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(lambda x, y: (x + y, x.reshape(-1) * 2), torch.randn(40, 24), torch.randn(24), machine="tpu-v3")


def test_every_storage_has_a_row(journey: wb.Journey):
    rows = journey.scheduled.storages
    assert rows.tensor.tolist() == [each.value for each in journey.scheduled.record.launches.storages]
    assert rows.path.tolist() == ["x", "y", "", ""]
    assert dict(zip(rows.tensor, rows.order, strict=True)) == {"x": (0, 1), "y": (0,), "add": (1, 0), "mul": (0,)}
    assert rows.bytes.tolist() == [40 * 24 * 4, 24 * 4, 40 * 24 * 4, 40 * 24 * 4]
    assert rows.padded_bytes.tolist() == [40 * 128 * 4, 24 * 4, 24 * 128 * 4, 40 * 24 * 4]
    plain = journey.with_(machine=wb.machine("tpu-v3", dram_tile="")).scheduled.storages
    assert plain.padded_bytes.tolist() == plain.bytes.tolist() == rows.bytes.tolist()
    assert (plain.order.map(list) == plain.order.map(sorted)).all()


def test_the_lowered_graph_tells_what_lies_in_another_order_and_what_cannot(journey: wb.Journey):
    rows = journey.lowered.layouts.set_index("tensor")
    assert rows.loc["add"].order == (1, 0) and rows.loc["add"].given_order == (0, 1)
    assert rows.loc["x"].order == rows.loc["x"].given_order == (0, 1)
    text = journey.lowered.text()
    assert "layout of tensors in DRAM: 1 of 4 have their axes in another order than in PyTorch" in text
    assert "  add: 40x24xf32, axes (1, 0): with padding 3,072 elements, not 5,120" in text
    assert "  x: 40x24xf32, as in PyTorch: 'view" in text or "  x: 40x24xf32, as in PyTorch: 'reshape" in text
    assert "layout of tensors in DRAM" in journey.lowered.html()


def test_machines_without_blocks_say_nothing_of_it(journey: wb.Journey):
    plain = journey.with_(machine=wb.machine("tpu-v3", dram_tile="")).lowered
    assert "layout" not in plain.text() and "layout of tensors" not in plain.html()
    assert set(plain.layouts.why) == {"as in PyTorch"}
