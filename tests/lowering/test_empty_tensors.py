"""Tensors without elements: no kernel and no cycle, and the identities of what looks at nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.eager import same_as_eager
from workbench.ground import errors

R = torch.randn

NOTHING: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "pointwise chain": (lambda x, y: torch.exp(x * 2) + y, ((3, 0), (1,))),
    "views": (lambda x: x.transpose(0, 2)[1:].reshape(-1, 2) + 1, ((3, 0, 5),)),
    "sum to nothing": (lambda x: x.sum(1), ((0, 4),)),
    "extreme of empty rows": (lambda x: x.amax(1), ((0, 4),)),
    "extreme with its place": (lambda x: x.max(1), ((0, 4),)),
    "product of no rows": (lambda a, b: torch.relu(a @ b), ((0, 3), (3, 4))),
    "no products": (torch.bmm, ((0, 3, 2), (0, 2, 4))),
    "linear over no sequences": (lambda x, w, b: F.linear(x, w, b), ((2, 0, 3), (4, 3), (4,))),
    "softmax of no rows": (lambda x: torch.softmax(x, -1), ((0, 4),)),
    "softmax of empty rows": (lambda x: torch.softmax(x, -1), ((4, 0),)),
    "layer norm": (lambda x: F.layer_norm(x, (4,)), ((0, 4),)),
    "convolution of no images": (lambda x, w: F.conv2d(x, w), ((0, 3, 8, 8), (4, 3, 3, 3))),
    "pooling of no images": (lambda x: F.max_pool2d(x, 2), ((0, 3, 8, 8),)),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), ((0, 2, 4, 8),)),
    "repeated never": (lambda x: x.repeat(2, 0) + 1, ((3,),)),
    "an empty slice": (lambda x: x[3:3] + 1, ((3, 2),)),
    "rows by no index": (lambda x: x[[]], ((3, 2),)),
    "a join of nothing": (lambda x, y: torch.cat([x, y]), ((0, 4), (0, 4))),
    "running sum": (lambda x: x.cumsum(0), ((0, 3),)),
    "sorted": (torch.sort, ((0, 3),)),
    "expanded to nothing": (lambda x: x.expand(0, 3) * 2, ((1, 3),)),
}


Cases = dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]


def all_of(cases: Cases) -> tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]:
    """One program of many, since each trace takes its time: a dict of their results, from a dict of their inputs."""

    def program(given: dict[str, Any]) -> dict[str, Any]:
        return {name: function(*given[name]) for name, (function, _) in cases.items()}

    return program, lambda: ({name: tuple(map(R, shapes)) for name, (_, shapes) in cases.items()},)


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_what_makes_nothing_is_no_work(capture: str):
    journey = same_as_eager(*all_of(NOTHING), capture=capture)
    assert journey.lowered.record.kernels == ()
    assert journey.simulated.cycles == 0


FROM_NOTHING: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum": (lambda x: x.sum(0), ((0, 4),)),
    "sum of all": (lambda x: x.sum(), ((3, 0),)),
    "sum that goes on": (lambda x, y: x.sum(0, keepdim=True) * 2 + y, ((0, 4), (3, 4))),
    "mean": (lambda x: x.mean(0), ((0, 4),)),
    "variance": (lambda x: x.var(0), ((0, 4),)),
    "product of numbers": (lambda x: x.prod(0), ((0, 4),)),
    "any and all": (lambda x: ((x > 0).any(), (x > 0).all()), ((0, 4),)),
    "log of a sum": (lambda x: x.logsumexp(0), ((0, 4),)),
    "matrix product": (lambda a, b: a @ b, ((3, 0), (0, 4))),
    "matrix product with more": (lambda c, a, b: torch.relu(torch.addmm(c, a, b)), ((4,), (3, 0), (0, 4))),
    "products": (torch.bmm, ((2, 3, 0), (2, 0, 4))),
    "linear": (lambda x, w, b: F.linear(x, w, b), ((3, 0), (4, 0), (4,))),
    "padded": (lambda x: F.pad(x, (1, 1), value=2.5), ((3, 0),)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_of_no_cycles_has_words_in_place_of_a_picture():
    j = wb.trace(torch.t, torch.randn(4, 4))
    assert j.simulated.cycles == 0
    html, text = j.simulated.html(), j.overview.text()
    assert "nothing runs on the machine" in html and "nan" not in html.lower()
    assert "What each unit did" not in html and '<div class="bars"></div>' not in html + j.overview.html()
    assert text.endswith(
        "where the time went\n  nothing runs on the machine: no node of this function computes or moves anything"
    )
    (ax,) = j.simulated.plot().figure.axes
    assert "nothing runs on the machine" in ax.texts[0].get_text() and not ax.axison


@pytest.mark.test_all
def test_what_looks_at_nothing_gives_what_pytorch_does():
    same_as_eager(*all_of(FROM_NOTHING), hosted=None)


def test_identities_of_other_element_types():
    def sums(*given: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(x.sum(0), x.prod()) for x in given]

    dtypes = (torch.int64, torch.bfloat16, torch.bool)
    same_as_eager(sums, lambda: tuple(torch.zeros(0, 4, dtype=dtype) for dtype in dtypes), hosted=None)


def test_a_join_leaves_out_what_has_nothing():
    def joined(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([x, z]), torch.cat([z, y])

    journey = same_as_eager(joined, lambda: (R(0, 4), R(0), R(3, 4)))
    assert [kernel.inputs for kernel in journey.lowered.record.kernels] == [("z",), ("z",)]
    assert journey.simulated.cycles > 0


def test_work_beside_nothing_is_done():
    journey = same_as_eager(lambda x, y: (x + 1, y * 2, x.sum() if x.numel() else 0), lambda: (R(0, 3), R(2, 3)))
    assert [kernel.nodes for kernel in journey.lowered.record.kernels] == [("mul",)]


def test_a_node_of_nothing_says_so_when_it_is_selected():
    journey = wb.trace(lambda x, y: (x + 1, y * 2), R(0, 3), R(2, 3), machine="edge-8x8")
    assert "no elements" in journey.select("aten.add.Tensor").text()


@pytest.mark.test_all
def test_an_extreme_of_nothing_is_the_users_mistake():
    with pytest.raises(errors.EmptyReduction, match=r"aten.max.default at .*test_empty_tensors.py:\d+ .*x is 0x4xf32"):
        wb.trace(lambda x: x.max(), R(0, 4))
    with pytest.raises(errors.CaptureFailed, match="amax"):
        wb.trace(lambda x: x.amax(0), R(0, 4))


def test_the_mean_of_nothing_is_no_number_whatever_comes_of_it():
    journey = wb.trace(lambda x, y: x.mean() * y, R(0), R(3), machine="edge-8x8")
    assert all(math.isnan(value) for value in journey.run(R(0), R(3)).tolist())
