"""Parts of a result are made in place: bytes counted, order kept, and nobody moved who must stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.flow import Flow, flow, moved
from tests.moving_programs import assert_same, tensor
from workbench.lowering.assembly import COPY_RULE


def traffic(made: Flow) -> tuple[int, int]:
    """Bytes read and written by all kernels."""
    each = [moved(made.scheduled.kernel(launch.kernel).program) for launch in made.scheduled.launches.launches]
    sums = [sum(n for key, n in found.items() if key.endswith("!") == written) for written in (0, 1) for found in each]
    return sum(sums[: len(each)]), sum(sums[len(each) :])


def copies(made: Flow) -> int:
    return sum(item.rule == COPY_RULE for item in made.lowered.nodes)


TRAFFIC: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], int, int]] = {
    "a concatenation": (lambda x, y: torch.cat([x, y], 1), [(100, 30), (100, 50)], 100 * 80, 2),
    "a concatenation of what kernels make": (
        lambda x, y: torch.cat([x.exp(), y.softmax(-1)], 1), [(100, 30), (100, 50)], 100 * 80, 0
    ),
    "rolling": (lambda x: x.roll((5, -7), (0, 1)), [(60, 48)], 60 * 48, 4),
    "padding": (lambda x: F.pad(x, (2, 3, 1, 0), value=1.5), [(60, 48)], 61 * 53, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAFFIC)
def test_each_element_is_read_once_and_written_once(name: str):
    function, shapes, written, copied = TRAFFIC[name]
    inputs = [torch.randn(shape) for shape in shapes]
    made = flow(function, inputs)
    assert traffic(made) == (sum(4 * each.numel() for each in inputs), 4 * written)
    assert copies(made) == copied
    made.assert_matches_eager(*inputs)


@pytest.mark.test_all
def test_a_part_that_others_read_too_is_read_where_it_lies():
    def grown(x: torch.Tensor) -> torch.Tensor:
        first = x @ x.t()
        second = first.sum(0, keepdim=True)
        return torch.cat([first, second, second.exp()], 0)

    (made, _) = assert_same(grown, [tensor((9, 6))], tolerance=1e-5)
    assert copies(made) == 0
    base = made.lowered.bases
    assert {base[value] for kernel in made.lowered.kernels for value in kernel.outputs} == {"cat"}


def _in_two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    made = x.neg()
    return torch.cat([made, x]), torch.stack([made, x])


def _named_by_storage(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    made = x.neg()
    return made.as_strided((2, 3), (1, 4)) * 1, torch.cat([x, made], 1)


def _in_another_order(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = x.neg(), x.abs()
    turned = torch.cat([second, first], 1).sum(1)
    return turned, torch.cat([first, second, x], 1)


COPIES: dict[str, tuple[Callable[..., object], list[torch.Tensor], float, int]] = {
    "results and inputs stay where they are": (
        lambda x: (y := x.exp(), y.t(), torch.cat([y, x], 0)), [tensor((3, 4))], 1e-6, 2
    ),
    "a part under another shape is made in place where strides allow": (  # and `x` is copied
        lambda x, w: torch.cat([F.linear(x, w), x], -1), [tensor((2, 5, 6)), tensor((7, 6))], 1e-5, 1
    ),
    "a product in the middle of a result": (
        lambda x, y: torch.stack([x @ y, x @ y.t(), (x + y).relu()], 1),
        [tensor((40, 40)), tensor((40, 40), seed=5)], 1e-4, 0
    ),
    "a part in several results lies in one of them": (_in_two_results, [tensor((3, 4))], 0.0, 3),
    "elements that its own storage names stay dense": (_named_by_storage, [tensor((4, 6))], 0.0, 2),
    "parts in another order are no view": (_in_another_order, [tensor((9, 5))], 1e-5, 3),
}  # fmt: skip


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", COPIES)
def test_parts_that_cannot_be_made_in_place_are_copied(name: str):
    function, inputs, tolerance, expected = COPIES[name]
    (made, _) = assert_same(function, inputs, tolerance=tolerance)
    assert copies(made) == expected


def test_the_same_part_twice_is_made_once_and_stored_twice():
    (made, _) = assert_same(lambda x: torch.cat([x.neg()] * 2), [tensor((3, 4))])
    (kernel,) = made.lowered.kernels  # which stores both
    assert kernel.outputs == ("neg", "cat.part0")


@pytest.mark.test_all
def test_a_concatenation_of_concatenations_is_one():
    def grown(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.cat([x, x.sum(1, keepdim=True)], 1)
        return x

    (made, _) = assert_same(grown, [tensor((5, 3))], tolerance=1e-5)
    assert copies(made) == 1  # of the input
    assert {view.base for view in made.lowered.views} == {"cat_3"}


@pytest.mark.test_all
def test_what_is_written_over_a_copy_comes_after_it():
    def over(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        late = x.exp().softmax(-1)
        return torch.slice_scatter(late, y[:, ::2].neg(), 1, 0, None, 2)

    for made in assert_same(over, [tensor((6, 8)), tensor((6, 8))], tolerance=1e-6):
        first, second = made.scheduled.launches.launches[-2:]
        assert first.addresses[-1] == second.addresses[-1]
        assert len(made.scheduled.launches.launches) - 2 in second.after


def test_elements_named_by_the_storage_of_an_input_are_looked_up_where_that_is():
    whole = torch.randn(20)
    made = flow(lambda x: x.as_strided((3,), (2,), 6) * 2, [whole[4:]])
    assert made.lowered.kernels[0].kind == "host"
    made.assert_matches_eager(whole[4:])


def test_a_result_all_of_whose_parts_are_in_place_says_so():
    import workbench as wb

    j = wb.trace(lambda x: torch.cat([x.exp(), x.sin()]).sum(0), torch.randn(8, 8))
    assert j.lowered.table.route.tolist().count("view") == 1
    fused = j.lowered.fusions
    assert set(fused[fused.rule == "never across a view"].producer) == {"exp", "sin"}


@pytest.mark.test_all
def test_layers_that_grow_by_concatenation_move_nothing_twice():
    def grown(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = [x, y.neg()]
        for _ in range(3):
            found.append(torch.cat(found, 1).sum(1, keepdim=True))
        return torch.cat(found, 1)

    (made, _) = assert_same(grown, [tensor((9, 5)), tensor((9, 2))], tolerance=1e-5)
    assert copies(made) == 1  # of `x`, the one part that no kernel makes
    assert {view.base for view in made.lowered.views} == {"cat_3"}


def _heads_merged(x: torch.Tensor) -> torch.Tensor:
    """Four heads of 8 side by side, as attention leaves them."""
    return torch.relu(x).transpose(0, 1).reshape(16, 32) * 2


def test_what_is_copied_for_its_order_is_made_in_that_order():
    j = wb.trace(_heads_merged, torch.randn(4, 16, 8))
    assert [(n.node.name, n.rule) for n in j.lowered.record.nodes if "clone" in n.node.op] == [
        ("clone", "copy at its maker")
    ]
    assert len(j.lowered.kernels) == 2 and j.check().ok
    off = j.with_(fusion={"off": ["copy at its maker"]})
    assert len(off.lowered.kernels) == 3 and off.check().ok
    assert j.simulated.cycles < off.simulated.cycles
    moved = [each.simulated.record.bytes.sum() for each in (off, j)]
    assert moved[0] - moved[1] == 2 * 4 * 16 * 8 * 4


@pytest.mark.test_all
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (y := torch.relu(x), y.transpose(0, 1).reshape(16, 32) * 2),  # returned as well
        lambda x: (y := torch.relu(x).transpose(0, 1)).reshape(16, 32) @ torch.ones(32, 4) + y.sum(),  # read as well
        lambda x: torch.relu(x).permute(2, 1, 0).reshape(8, 64) * 2,  # elements side by side would lie apart
        lambda x: x.transpose(0, 1).reshape(16, 32) * 2,  # no kernel makes an input
    ],
)
def test_a_copy_stays_where_its_maker_cannot_write_in_its_order(function: Callable[..., object]):
    j = wb.trace(function, torch.randn(4, 16, 8))
    (copy,) = [n for n in j.lowered.record.nodes if "clone" in n.node.op]
    assert copy.route == "automatic" and j.check().ok


@pytest.mark.test_all
def test_a_copy_that_is_returned_or_part_of_a_result_is_made_in_place():
    for function in (
        lambda x: torch.relu(x).transpose(0, 1).reshape(16, 32),
        lambda x: torch.cat([torch.relu(x).transpose(0, 1).reshape(16, 32), torch.ones(2, 32)]),
    ):
        j = wb.trace(function, torch.randn(4, 16, 8))
        (copy,) = [n for n in j.lowered.record.nodes if "clone" in n.node.op]
        assert copy.route == "view" and j.check().ok
