"""The roofline: operations, bytes and roofs are those that one counts by hand, and the picture holds them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.fresh_process import python
from tests.views.test_stage_html import svgs
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.roofline import WHOLE, Point, Roofline
from workbench.explaining.views.timelines.roofline_picture import Chart, Roof, chart, decades, number_text
from workbench.ground.errors import EmptyTable, HostRoute

X = torch.randn(64, 64)
ROW_AFTER_ROW = wb.machine("tpu-v3", dram_tile="")
"""Whose tensors do not lie in blocks."""


def traced(function: object, *inputs: object, machine: str | wb.Machine = "tpu-v3", **options: object) -> wb.Journey:
    return wb.trace(function, *inputs, machine=machine, **options)  # type: ignore[arg-type]


def rows_of(journey: wb.Journey) -> dict[str, dict[str, object]]:
    return {row["kernel"]: row for row in journey.simulated.roofline.table.to_dict("records")}


@pytest.fixture(scope="module")
def strided() -> wb.Journey:
    return traced(lambda x: x[:, ::16].contiguous(), torch.randn(512, 512), machine=ROW_AFTER_ROW)


@pytest.fixture(scope="module")
def two() -> wb.Journey:
    apart = {"off": ["rows of a product"]}
    return traced(lambda x, w: torch.softmax(x @ w, 1), X, torch.randn(64, 64), fusion=apart)


def test_a_product_in_one_tile_has_the_figures_one_counts_by_hand():
    """64 x 64 x 64 multiply-adds; two matrices of 16,384 bytes in, one out; 32,768 products a cycle, and of 512 bytes a
    cycle the 84% that streams reach.
    """
    journey = traced(torch.mm, X, X + 1, machine=ROW_AFTER_ROW)
    row = rows_of(journey)["k0_mm"]
    cycles = journey.simulated.kernel_cycles()["k0_mm"]
    assert (row["macs"], row["element_ops"], row["operations"]) == (64**3, 0, 64**3)
    assert row["bytes"] == row["bytes_moved"] == row["bytes_least"] == 3 * 16_384
    assert row["intensity"] == row["intensity_least"] == 64**3 / 49_152
    assert (row["cycles"], row["ops_per_cycle"]) == (cycles, 64**3 / cycles)
    needed = 49_152 / (0.84 * 512)  # the arrays need 8
    assert row["ceiling"] == "memory" and row["share"] == pytest.approx(needed / cycles)
    assert row["ceiling_ops_per_cycle"] == pytest.approx(64**3 / needed)


def test_in_blocks_the_memory_moves_their_padding_too():
    """Each matrix fills 64 of the 128 columns of its blocks. What is least needed has no padding."""
    row = rows_of(traced(torch.mm, X, X + 1))["k0_mm"]
    assert row["bytes"] == row["bytes_least"] == 3 * 16_384 and row["bytes_moved"] == 3 * 32_768
    assert (row["intensity"], row["intensity_least"]) == (64**3 / 98_304, 64**3 / 49_152)
    needed = 98_304 / (0.84 * 512)
    assert row["ceiling"] == "memory" and row["share"] == pytest.approx(needed / row["cycles"])  # type: ignore[operator]


def test_single_elements_of_blocks_are_moved_in_whole_blocks(strided: wb.Journey):
    """Every column is in a block with columns that are asked for. The result has 512 columns, and no padding."""
    row = rows_of(strided.with_(machine="tpu-v3"))["k0_copy"]
    assert row["bytes_moved"] == 4 * 512 * 512 + 4 * 512 * 32 and row["ceiling"] == "memory"


def test_where_the_arrays_are_small_they_are_the_roof():
    """64 products a cycle: 4,096 cycles; the memory needs 32 bytes a cycle less."""
    journey = traced(torch.mm, X, X + 1, machine="edge-8x8")
    row = rows_of(journey)["k0_mm"]
    assert (row["ceiling"], row["ceiling_ops_per_cycle"]) == ("arrays", 64.0)
    assert row["share"] == 4096 / row["cycles"] and row["bytes_moved"] >= row["bytes_least"] == 49_152  # type: ignore[operator]


def test_a_relu_has_an_operation_for_each_eight_bytes():
    row = rows_of(traced(torch.relu, torch.randn(256, 256)))["k0_relu"]
    assert (row["macs"], row["element_ops"], row["bytes_moved"]) == (0, 65_536, 524_288)
    assert row["intensity"] == row["intensity_least"] == 1 / 8
    assert row["ceiling"] == "memory" and row["ceiling_ops_per_cycle"] == pytest.approx(64 * 0.84)
    assert row["share"] == pytest.approx(1024 / 0.84 / row["cycles"])  # type: ignore[operator]


@pytest.mark.test_all
def test_many_operations_an_element_are_under_the_vector_unit_s_roof():
    """64 vectors of 1,024 elements, a special function each cycle; the bytes need 1,024 cycles."""

    def powers(x: torch.Tensor) -> torch.Tensor:
        for _ in range(24):
            x = torch.exp(x * 0.1)
        return x

    rows = rows_of(traced(powers, torch.randn(256, 256)))
    (row,) = (each for name, each in rows.items() if name != WHOLE)
    assert row["element_ops"] == 48 * 65_536 and row["ceiling"] == "vector unit"
    assert row["share"] == pytest.approx(24 * 64 / row["cycles"])  # type: ignore[operator]


def test_a_copy_of_single_elements_is_under_the_roof_of_short_transfers(strided: wb.Journey):
    """A queue moves 4 of 512 bytes a cycle, and there are 8; each element is a request of 32 bytes."""
    row = rows_of(strided)["k0_copy"]
    elements = 512 * 32
    assert (row["operations"], row["intensity"], row["ops_per_cycle"]) == (0, 0, 0)
    assert row["bytes_moved"] == 32 * elements + 4 * elements and row["bytes_least"] == 8 * elements
    least = (elements + 4 * elements / 512) / 8
    assert (row["ceiling"], row["share"]) == ("short transfers", least / row["cycles"])  # type: ignore[operator]
    loads = strided.simulated.transfers.set_index("kind").loc["LOAD"]
    assert (loads["bytes"], loads["moved"], loads["run"], loads["stretch"]) == (4 * elements, 32 * elements, 4, 4)
    told = strided.simulated.roofline.text()
    assert "not in the picture, since no operations, only bytes: k0_copy" in told
    assert "k0_copy" in strided.simulated.roofline.html()


def test_the_whole_needs_inputs_weights_and_results_once(two: wb.Journey):
    rows = rows_of(two)
    whole = rows.pop(WHOLE)
    assert len(rows) == 2
    assert whole["bytes_least"] == 3 * 16_384
    assert sum(row["bytes_least"] for row in rows.values()) == 5 * 16_384  # type: ignore[misc]  # what lies between twice
    assert whole["operations"] == sum(row["operations"] for row in rows.values())  # type: ignore[misc]
    assert whole["bytes_moved"] == sum(row["bytes_moved"] for row in rows.values())  # type: ignore[misc]
    assert whole["cycles"] == two.simulated.cycles


def test_what_is_changed_in_place_is_read_and_written_once():
    def grow(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    assert rows_of(traced(grow, X.clone()))[WHOLE]["bytes_least"] == 3 * 16_384


def test_rows_that_are_looked_up_are_all_that_is_needed_of_a_table():
    journey = traced(lambda table, at: table[at], torch.randn(1000, 64), torch.tensor([3, 5, 8, 900]))
    rows = rows_of(journey)
    assert {row["bytes_least"] for row in rows.values()} == {2 * 4 * 256 + 4 * 8}
    gathers = journey.simulated.transfers.set_index("kind").loc["GATHER"]
    assert (gathers["bytes"], gathers["run"], gathers["stretch"]) == (1024, 256, 0)


def test_a_row_that_all_rows_share_counts_once():
    (row, _) = rows_of(traced(lambda x, y: x + y.expand(64, 64), X, torch.randn(64))).values()
    assert row["bytes_least"] == 2 * 16_384 + 256


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("machine", ["tpu-v2", "tpu-v3", "tpu-v4", "edge-8x8"])
def test_no_kernel_is_above_its_roof(machine: str):
    def mixed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w).t().contiguous() @ w, 1)

    journey = traced(mixed, torch.randn(96, 96), torch.randn(96, 96), machine=machine)
    for each in (journey, journey.with_(machine=journey.machine.with_(cores=2))):
        table = each.simulated.roofline.table
        assert (table["share"] > 0).all() and (table["share"] <= 1).all()
        assert (table["ops_per_cycle"] <= table["ceiling_ops_per_cycle"] * (1 + 1e-12)).all()
        assert (table["intensity"] <= table["intensity_least"] * (1 + 1e-12)).all()
        assert set(table["ceiling"]) <= {"arrays", "vector unit", "memory", "short transfers"}
        assert table["cycles"].iloc[-1] == each.simulated.cycles


def test_steps_on_the_host_are_left_out_and_said():
    with pytest.warns(HostRoute):
        journey = traced(lambda x: torch.relu(torch.lgamma(torch.relu(x) + 1)), X)
        rows = rows_of(journey)
    hosted = journey.simulated.kernel_cycles()
    host = sum(cycles for name, cycles in hosted.items() if name.startswith("host"))
    assert not any(name.startswith("host") for name in rows) and host > 0
    assert rows[WHOLE]["cycles"] == journey.simulated.cycles - host
    assert f"left out: 1 step on the host, {host:,} cycles" in journey.simulated.roofline.text()
    assert f"left out: 1 step on the host, {host:,} cycles" in journey.simulated.roofline.html()


def test_a_journey_from_a_file_has_the_same(two: wb.Journey, tmp_path: Path):
    two.save(tmp_path / "two")
    loaded = wb.load(tmp_path / "two")
    assert loaded.simulated.roofline.table.equals(two.simulated.roofline.table)
    assert loaded.simulated.roofline.html() == two.simulated.roofline.html()
    assert loaded.simulated.transfers.equals(two.simulated.transfers)
    assert loaded.simulated.events.equals(two.simulated.events)


def test_what_runs_nothing_has_an_empty_roofline():
    roofline = traced(lambda x: x.t(), X).simulated.roofline
    with pytest.warns(EmptyTable, match="nothing runs on the machine"):
        assert len(roofline.table) == 0 and "share" in roofline.table.columns
    assert NOTHING in roofline.text() and NOTHING in roofline.html()
    assert repr(roofline) == "RooflineView(nothing runs on tpu-v3)"


def test_the_picture_has_a_mark_for_each_kernel_and_says_what_axes_are(two: wb.Journey):
    html = two.simulated.roofline.html()
    (picture,) = svgs(html)
    titles = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}title")] or [
        each.text or "" for each in picture.iter("title")
    ]
    assert [title.partition(":")[0] for title in titles].count(WHOLE) == 1 and len(titles) == 3
    assert "operations for each byte of DRAM" in html and "operations a cycle" in html
    for line in ("arrays: 32,768", "vector unit: 2,048", "memory: 430 bytes a cycle"):
        assert line in html
    assert two.simulated.roofline._repr_mimebundle_()["text/html"] == html


@pytest.mark.test_all
def test_table_and_html_need_no_drawing_library(two: wb.Journey, tmp_path: Path):
    two.save(tmp_path / "two")
    code = (
        "import sys, workbench as wb\n"
        f"found = wb.load({str(tmp_path / 'two')!r}).simulated.roofline\n"
        "found.table, found.html(), found.text()\n"
        "print('matplotlib' in sys.modules)"
    )
    assert python("-c", code).strip() == "False"


POINT = Point("k", 1, 1000, 0, 512_000, 64_000, 64_000, 64_000, 10.0, 10.0, (0.0, 250.0, 125.0, 1.0))
PEAKS = {"arrays": 32_768.0, "vector unit": 2048.0, "memory": 512.0}


def line_named(made: Chart, roof: str) -> Roof:
    (line,) = (line for line in made.lines if line.roof == roof)
    return line


def test_the_roofs_meet_where_the_memory_keeps_the_units_busy():
    made = chart(Roofline("m", PEAKS, (POINT,), POINT, 0, 0), 800, 400)
    assert line_named(made, "memory").end == (64, 32_768) == line_named(made, "arrays").start
    assert line_named(made, "vector unit").start == (4, 2048)
    x, y = line_named(made, "memory").start
    assert y / x == pytest.approx(512)
    (mark,) = made.marks
    point = mark.point
    assert (point.intensity, mark.ring, point.attained, point.ceiling_attained) == (8, 8, 512, 2048)
    assert made.place(made.x.low, made.y.high) == pytest.approx((0, 400))


def test_short_transfers_have_a_line_of_their_own_where_they_are_slower():
    slow = replace(POINT, kernel="slow", stretches=16_000.0, least=(0.0, 100.0, 125.0, 500.0))
    made = chart(Roofline("m", PEAKS, (POINT, slow), replace(POINT, kernel=WHOLE), 0, 0), 800, 400)
    line = line_named(made, "short transfers")
    assert line.end[1] / line.end[0] == pytest.approx(128)  # 64,000 bytes in 500 cycles
    assert line.label == "4 bytes at a time: 128 bytes a cycle"
    assert slow.ceiling == "short transfers" and slow.share == 0.5 and slow.ceiling_attained == 1024


def test_names_stand_apart_and_inside_of_the_picture():
    """Kernels side by side; of two on one place the name has both, and of many only those of most cycles have one."""
    points = tuple(
        replace(POINT, kernel=f"k{number}_some_kernel", cycles=1000 + 20 * number, macs=40_000 * number)
        for number in range(12)
    )
    twin = replace(points[11], kernel="k12_twin")
    made = chart(Roofline("m", PEAKS, (*points, twin), replace(POINT, kernel=WHOLE), 0, 0), 860, 430)
    boxes = list[tuple[float, float, float, float]]()
    for mark in made.marks:
        if mark.name:
            x, y = made.at(mark.point)
            left, low = x + mark.label[0], y + mark.label[1]
            boxes.append((left, low, left + 6.6 * len(mark.name), low + 13))
    assert len(boxes) == 6 and "k11_some_kernel, k12" in {mark.name for mark in made.marks}
    assert all(box[0] >= 0 and box[2] <= 860 and box[1] >= 0 and box[3] <= 430 for box in boxes)
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_ticks_are_powers_of_ten():
    assert decades((0.02, 1500)) == [0.1, 1, 10, 100, 1000]
    assert [number_text(each) for each in (0.01, 1.0, 1000.0)] == ["0.01", "1", "1,000"]
    assert all(math.isclose(math.log10(each) % 1, 0, abs_tol=1e-9) for each in decades((1e-3, 1e6)))
