"""`j.simulated.scratchpad`: what lay where from when to when, as a table and a picture; and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes

import workbench as wb
from simulator.errors import DoesNotFit
from tests.programs import PROGRAMS
from workbench.explaining.views.scratchpads.scratchpad import INSIDE, Band, Held, Occupancy
from workbench.explaining.views.scratchpads.scratchpad_picture import panels, scratchpad_picture
from workbench.ground.basics.colours import HELD
from workbench.ground.basics.picture import Box, Told
from workbench.ground.errors import BadArgument, BadOption, EmptyTable
from workbench.models.resnet import BasicBlock

PLACE = ["buffer", "tensor", "slot", "bytes", "address", "role"]


@pytest.fixture(scope="module")
def relu() -> wb.Journey:
    """Four tiles of 16 rows, through two slots."""
    mapping = {"*": {"tile": {"d0": 16}}}
    return wb.trace(lambda x: torch.relu(x), torch.randn(64, 256), mapping=mapping, machine="edge-8x8")


@pytest.fixture(scope="module")
def product() -> wb.Journey:
    """2 x 2 tiles of the result, each over two steps."""

    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    mapping = {"*": {"tile": {"m": 32, "n": 32, "k": 32}}}
    return wb.trace(product, torch.randn(64, 64), torch.randn(64, 64), mapping=mapping, machine="edge-8x8")


def rows(table: pd.DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table.itertuples(index=False)]


def test_a_double_buffered_kernel_row_by_row(relu: wb.Journey):
    table = relu.simulated.scratchpad.table
    tile = 16 * 256 * 4
    assert rows(table[PLACE]) == [
        ("buf0", "x", 0, tile, 0, "loaded"),
        ("buf0", "x", 0, tile, 0, "loaded"),
        ("buf0", "x", 1, tile, tile, "loaded"),
        ("buf0", "x", 1, tile, tile, "loaded"),
        ("buf1", "relu", 0, tile, 2 * tile, "stored"),
        ("buf1", "relu", 0, tile, 2 * tile, "stored"),
        ("buf1", "relu", 1, tile, 3 * tile, "stored"),
        ("buf1", "relu", 1, tile, 3 * tile, "stored"),
    ]
    assert set(table.kernel) == {"k0_relu"} and set(table.launch) == {0} and set(table.core) == {0}
    spans = relu.simulated.events.set_index("instr")
    for tile, (loaded, stored) in enumerate([(0, 4), (2, 6), (1, 5), (3, 7)]):  # the rows above, tile by tile
        load, vector, store = (spans.loc[3 * tile + step] for step in range(3))
        assert rows(table.loc[[loaded], ["start", "read", "end"]]) == [(load.start, vector.start, vector.end)]
        assert rows(table.loc[[stored], ["start", "read", "end"]]) == [(vector.start, store.start, store.end)]


def test_a_product_row_by_row(product: wb.Journey):
    table = product.simulated.scratchpad.table
    tile = 32 * 32 * 4
    places = table[PLACE].drop_duplicates()
    assert rows(places) == [
        ("buf0", "matmul", 0, tile, 0, "stored"),
        ("buf0", "matmul", 1, tile, tile, "stored"),
        ("buf1", "x", 0, tile, 2 * tile, "loaded"),
        ("buf1", "x", 1, tile, 3 * tile, "loaded"),
        ("buf2", "w", 0, tile, 4 * tile, "loaded"),
        ("buf2", "w", 1, tile, 5 * tile, "loaded"),
    ]
    assert table.tensor.value_counts().to_dict() == {"x": 8, "w": 8, "matmul": 4}
    trace = product.simulated.trace  # a sum begins with its first product, and is not needed when it is stored
    first = table[table.tensor == "matmul"].sort_values("start").iloc[0]
    assert (first.start, first.read, first.end) == (trace.start[2], trace.start[6], trace.end[6])


def test_slots_take_turns(relu: wb.Journey, product: wb.Journey):
    for journey in (relu, product):
        table = journey.simulated.scratchpad.table
        for _, mine in table.groupby("tensor"):
            assert mine.sort_values("start").slot.tolist() == [step % 2 for step in range(len(mine))]
    table = relu.simulated.scratchpad.table
    loaded = table[table.tensor == "x"].sort_values("start")
    assert loaded.start.iloc[1] < loaded.end.iloc[0]  # the next tile comes while this one is worked on


def test_it_is_the_buffers_of_the_program(product: wb.Journey):
    (kernel,) = product.scheduled.kernels
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    for row in product.simulated.scratchpad.record.held:
        buffer = buffers[row.buffer]
        assert row.address == buffer.offset + row.slot * buffer.slot_bytes and row.bytes == buffer.slot_bytes
    assert product.simulated.scratchpad.record.peak == kernel.program.scratchpad_bytes


def overlaps(held: tuple[Held, ...]) -> Iterator[tuple[Held, Held]]:
    """Two things in one place at one time."""
    ordered = sorted(held, key=lambda each: each.start)
    for number, each in enumerate(ordered):
        for other in ordered[number + 1 :]:
            if other.start >= each.end:
                break
            apart = each.address + each.bytes <= other.address or other.address + other.bytes <= each.address
            if each.core == other.core and not apart:
                yield each, other


def test_an_overlap_would_be_found(relu: wb.Journey):
    held = relu.simulated.scratchpad.record.held
    assert not list(overlaps(held))
    moved = replace(held[-1], address=held[-1].address - 1)
    assert list(overlaps((*held[:-1], moved)))
    assert list(overlaps((replace(held[0], end=held[1].start + 1), *held[1:])))


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_two_things_lie_in_one_place_at_one_time(name: str):
    first = PROGRAMS[name].traced(machine="edge-8x8")
    for journey in (first, first.with_(machine="tpu-v3")):
        view = journey.simulated.scratchpad.record
        assert view.held and not list(overlaps(view.held))
        assert view.peak <= view.capacity and view.begin >= 0 and view.end <= journey.simulated.cycles
        bands = {band.launch: band for band in view.bands}
        for each in view.held:
            assert bands[each.launch].begin <= each.start <= each.read <= each.end <= bands[each.launch].end
            assert each.tensor and each.start < each.end


def test_buffers_that_share_an_address_hold_something_in_turn():
    """Three loops over long rows, each with buffers of its own, where not all of them fit side by side."""
    mapping = {"*": {"tile": {"d0": 4, "d1": 3500}}}
    journey = wb.trace(lambda x: torch.softmax(x, 1), torch.randn(4, 40_000), machine="edge-8x8", mapping=mapping)
    view = journey.simulated.scratchpad.record
    places = {(each.buffer, each.address, each.address + each.bytes) for each in view.held}
    shared = [(a, b) for a, low, high in places for b, start, end in places if a < b and low < end and start < high]
    assert shared and not list(overlaps(view.held))


@pytest.mark.test_all
def test_tensors_go_by_the_users_names_and_intermediates_by_their_nodes():
    block = BasicBlock(16, 16).eval()
    view = wb.trace(block, torch.randn(1, 16, 12, 12), machine="tpu-v3").simulated.scratchpad
    table = view.table
    assert {"x", "conv1.weight", "conv2.weight"} <= set(table[table.role == "loaded"].tensor)
    assert {"conv2d", "conv2d_1"} <= set(table[table.role == INSIDE].tensor)


def test_indices_are_not_what_is_stored():
    given = [torch.randn(20, 16), torch.randint(0, 20, (5,)), torch.randn(5, 16)]
    journey = wb.trace(lambda x, i, v: x.index_put((i,), v), *given, machine="edge-8x8")
    table = journey.simulated.scratchpad.table.set_index("tensor")
    assert table.loc["i", "role"] == "loaded" and table.loc["v, index_put", "role"] == "loaded, stored"


# -- one launch -------------------------------------------------------------------------------------------------------


def test_one_launch_by_its_name_or_number():
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) * 2, torch.relu(x + 1)

    journey = wb.trace(twice, torch.randn(32, 32), machine="edge-8x8", fusion="none")
    whole = journey.simulated.scratchpad
    launches = journey.scheduled.record.launches.launches
    number = next(number for number, launch in enumerate(launches) if launch.name != launch.kernel)
    name, shared = launches[number].name, launches[number].kernel
    one = whole.of(name)
    assert one.table.equals(whole.of(number).table) and set(one.table.launch) == {number}
    assert set(one.table.kernel) == set(whole.of(shared).table.kernel) == {shared}
    assert set(whole.of(shared).table.launch) == {[launch.name for launch in launches].index(shared)}
    begin, end = journey.simulated.trace.kernel_spans[number][1:]
    assert (one.record.begin, one.record.end) == (begin, end)
    with pytest.raises(BadOption, match=rf"of\('{name}x'\): no kernel has that name; did you mean '{name}'\?"):
        whole.of(f"{name}x")
    with pytest.raises(BadArgument, match=r"kernel=1\.5"):
        whole.of(1.5)  # pyright: ignore
    with pytest.raises(BadOption, match=r"no launch of a kernel 7; the launches are 0, 1"):
        whole.of(7)


def test_a_loaded_journey_shows_the_same(product: wb.Journey, tmp_path: Path):
    product.save(tmp_path / "product.journey")
    loaded, mine = wb.load(tmp_path / "product.journey").simulated.scratchpad, product.simulated.scratchpad
    assert loaded.table.equals(mine.table) and loaded.html() == mine.html() and loaded.text() == mine.text()


def test_where_nothing_runs_nothing_lies():
    journey = wb.trace(lambda x: x.t(), torch.randn(4, 4))
    assert "the scratchpad was empty" in journey.simulated.scratchpad.html()
    with pytest.warns(EmptyTable, match="the scratchpad was empty"):
        assert len(journey.simulated.scratchpad.table) == 0
    journey.simulated.scratchpad.plot()


# -- pictures ---------------------------------------------------------------------------------------------------------


def svg(text: str) -> ElementTree.Element:
    (found,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    return ElementTree.fromstring(found)


def test_the_picture_has_a_bar_for_each_time_with_its_slot_and_the_capacity(relu: wb.Journey):
    scratchpad = relu.simulated.scratchpad
    drawn = svg(scratchpad.html())
    bars = [group for group in drawn.iter("g") if " in buf" in (group.findtext("title") or "")]
    assert len(bars) == len(scratchpad.record.held) == 8
    texts = ["".join(text.itertext()).strip() for text in drawn.iter("text")]
    for wanted in ("capacity 256 KiB", "k0_relu", "48 KiB", "cycles"):
        assert wanted in texts
    assert sum(text.startswith("x buf0[") for text in texts) == 2  # a line of text for each slot
    told = bars[0].find("title")
    assert told is not None and told.text and "x in buf0, slot 0, addresses 0 to 16,384; cycles 0 to" in told.text


def boxes(ax: Axes) -> list[tuple[float, float]]:
    """The left edge of each box above the axes, and how much of its colour it has."""
    drawn = [each for each in ax.collections if each.get_zorder() >= 2]
    return [
        (path.vertices[:, 0].min(), face[3])
        for each in drawn
        for path, face in zip(each.get_paths(), each.get_facecolor(), strict=False)
    ]


def test_both_painters_draw_the_same_bars(relu: wb.Journey):
    for style, ink in (("light", "#222222"), ("dark", "#E6E8EB")):
        ax = relu.simulated.scratchpad.plot(style=style, width=8)
        held = relu.simulated.scratchpad.record.held
        for share, starts in ((1, [each.read for each in held]), (HELD, [each.start for each in held])):
            assert sorted(left for left, opacity in boxes(ax) if opacity == pytest.approx(share)) == sorted(starts)
        assert ax.xaxis.get_label().get_color() == ink
    with pytest.raises(BadOption, match="width=0"):
        relu.simulated.scratchpad.plot(width=0)
    with pytest.raises(BadOption, match="style='green' is unknown"):
        relu.simulated.scratchpad.plot(style="green")


def one_slot(times: list[tuple[int, int]]) -> Occupancy:
    held = tuple(Held("k", 0, 0, "buf0", "x", 0, a, a, b, 0, 64, "loaded") for a, b in times)
    return Occupancy(held, (Band("k", "k", 0, 0, times[-1][1]),), 64)


def bars(view: Occupancy, width: int) -> list[tuple[str, list[Box]]]:
    """The bars of a picture: the text and the boxes of each."""
    marks = [mark for mark in scratchpad_picture(view, width).marks if isinstance(mark, Told)]
    return [(mark.title, [box for box in mark.marks if isinstance(box, Box)]) for mark in marks]


def test_what_is_shorter_than_a_pixel_is_drawn_as_its_share_of_the_time():
    crowded = one_slot([(10 * step, 10 * step + 6) for step in range(1000)])
    ((told, (box,)),) = bars(crowded, 100)
    assert told.startswith("1000 times x in buf0, slot 0") and box.opacity == pytest.approx(0.6, abs=0.001)
    drawn = bars(crowded, 100_000)
    assert len(drawn) == 1000 and {box.opacity for _, boxes in drawn for box in boxes} == {1.0}


def test_small_slots_have_room_for_a_name_and_heights_go_up_with_addresses():
    held = tuple(
        Held("k", 0, 0, f"buf{number}", f"t{number}", 0, 0, 1, 2, address, size, "loaded")
        for number, (address, size) in enumerate([(0, 1 << 20), (1 << 20, 64), ((1 << 20) + 64, 1 << 19)])
    )
    view = Occupancy(held, (Band("k", "k", 0, 0, 2),), 1 << 21)
    boxes = [box for _, (_, box) in bars(view, 700)]
    assert all(box.bottom - box.top >= 16 for box in boxes)
    assert [box.bottom for box in boxes] == sorted((box.bottom for box in boxes), reverse=True)
    assert [tick.text for tick in scratchpad_picture(view, 700).y.ticks or ()] == ["t0", "t1", "t2"]
    (panel,) = panels(view, 700)
    assert panel.broken is None and panel.capacity >= panel.scale(view.peak)


def test_the_axis_is_broken_where_most_is_never_used(relu: wb.Journey):
    view = relu.simulated.scratchpad.record  # 64 of 256 KiB
    (panel,) = panels(view, 700)
    assert panel.broken is not None and panel.scale(view.peak) < panel.broken < panel.capacity


def test_each_core_has_a_panel_of_its_own(product: wb.Journey):
    mapping = {"*": {"tile": {"m": 16, "n": 16, "k": 32}, "cores": {"m": 3}}}
    journey = product.with_(machine=wb.machine("edge-8x8", cores=3), mapping=mapping)
    scratchpad = journey.simulated.scratchpad
    assert set(scratchpad.table.core) == {0, 1, 2} and not list(overlaps(scratchpad.record.held))
    assert [panel.core for panel in panels(scratchpad.record, 700)] == [0, 1, 2]
    assert scratchpad.html().count("capacity 256 KiB") == 3 and ">core 2<" in scratchpad.html()


# -- what does not fit ------------------------------------------------------------------------------------------------


def refused(journey: wb.Journey) -> DoesNotFit:
    with pytest.raises(DoesNotFit) as caught:
        _ = journey.scheduled
    return caught.value


def test_a_mapping_that_does_not_fit_names_the_users_tensors_and_shows_what_sticks_out(product: wb.Journey):
    machine = wb.machine("edge-8x8", scratchpad_bytes_per_lane=3000)
    error = refused(product.with_(mapping={"*": {"tile": {"m": 64, "n": 64, "k": 64}}}, machine=machine))
    for line in ("buf0 (matmul): 16,384 bytes", "buf1 (x): 16,384 bytes", "buf2 (w): 16,384 bytes", "error.scratchpad"):
        assert line in str(error)
    shown = error.scratchpad
    assert "mapping= was given at" in str(error) and repr(shown).endswith("25,152 too many)")
    told = shown.table.set_index("tensor")  # pyright: ignore
    assert told.bytes_beyond.to_dict() == {"matmul": 16_384 + 8_768, "x": 0, "w": 8_768}
    assert told.loc["x", ["start", "read", "end"]].tolist() == [0, 2, 3]  # instructions: nobody ran it
    for text in ("instructions", "beyond the scratchpad", "capacity 24,000", "25,152 too many"):
        assert text in shown.html()
    (panel,) = panels(shown.record, 700)
    beyond = ((told, [box for box in boxes if box.hatch]) for told, boxes in bars(shown.record, 700))
    over = {told.split(" in ")[0]: sum(box.bottom - box.top for box in boxes) for told, boxes in beyond}
    assert over["x"] == 0 and 0 < over["w"] < over["matmul"] and panel.height > panel.capacity
    hatched = [each for each in shown.plot().collections if each.get_hatch()]
    assert sum(len(each.get_paths()) for each in hatched) == 2


def test_a_program_that_another_machine_cannot_hold_names_them_too(product: wb.Journey):
    small = wb.machine("edge-8x8", scratchpad_bytes_per_lane=1024)
    with pytest.raises(DoesNotFit, match=r"(?s)buf1 \(x\): 8,192 bytes.*error\.scratchpad") as caught:
        wb.simulate(product.lowered, product.scheduled, machine=small)
    assert caught.value.scratchpad.record.beyond == caught.value.gap
