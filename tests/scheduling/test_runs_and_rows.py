"""A tiling's price on banked memory: runs that are short and far apart cost the rows they open."""

import torch

import workbench as wb


def run_bytes(memory: str, columns: int, rows: int) -> int:
    """Contiguous bytes that are read at once of the weights of a linear layer."""
    inputs = torch.empty(512, columns, device="meta"), torch.empty(rows, columns, device="meta")
    journey = wb.trace(torch.nn.functional.linear, *inputs, machine=wb.machine("tpu-v3", memory=memory))
    (kernel,) = journey.scheduled.kernels
    return kernel.mapping.tile["k"] * 4


def test_rows_are_opened_for_longer_runs_where_there_are_rows() -> None:
    simple, banked = (run_bytes(memory, 8192, 1024) for memory in ("simple", "banked"))
    assert simple < banked
    machine = wb.machine("tpu-v3", memory="banked")
    assert machine.dram_slowdown(banked, 8192 * 4) == 1 < machine.dram_slowdown(simple, 8192 * 4)


def test_rows_far_apart_want_longer_runs() -> None:
    machine = wb.machine("tpu-v3", memory="banked")
    assert machine.dram_slowdown(1024, 3072 * 4) == 1 < machine.dram_slowdown(1024, 8192 * 4)
    assert machine.dram_slowdown(run_bytes("banked", 8192, 2048), 8192 * 4) == 1


def test_simple_memory_has_no_rows() -> None:
    assert wb.machine("tpu-v3").dram_slowdown(4, 1 << 20) == 1
