"""Tests the lanes that the programs of real kernels name, and how arrays share their products."""

from __future__ import annotations

import torch
from torch import nn

import workbench as wb
from simulator.tileprogram.program import Instruction, Opcode, TileProgram


def program(function: object, *inputs: torch.Tensor, layout: str | None = None) -> TileProgram:
    return wb.trace(function, *inputs, machine="tpu-v3", layout=layout).scheduled.kernels[0].program


def rows(made: TileProgram, opcode: Opcode) -> list[Instruction]:
    return [row for row in map(made.instruction, range(len(made))) if row.opcode == opcode]


def test_a_row_lies_along_the_lanes_and_its_sum_goes_across_them() -> None:
    made = program(lambda x: torch.softmax(x, 1), torch.randn(64, 256))
    passes = [row for row in rows(made, Opcode.VECTOR) if row.extent[1:] == (256,)]
    assert {bool(row.reduction) for row in passes} == {True, False}
    assert all(made.ops[row.op].contiguous[0] == 1 and row.lane == 1 for row in passes)


def test_a_scan_in_a_buffer_of_its_own_takes_its_row_in_steps_along_the_lanes() -> None:
    """A scan of halves is computed in a buffer of floats, which no transfer fills."""

    def steps(dtype: torch.dtype) -> list[tuple[int, ...]]:
        made = program(lambda x: x.cumsum(1), torch.randn(64, 1024).to(dtype))
        found = {row.op: row.operands[0].shape for row in rows(made, Opcode.VECTOR) if made.ops[row.op].class_counts[0]}
        return [made.ops[op].contiguous for op, shape in found.items() if shape[-1] > 1]

    assert steps(torch.bfloat16) == steps(torch.float32)
    assert set(steps(torch.bfloat16)) == {(1, 1)}


def test_a_scan_of_halves_is_no_faster_than_its_steps_across_lanes() -> None:
    whole, half = (
        wb.trace(lambda x: x.cumsum(1), torch.randn(64, 1024).to(dtype), machine="tpu-v3").simulated
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert half.cycles > 0.75 * whole.cycles  # its rows are half as many bytes, the steps are as many


def test_a_transposed_view_lies_as_its_memory_does() -> None:
    made = program(lambda x, y: x.t() + y, torch.randn(256, 64), torch.randn(64, 256), layout="given")
    (found,) = {made.ops[row.op].contiguous[:2] for row in rows(made, Opcode.VECTOR)}
    assert found == (0, 1)


def test_channels_last_images_have_their_channels_on_the_lanes() -> None:
    image = torch.randn(1, 128, 6, 6).contiguous(memory_format=torch.channels_last)
    model = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU()).to(memory_format=torch.channels_last)
    made = program(model, image)
    for row in rows(made, Opcode.VECTOR):
        assert row.extent[row.lane] in (64, 128)  # of the 128 channels, and no row of six places


def test_arrays_share_columns_batches_and_rows() -> None:
    def extents(a: torch.Tensor, b: torch.Tensor) -> set[tuple[int, ...]]:
        return {row.extent for row in rows(program(torch.matmul, a, b), Opcode.MATMUL)}

    assert extents(torch.randn(64, 64), torch.randn(64, 256)) == {(1, 64, 128, 64)}
    assert extents(torch.randn(512, 64), torch.randn(64, 64)) == {(1, 128, 64, 64)}
    assert extents(torch.randn(64, 64), torch.randn(64, 64)) == {(1, 64, 64, 64)}


def test_of_several_loops_over_rows_arrays_share_the_longest() -> None:
    made = program(nn.Conv2d(8, 128, 1, bias=False), torch.randn(1, 8, 3, 50), layout="given")  # 3 x 50 places
    assert {row.extent for row in rows(made, Opcode.MATMUL)} == {(1, 3 * 25, 64, 8)}


def test_what_arrays_share_adds_up() -> None:
    journey = wb.trace(torch.matmul, torch.randn(300, 200), torch.randn(200, 300), machine="tpu-v3")
    assert journey.check().ok
    units = set(journey.simulated.events.query("kind == 'MATMUL'").unit)
    assert units == {"mxu0", "mxu1"}
    products = rows(journey.scheduled.kernels[0].program, Opcode.MATMUL)
    assert sum(row.extent[0] * row.extent[1] * row.extent[2] * row.extent[3] for row in products) == 300 * 300 * 200
