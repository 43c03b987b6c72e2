"""LLVM's passes: the one that was found to make wrong numbers is off."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.running.jit import switch_passes


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' libraries may not offer switches")
def test_switches_are_set_here() -> None:
    assert switch_passes()


def test_a_quotient_reads_its_sums_after_they_are_made() -> None:
    """On a processor that gathers: eight results in one register, of sums of three matrices."""
    machine = wb.machine("tpu-v3", systolic_rows=256, systolic_columns=256)
    q = torch.randn(5, 1, 5, generator=torch.Generator().manual_seed(0))

    def of_one_key(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q)

    assert wb.trace(of_one_key, q, machine=machine).check().ok
