"""A tiling's price on banked memory: runs that are short and far apart cost the rows they open."""

import torch

import workbench as wb


def tile(memory: str) -> dict[str, int]:
    """Of a product whose weights have rows of 12 KB."""
    inputs = torch.empty(512, 3072, device="meta"), torch.empty(768, 3072, device="meta")
    journey = wb.trace(torch.nn.functional.linear, *inputs, machine=wb.machine("tpu-v3", memory=memory))
    (kernel,) = journey.scheduled.kernels
    return dict(kernel.mapping.tile)


def test_rows_are_opened_for_longer_runs_where_there_are_rows() -> None:
    simple, banked = tile("simple"), tile("banked")
    assert simple["k"] * 4 <= 512
    assert banked["k"] * 4 >= 1024, "what all channels move while a row opens"
