"""Steps that do not wait for one another run at the same time, and every other order is kept."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from unittest import mock

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.ground.faults.trial import TRIALS
from workbench.ir import TensorType
from workbench.running import run_program
from workbench.running.side_by_side import Touched, most_at_once, side_by_side, waits


def lying(*shape: int, strides: tuple[int, ...] | None = None, offset: int = 0) -> TensorType:
    return TensorType(shape, "f32", strides or torch.empty(shape).stride(), offset)


def step(reads: str, writes: str) -> Touched:
    kind = lying(4)
    return Touched(tuple((name, kind) for name in reads), tuple((name, kind) for name in writes))


def test_a_step_waits_for_who_makes_what_it_reads_and_for_nobody_twice():
    steps = [step("x", "a"), step("x", "b"), step("ab", "c"), step("ac", "d"), step("x", "e")]
    assert waits(steps) == ((), (), (1, 0), (2,), ())


def test_what_is_read_is_not_written_meanwhile():
    assert waits([step("x", "a"), step("y", "x")]) == ((), (0,))


@pytest.mark.parametrize(
    ("second", "apart"),
    [
        (lying(2, 3, strides=(8, 1), offset=3), True),
        (lying(2, 3, strides=(8, 1), offset=2), False),
        (lying(1, 8, strides=(8, 1), offset=16), True),
        (lying(2, 3, strides=(1, 8), offset=3), False),
        (lying(6, strides=(1,), offset=40), False),
    ],
)
def test_parts_of_one_storage_wait_unless_they_are_known_to_lie_apart(second: TensorType, apart: bool):
    first = lying(2, 3, strides=(8, 1))
    found = waits([Touched((), (("s", first),)), Touched((), (("s", second),))])
    assert found == ((), () if apart else (0,))


def test_the_most_that_have_work_at_once():
    waiting = ((), (0,), (0,), (1, 2))
    assert most_at_once(waiting, [True] * 4) == 2
    assert most_at_once(waiting, [True, True, False, True]) == 1
    assert most_at_once((), []) == 0


def test_two_steps_are_under_way_at_the_same_time():
    meeting = threading.Barrier(2)
    side_by_side(((), ()), 2, lambda _: meeting.wait(30) and None)
    assert not meeting.broken


@pytest.mark.parametrize("seed", range(20))
def test_every_step_is_done_once_after_those_it_waits_for(seed: int):
    draw = random.Random(seed)
    waiting = [tuple(each for each in range(index) if draw.random() < 0.2) for index in range(40)]
    done: list[int] = []

    def do(index: int) -> None:
        assert set(waiting[index]) <= set(done)
        done.append(index)

    side_by_side(waiting, 3, do)
    assert sorted(done) == list(range(40))


def test_the_error_of_the_first_step_is_raised_after_all_that_had_begun():
    meeting, done = threading.Barrier(2), list[int]()

    def do(index: int) -> None:
        done.append(index)
        meeting.wait(30)
        raise ValueError(index)

    before = threading.active_count()
    with pytest.raises(ValueError, match=r"^0$"):
        side_by_side(((), (), (0,), (1,)), 2, do)
    assert sorted(done) == [0, 1] and threading.active_count() == before


class Branches(nn.Module):
    """Four ways side by side, as in an inception block."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (1, 3, 5)
        self.ways = nn.ModuleList(nn.Conv2d(16, 8 * size, size, padding=size // 2) for size in sizes)
        self.pool = nn.MaxPool2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([*(torch.relu(way(x)) for way in self.ways), self.pool(x)], 1).sum(1)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def used(journey: wb.Journey, x: torch.Tensor, count: int) -> tuple[torch.Tensor, set[str]]:
    """The result with so many threads, and the threads that ran kernels."""
    torch.set_num_threads(count)
    names: set[str] = set()
    plain = run_program.NativeProgram._run_step

    def noted(*given: object) -> None:
        names.add(threading.current_thread().name)
        plain(*given)  # type: ignore[arg-type]

    with mock.patch.object(run_program.NativeProgram, "_run_step", noted):
        result = journey.run(x)
    assert isinstance(result, torch.Tensor)
    return result, names


@pytest.mark.test_all
@pytest.mark.usefixtures("threads")
def test_branches_have_threads_of_their_own_and_the_same_bits():
    torch.manual_seed(0)
    x = torch.randn(2, 16, 96, 96)
    journey = wb.trace(Branches().eval(), x)
    journey.run(x)  # what has to be tried is tried alone
    alone, one = used(journey, x, 1)
    assert one == {threading.current_thread().name}
    seen: set[str] = set()
    for _ in range(10):
        beside, names = used(journey, x, 2)
        seen |= names
        assert torch.equal(alone, beside)
    assert len(seen) > 1
    assert not [each for each in threading.enumerate() if each.name.startswith("kernels")]
    assert journey.check().ok


@pytest.mark.test_all
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.usefixtures("threads")
def test_a_forked_child_runs_them_side_by_side_too():
    x = torch.randn(2, 16, 96, 96)
    journey = wb.trace(Branches().eval(), x)
    journey.run(x)
    expected, _ = used(journey, x, 2)
    child = os.fork()
    if not child:
        found = 1
        try:
            with mock.patch.object(torch, "get_num_threads", lambda: 2):  # PyTorch's own threads stayed behind
                found = 0 if torch.equal(journey.run(x), expected) else 2
        finally:
            os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.test_all
@pytest.mark.usefixtures("threads")
def test_a_kernel_that_has_yet_to_be_tried_runs_alone():
    x = torch.randn(2, 16, 96, 96)
    journey = wb.trace(Branches().eval(), x)
    journey.run(x)
    with mock.patch.object(TRIALS, "remembers", lambda _: False):
        _, names = used(journey, x, 2)
    assert names == {threading.current_thread().name}


@pytest.mark.test_all
@pytest.mark.usefixtures("threads")
def test_small_kernels_are_not_worth_a_thread():
    x = torch.randn(1, 16, 8, 8)
    journey = wb.trace(Branches().eval(), x)
    journey.run(x)
    assert used(journey, x, 2)[1] == {threading.current_thread().name}
