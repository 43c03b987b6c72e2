"""A unit is busy for as many cycles wherever one looks: stalls, kernels, ops, the timeline, the figures on the card."""

import pytest
import torch

import workbench as wb


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("figures", [{}, {"memory": "banked"}, {"interconnect": "crossbar"}], ids=str)
def test_busy_is_one_number(figures: dict[str, str]) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32)).eval()
    simulated = wb.trace(net, torch.randn(64, 64), machine=wb.machine("edge-8x8", **figures)).simulated
    stalls = simulated.stalls
    queues = stalls[stalls["unit"].str.startswith("dma")]
    busy, whole = int(queues["busy"].sum()), simulated.cycles
    assert busy > 0 and (stalls["total"] == whole).all()
    assert int(simulated.by_kernel["dma_busy"].sum()) == busy
    assert int(simulated.by_op["busy_cycles"].sum()) == int(stalls["busy"].sum())
    assert simulated.stats["dma_busy_share"] == pytest.approx(busy / whole / len(queues))
    shares = {lane.name: lane.busy for lane in simulated.gantt().lanes}
    busy_of = dict(zip(stalls["unit"], stalls["busy"], strict=True))
    assert shares == {name: pytest.approx(busy_of[name] / whole) for name in shares}
