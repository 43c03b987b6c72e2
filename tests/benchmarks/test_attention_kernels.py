"""`benchmarks/attention_kernels.py` on small sizes."""

from __future__ import annotations

import pytest

from benchmarks.attention_kernels import MACHINES, measured, table


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_one_kernel_takes_fewer_cycles_and_moves_fewer_bytes_than_three(machine: str, causal: bool) -> None:
    row = measured(128, machine, 4, 64, causal=causal)
    assert row.cycles[0] < row.cycles[1] and row.least == row.bytes[0] < row.bytes[1]
    assert f"| 128 | {machine} | {row.cycles[0]:,} |" in list(table([row]))[-1]
