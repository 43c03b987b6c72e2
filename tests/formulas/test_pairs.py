"""Distances of all pairs of rows, cross products, bilinear layers, products of a batch added up, traces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import workbench as wb

T = torch.Tensor
CASES: dict[str, tuple[Callable[..., T], tuple[tuple[int, ...], ...]]] = {
    "cdist": (torch.cdist, ((2, 3, 4), (5, 4))),
    "cdist, many rows": (torch.cdist, ((30, 4), (50, 4))),
    "cdist, p 1": (lambda x, y: torch.cdist(x, y, p=1.0), ((3, 4), (5, 4))),
    "cdist to itself, p 3": (lambda x: torch.cdist(x, x, p=3.0), ((3, 4),)),
    "cross": (lambda x, y: torch.linalg.cross(x, y, dim=0), ((3, 4), (3, 1))),
    "bilinear": (F.bilinear, ((2, 3, 4), (2, 3, 5), (6, 4, 5), (6,))),
    "addbmm": (lambda c, x, y: torch.addbmm(c, x, y, beta=0.5, alpha=2), ((3, 5), (2, 3, 4), (2, 4, 5))),
    "trace": (torch.trace, ((5, 3),)),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str):
    function, shapes = CASES[name]
    torch.manual_seed(0)
    journey = wb.trace(function, *map(torch.randn, shapes))
    assert "host" not in {node.route for node in journey.lowered.record.nodes}
    check = journey.check()
    assert check.ok, check.text()
