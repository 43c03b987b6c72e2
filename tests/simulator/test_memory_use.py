"""What each transfer asked of the memory adds up to what the engine counted."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from simulator.spans import TOTALS


def gathered(table: torch.Tensor, places: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(F.embedding(places, table) @ w, -1).cumsum(0)


@pytest.mark.parametrize(
    ("machine", "options"),
    [
        (wb.machine("tpu-v3"), {}),
        (wb.machine("tpu-v3", memory="banked"), {}),
        (wb.machine("tpu-v4"), {"resident": "auto"}),
        (wb.machine("tpu-v3", cores=2, chiplets=2, chiplet_link_bytes_per_cycle=64), {}),
    ],
    ids=["simple", "banked", "common memory", "chiplets"],
)
def test_requests_add_up_to_the_counters(machine: wb.Machine, options: dict[str, str]):
    given = torch.randn(64, 48), torch.randint(0, 64, (40,)), torch.randn(48, 56)
    trace = wb.trace(gathered, *given, machine=machine, **options).simulated.record
    use = trace.memory_use()
    for launch in range(len(trace.kernels)):
        here = trace.launch == launch
        assert use.requested[here].sum() == trace.totals[launch, TOTALS.index("dram_request_bytes")]
        told = [trace.totals[launch, TOTALS.index(f"dram_{way}_bytes")] for way in ("read", "write")]
        assert use.asked[here].sum() == sum(told)
    assert use.requested.sum() > 0 and (use.run[use.requested > 0] > 0).all()
