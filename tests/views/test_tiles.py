"""`j.scheduled.tiles(kernel)`: which box of which tensor each instruction touches, and how often elements are moved."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import workbench as wb
from simulator.tileprogram.program import Access, Opcode, Operand, Space
from templates.foobar import FoobarDirect, register_fake
from tests.programs import PROGRAMS
from workbench.explaining.views.scratchpads.tile_grids import coarse, grids
from workbench.explaining.views.scratchpads.tiles import Touch
from workbench.ground.errors import BadOption

TOUCHED = ["instruction", "kind", "tensor", "access", "start", "extent", "buffer", "slot"]


@pytest.fixture(scope="module")
def relu() -> wb.Journey:
    mapping = {"*": {"tile": {"d0": 24}}}
    return wb.trace(lambda x: torch.relu(x), torch.randn(64, 256), mapping=mapping, machine="edge-8x8")


@pytest.fixture(scope="module")
def product() -> wb.Journey:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    mapping = {"*": {"tile": {"m": 16, "n": 32, "k": 64}}}
    return wb.trace(product, torch.randn(32, 128), torch.randn(128, 64), mapping=mapping, machine="edge-8x8")


def rows(table: Any) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table.itertuples(index=False)]


def test_a_double_buffered_kernel_box_by_box(relu: wb.Journey):
    tiles = relu.scheduled.tiles("k0_relu")
    expected = list[tuple[object, ...]]()
    for tile, (start, extent) in enumerate([(0, 24), (24, 24), (48, 16)]):
        for step, (kind, tensor, access, buffer) in enumerate(
            [
                ("LOAD", "x", "read", "buf0"),
                ("VECTOR", "x", "read", "buf0"),
                ("VECTOR", "relu", "write", "buf1"),
                ("STORE", "relu", "write", "buf1"),
            ]
        ):
            row = 3 * tile + (0, 1, 1, 2)[step]
            expected.append((row, kind, tensor, access, (start, 0), (extent, 256), buffer, tile % 2))
    assert rows(tiles.table[TOUCHED]) == expected
    assert tiles.table.exact.all() and set(tiles.table.step) == {(1, 1)}
    assert rows(tiles.moved) == [
        ("x", "read", (64, 256), 16_384, 16_384, 1.0, 1, 0),
        ("relu", "write", (64, 256), 16_384, 16_384, 1.0, 1, 0),
    ]


def test_a_product_box_by_box(product: wb.Journey):
    tiles = product.scheduled.tiles("k0_matmul")
    table = tiles.table
    loads = table[(table.kind == "LOAD") & (table.tensor == "x")]
    assert loads.start.tolist() == [(m, k) for m in (0, 16) for _ in (0, 32) for k in (0, 64)]
    sums = table[(table.kind == "MATMUL") & (table.tensor == "matmul")]
    assert sums.start.tolist() == [(m, n) for m in (0, 16) for n in (0, 32) for _ in (0, 64)]
    assert sums.access.tolist() == ["write", "read, write"] * 4
    factors = table[(table.kind == "MATMUL") & (table.tensor == "w")]
    assert factors.start.tolist() == [(k, n) for _ in (0, 16) for n in (0, 32) for k in (0, 64)]
    assert rows(tiles.moved) == [
        ("x", "read", (32, 128), 2 * 32 * 128, 32 * 128, 2.0, 2, 0),  # once for each tile along n
        ("w", "read", (128, 64), 2 * 128 * 64, 128 * 64, 2.0, 2, 0),  # once for each tile along m
        ("matmul", "write", (32, 64), 32 * 64, 32 * 64, 1.0, 1, 0),
    ]


def test_what_overlaps_and_what_is_padding_is_counted():
    """Windows of three rows and two between them: each tile of rows needs one of the tile before."""
    weight, image = torch.randn(4, 8, 3, 3), torch.randn(1, 8, 20, 20)
    journey = wb.trace(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), image, weight, machine="tpu-v3")
    (kernel,) = journey.scheduled.kernels
    (moved,) = journey.scheduled.tiles(kernel.name).moved.set_index("tensor").loc[["x"]].itertuples()
    assert (moved.moved, moved.least, moved.padding) == (8 * 400, 8 * 400, 8 * (22 * 22 - 20 * 20))
    (rows_dim,) = [dim for dim, extent in kernel.dims.items() if extent == 20][:1]
    cut = journey.with_(mapping={"*": {"tile": {rows_dim: 10}}})
    (moved,) = cut.scheduled.tiles(kernel.name).moved.set_index("tensor").loc[["x"]].itertuples()
    assert moved.most == 2 and moved.moved == 8 * 20 * (11 + 11) and moved.least == 8 * 400
    assert moved.average == pytest.approx(22 / 20)
    table = cut.scheduled.tiles(kernel.name).table
    assert set(table[table.access == "padding"].tensor) == {"x"}


def test_which_elements_indices_mean_is_not_known():
    journey = wb.trace(
        lambda x, w: torch.nn.functional.embedding(x, w) + 1, torch.randint(0, 50, (20,)), torch.randn(50, 32)
    )
    (kernel,) = journey.scheduled.kernels
    tiles = journey.scheduled.tiles(kernel.name)
    moved = tiles.moved.set_index("tensor")
    assert moved.loc["w", "moved"] == 20 * 32 and moved.loc["w", ["least", "average", "most"]].isna().all()
    assert moved.loc["x", ["moved", "least"]].tolist() == [20, 20]
    read = tiles.table[tiles.table.tensor == "w"]
    assert not read.exact.any() and set(read.extent) == {(50, 32)}
    assert "indices choose the moved elements" in tiles.html() and "indices choose" in tiles.text()


def test_a_loop_of_single_accesses_is_tiles_of_single_rows():
    register_fake()
    with wb.ops.scope():
        wb.ops.template("aten._foobar.default")(FoobarDirect)
        journey = wb.trace(lambda x: torch.ops.aten._foobar(x), torch.randn(6, 10), machine="edge-8x8")
        (kernel,) = journey.scheduled.kernels
        tiles = journey.scheduled.tiles(kernel.name)
    assert set(tiles.table.kind) == {"DIRECT"} and tiles.table.slot.isna().all() and tiles.table.exact.all()
    assert rows(tiles.moved)[0][3:] == rows(tiles.moved)[1][3:] == (60, 60, 1.0, 1, 0)


def test_elements_that_share_places_are_counted_along_their_storage():
    journey = wb.trace(lambda x: x.unfold(1, 4, 2).sum(-1), torch.randn(8, 33), machine="edge-8x8")
    (kernel,) = journey.scheduled.kernels
    tiles = journey.scheduled.tiles(kernel.name)
    (moved,) = tiles.moved.set_index("tensor").loc[["x"]].itertuples()
    assert moved.shape == (8, 15, 4) and moved.least <= 8 * 33 and moved.most == 1
    assert "its elements share memory: the picture shows its storage" in tiles.html()


# -- the boxes of what is computed with, against numbers that are led through the scratchpad ---------------------------


def places(operand: Operand) -> np.ndarray:
    found = np.array(operand.offset)
    for extent, stride in zip(operand.shape, operand.strides, strict=True):
        found = found[..., None] + stride * np.arange(extent)
    return found.ravel()


def conv(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.nn.functional.conv2d(x, w, stride=2, padding=1))


LED = {name: (PROGRAMS[name].build(), PROGRAMS[name].inputs()) for name in ("matmul_ragged", "bmm", "both_transposed")}
LED |= {name: (PROGRAMS[name].build(), PROGRAMS[name].inputs()) for name in ("layernorm", "softmax_ragged", "linear")}
LED["conv"] = (conv, (torch.randn(2, 8, 19, 19), torch.randn(12, 8, 3, 3)))
LED["cumsum"] = (lambda x: torch.cumsum(x, 1), (torch.randn(10, 30),))
LED["flip"] = (lambda x: torch.flip(x, (1,)) * 2, (torch.randn(50, 32),))


@pytest.mark.test_all
@pytest.mark.parametrize("name", LED)
def test_what_is_computed_with_is_what_was_loaded_there(name: str):
    """Every element of every argument has a number. What a slot holds when it is read are those of the box."""
    function, inputs = LED[name]
    journey = wb.trace(function, *inputs, machine="edge-8x8")
    compared = 0
    for kernel in journey.scheduled.kernels:
        program, touches = kernel.program, defaultdict[int, list[Touch]](list)
        for touch in journey.scheduled.tiles(kernel.name).record.touches:
            touches[touch.instruction].append(touch)
        slots = {
            (number, slot): np.full(buffer.slot_bytes // buffer.element_bytes, -1)
            for number, buffer in enumerate(program.buffers)
            for slot in range(buffer.slots)
        }
        for row in range(len(program)):
            told = program.instruction(row)
            inside = [each for each in told.operands if each.space == Space.SCRATCHPAD]
            if told.opcode in (Opcode.VECTOR, Opcode.MATMUL):
                for operand, touch in zip(inside, touches[row], strict=True):
                    held = slots[operand.target, operand.slot][places(operand)]
                    if operand.access & Access.READ and touch.box and touch.box.exact and (held >= 0).all():
                        argument = program.arguments[program_argument(journey, kernel.name, touch.tensor, held)]
                        grid = np.ix_(
                            *(
                                stride * np.arange(start, end, step)
                                for stride, start, end, step in zip(
                                    argument.strides, touch.box.start, touch.box.end, touch.box.step, strict=True
                                )
                            )
                        )
                        meant = argument.offset + sum(grid) if grid else np.array(argument.offset)
                        assert set(np.unique(held % _EACH)) == set(np.unique(meant)), (row, touch)
                        compared += 1
                for operand in inside:
                    if operand.access & Access.WRITE:
                        slots[operand.target, operand.slot][places(operand)] = -1
            elif told.opcode == Opcode.LOAD:
                source, target = told.operands
                slots[target.target, target.slot][places(target)] = source.target * _EACH + places(source)
    assert compared


_EACH = 10**9


def program_argument(journey: wb.Journey, kernel: str, tensor: str, held: np.ndarray) -> int:
    """The argument whose numbers lie there; it goes by the name of the tensor."""
    (argument,) = set((held // _EACH).tolist())
    tiling = journey.scheduled.tiles(kernel).record
    assert tensor in {each.tensor for each in tiling.tensors if each.argument == argument}
    return argument


# -- pictures, names, files -------------------------------------------------------------------------------------------


def test_tensors_are_grids_in_the_order_of_the_moves(product: wb.Journey):
    x, w, result = grids(product.scheduled.tiles("k0_matmul").record)
    assert (x.tensor, x.axes, x.rows, x.columns, x.visits) == ("x", (0, 1), 32, 128, 8)
    assert [(tile.top, tile.left, tile.first, tile.again) for tile in x.tiles] == [
        (0, 0, 1, 2), (0, 64, 2, 2), (16, 0, 5, 2), (16, 64, 6, 2),
    ]  # fmt: skip
    assert [(tile.top, tile.left, tile.first) for tile in w.tiles] == [(0, 0, 1), (64, 0, 2), (0, 32, 3), (64, 32, 4)]
    assert [tile.first for tile in result.tiles] == [1, 2, 3, 4] and {tile.again for tile in result.tiles} == {1}
    assert [tile.age for tile in result.tiles] == [0, 1 / 3, 2 / 3, 1]


def test_of_many_axes_those_that_are_cut_are_drawn():
    tile = {"b": 1, "m": 33, "n": 29, "k": 40}
    inputs = torch.randn(5, 33, 40), torch.randn(5, 40, 29)
    journey = wb.trace(torch.bmm, *inputs, machine="edge-8x8", mapping={"*": {"tile": tile}})
    (kernel,) = journey.scheduled.kernels
    first = grids(journey.scheduled.tiles(kernel.name).record)[0]
    assert first.axes == (0, 2) and first.hidden == (1,)
    assert "not drawn: axis 1 (33)" in journey.scheduled.tiles(kernel.name).html()


def test_the_picture_says_the_order_and_how_often(product: wb.Journey):
    text = product.scheduled.tiles("k0_matmul").html()
    drawings = [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(drawings) == 3
    numbers = [[mark.text for group in each.iter("g") for mark in group.iter("text")] for each in drawings]
    assert numbers == [
        ["1 (2x)", "2 (2x)", "5 (2x)", "6 (2x)"],
        ["1 (2x)", "2 (2x)", "3 (2x)", "4 (2x)"],
        ["1", "2", "3", "4"],
    ]
    assert "8,192 elements are moved, the least is 4,096: each 2 times, at most 2" in text
    assert "2,048 elements, each moved once" in text


@pytest.mark.test_all
def test_tiles_too_small_to_draw_become_pieces_in_the_colour_of_the_first():
    journey = wb.trace(
        lambda x: torch.relu(x), torch.randn(4000, 8), machine="edge-8x8", mapping={"*": {"tile": {"d0": 2}}}
    )
    grid = grids(journey.scheduled.tiles("k0_relu").record)[0]
    pieces = coarse(grid, 50, 4)
    assert len(grid.tiles) == 2000 and len(pieces) == 50
    assert all(a.bottom == b.top and a.first < b.first for a, b in pairwise(pieces))
    assert "the tiles are too small to draw" in journey.scheduled.tiles("k0_relu").html()


def test_matplotlib_draws_the_same_tiles(product: wb.Journey):
    for style, ground in (("light", (1.0, 1.0, 1.0)), ("dark", (0x15 / 255, 0x18 / 255, 0x1D / 255))):
        figure = product.scheduled.tiles("k0_matmul").plot(style=style, width=8)
        drawn = [ax for ax in figure.axes if ax.collections]
        tiles = [sum(len(each.get_paths()) for each in ax.collections) for ax in drawn]
        assert tiles == [4, 4, 4] and figure.get_facecolor()[:3] == ground
        assert [text.get_text() for text in drawn[0].texts] == ["1 (2x)", "2 (2x)", "5 (2x)", "6 (2x)"]


def test_a_kernel_that_is_not_there_is_told_with_those_that_are(product: wb.Journey):
    with pytest.raises(BadOption, match=r"tiles\('k0_matmull'\): no kernel has that name; did you mean 'k0_matmul'\?"):
        product.scheduled.tiles("k0_matmull")


def test_a_step_on_the_host_has_no_tiles():
    with pytest.warns(wb.WorkbenchWarning if hasattr(wb, "WorkbenchWarning") else UserWarning):
        journey = wb.trace(lambda x: torch.linalg.inv(x) + 1, torch.eye(4))
    (step,) = journey.scheduled.record.hosts
    with pytest.raises(BadOption, match="PyTorch computes it on the host, so it has no tiles"):
        journey.scheduled.tiles(step.kernel)


def test_kernels_that_share_a_program_name_their_own_tensors():
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) * 2, torch.relu(x + 1)

    journey = wb.trace(twice, torch.randn(64, 64), fusion="none")
    launches = journey.scheduled.record.launches.launches
    other = next(launch for launch in launches if launch.name != launch.kernel)
    leader = next(launch for launch in launches if launch.name == other.kernel)
    mine, first = (journey.scheduled.tiles(each.name) for each in (other, leader))
    assert mine.table.start.equals(first.table.start) and list(mine.moved.tensor) != list(first.moved.tensor)
    assert list(mine.moved.tensor) == list(other.arguments)


def test_a_loaded_journey_has_the_same_tiles(product: wb.Journey, tmp_path: Path):
    product.save(tmp_path / "product.journey")
    loaded, mine = (each.scheduled.tiles("k0_matmul") for each in (wb.load(tmp_path / "product.journey"), product))
    assert loaded.table.equals(mine.table) and loaded.moved.equals(mine.moved) and loaded.html() == mine.html()
    assert loaded.text() == mine.text() and repr(loaded) == "Tiles('k0_matmul', 44 boxes, 3 tensors)"
