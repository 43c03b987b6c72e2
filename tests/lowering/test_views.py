"""Views: free where strides can say them, a copy kernel where they cannot, the numbers right either way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from simulator import simulate
from simulator.records.spans import Launched
from tests.flow import Flow, flow
from tests.replaying import replayed

Function = Callable[..., object]


def exp_of(view: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    """A kernel that reads the view, so that it is no mere result."""
    return lambda x: torch.exp(view(x))


def after_work(view: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    """The view is of an intermediate, and what reads it is a kernel."""
    return lambda x: torch.exp(view(torch.softmax(x, 0)))


FREE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "transposed": (lambda x: x.t(), (12, 20)),
    "rows with a step": (lambda x: x[1::3], (12, 20)),
    "columns with a step": (lambda x: x[:, 2::5], (12, 20)),
    "both with a step, transposed": (lambda x: x[::2, 1::4].t(), (12, 20)),
    "one row": (lambda x: x[5], (12, 20)),
    "one column": (lambda x: x[:, 7], (12, 20)),
    "expanded": (lambda x: x[:, None, :].expand(12, 5, 20), (12, 20)),
    "merged": (lambda x: x.reshape(-1), (12, 20)),
    "split into heads": (lambda x: x.view(12, 4, 5).transpose(0, 1), (12, 20)),
    "diagonal": (lambda x: x.diagonal(), (12, 20)),
    "windows": (lambda x: x.unfold(1, 6, 2), (12, 20)),
    "a step that goes on over the rows, merged": (lambda x: x[:, ::2].reshape(-1), (12, 20)),
    "part of a part": (lambda x: x[2:10][1::2][:, 3:], (12, 20)),
}

COPIED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "transposed and merged": (lambda x: x.t().reshape(-1), (12, 20)),
    "expanded and merged": (lambda x: x[:, None, :].expand(12, 5, 20).reshape(60, 20), (12, 20)),
    "step and merged": (lambda x: x[:, ::3].reshape(-1), (12, 20)),
    "heads put back": (lambda x: x.view(12, 4, 5).transpose(0, 1).reshape(4, 60), (12, 20)),
    "made contiguous": (lambda x: x.t().contiguous(), (12, 20)),
}


def copies(made: Flow) -> int:
    """Kernels that move and do not compute."""
    ops = {item.node.name: item.node.op for item in made.lowered.nodes}
    return sum(all(ops[name] == "aten.clone.default" for name in kernel.nodes) for kernel in made.lowered.kernels)


@pytest.mark.test_all
@pytest.mark.parametrize("form", [exp_of, after_work])
@pytest.mark.parametrize("name", FREE)
def test_what_strides_can_say_costs_nothing(name: str, form: Callable[..., Function]):
    view, shape = FREE[name]
    made = flow(form(view), [torch.randn(shape)])
    assert copies(made) == 0
    made.assert_matches_eager(torch.randn(shape))


@pytest.mark.test_all
@pytest.mark.parametrize("form", [exp_of, after_work])
@pytest.mark.parametrize("name", COPIED)
def test_what_strides_cannot_say_is_copied_once(name: str, form: Callable[..., Function]):
    view, shape = COPIED[name]
    made = flow(form(view), [torch.randn(shape)])
    if name != "made contiguous":  # a clone is a node of the graph, which may fuse with its reader
        assert copies(made) == 1
    made.assert_matches_eager(torch.randn(shape))


def test_parts_share_the_storage_of_the_whole():
    def gated(x: torch.Tensor) -> torch.Tensor:
        a, b = torch.softmax(x, 1).chunk(2, dim=1)
        return a * torch.sigmoid(b)

    made = flow(gated, [torch.randn(16, 24)])
    assert copies(made) == 0
    softmax, product = made.scheduled.launches.launches
    assert product.addresses[:2] == (softmax.addresses[-1],) * 2
    made.assert_matches_eager(torch.randn(16, 24))


@pytest.mark.test_all
def test_split_sizes_that_differ():
    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, c = torch.tanh(x).split([3, 5, 4], dim=0)
        return torch.exp(a), b.t() @ b, c

    made = flow(parts, [torch.randn(12, 20)])
    made.assert_matches_eager(torch.randn(12, 20))


def test_a_result_that_is_a_view_of_an_input():
    made = flow(lambda x: (x.t()[2:5], x + 1), [torch.randn(6, 8)])
    made.assert_matches_eager(torch.randn(6, 8))


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", [*COPIED, "windows", "both with a step, transposed"])
def test_views_replay_in_trace_order(name: str):
    view, shape = (FREE | COPIED)[name]
    x = torch.randn(shape)
    function = after_work(view)
    made = flow(function, [x])
    trace = simulate(
        [
            Launched(launch.kernel, made.scheduled.kernel(launch.kernel).program, launch.addresses, launch.after)
            for launch in made.scheduled.launches.launches
        ],
        made.machine,
    )
    trace.invariants()
    (got,) = replayed(made, trace, [x])
    torch.testing.assert_close(got, function(x), rtol=1e-4, atol=1e-4)


def test_a_copy_knows_its_node():
    made = flow(after_work(lambda x: x.t().reshape(-1)), [torch.randn(12, 20)])
    copied = [kernel for kernel in made.scheduled.kernels if kernel.kernel.endswith("_copy")]
    assert len(copied) == 1
    program = copied[0].program
    origins = [program.instruction(index).origins for index in range(len(program))]
    assert set(origins) == {(0,)}
    launch = next(each for each in made.scheduled.launches.launches if each.kernel == copied[0].kernel)
    assert made.captured.graph.node(launch.origins[0]).op == "aten.clone.default"
