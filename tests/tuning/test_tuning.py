"""Tuning finds what measuring everything finds, the same each time, and what it finds is what a journey has."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.exploring.tuning import measured
from workbench.exploring.tuning.measured import Measured, Work
from workbench.ground.errors import BadOption
from workbench.scheduling import schedule
from workbench.scheduling.user_mapping import UserMapping


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ w) @ w, 1)


APART: Any = {"off": ["rows of a product"]}
"""So that there are three kernels."""


BUDGET = 12


@pytest.fixture(scope="module")
def j() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(program, torch.randn(40, 24), torch.randn(24, 24), machine="edge-8x8", fusion=APART)


@pytest.fixture(scope="module")
def answer(j: wb.Journey) -> Any:
    return j.tuned(budget=BUDGET)


@pytest.mark.test_all
def test_the_journey_has_the_mappings_and_the_cycles_of_the_table(j: wb.Journey, answer: Any):
    table = answer.table.set_index("kernel")
    assert [*table.index] == [kernel.kernel for kernel in j.scheduled.record.kernels]
    assert (table.tuned <= table.cycles).all() and (table.tried < BUDGET).all() and table.gain.max() > 0
    assert answer.journey.simulated.cycles < j.simulated.cycles
    assert answer.journey.check().ok
    faster = answer.mappings
    assert faster and answer.journey.options["mapping"] == faster
    for kernel in answer.journey.scheduled.record.kernels:
        if kernel.kernel in faster:
            assert kernel.mapping.tile == faster[kernel.kernel]["tile"] and kernel.mapping.reason == "user"
            again = j.with_(mapping={kernel.kernel: faster[kernel.kernel]}).tuned(budget=1, kernels=[kernel.kernel])
            assert again.table.cycles[0] == table.tuned[kernel.kernel]


def test_launches_take_as_long_alone_as_in_the_journey(j: wb.Journey, answer: Any):
    trace = j.simulated.record
    ends = [int(trace.done[rows].max()) for rows in trace.rows_by_launch]
    took = [end - before for before, end in zip([0, *ends], ends, strict=False)]
    assert answer.table.cycles.tolist() == took


@pytest.mark.test_all
def test_the_same_budget_and_seed_find_the_same_also_with_an_executor(j: wb.Journey, answer: Any):
    again = j.tuned(budget=BUDGET)
    with ThreadPoolExecutor(2) as pool:
        beside = j.tuned(budget=BUDGET, executor=pool)
    for other in (again, beside):
        assert other.table.equals(answer.table) and other.mappings == answer.mappings
        assert other.mapspace("k0").table.equals(answer.mapspace("k0").table)


@pytest.mark.test_all
def test_it_finds_the_best_of_the_whole_space():
    j = wb.trace(lambda x: x.sum(0), torch.randn(12, 12), machine="edge-8x8")  # a space of some 300, all simulated
    whole = j.scheduled.mapspace("k0", simulate=10**6)
    assert whole.table.cycles.notna().sum() + (whole.table.refused != "").sum() == len(whole) > 200
    assert (whole.table.cycles.dropna() >= whole.table.least[whole.table.cycles.notna()]).all()
    best = whole.table.cycles.min()
    found = j.tuned(budget=10**6)
    assert found.table.tuned[0] == best and found.table.note[0] == "nothing in its space is faster"
    row = int(whole.table.cycles.idxmin())
    assert j.with_(mapping={whole.kernel: whole.mapping(row)}).simulated.cycles < j.simulated.cycles


@pytest.mark.test_all
def test_a_space_that_was_not_simulated_has_guesses_and_todays_cycles(j: wb.Journey):
    space = j.scheduled.mapspace("k0")
    table = space.table
    assert len(table) == len(space) > 100 and table.cycles.notna().sum() == table.today.sum() == 1
    assert (table.predicted > 0).all() and {"tile.m", "tile.n", "tile.k", "order", "buffers"} < set(table.columns)
    assert "candidates" in space.text() and "<table" in space.html()


@pytest.mark.test_all
def test_refused_candidates_are_kept_with_the_reason(j: wb.Journey, monkeypatch: pytest.MonkeyPatch):
    real = measured.schedule_kernel

    def refusing(rendered: Any, machine: Any, wanted: UserMapping, *others: Any) -> Any:
        if wanted["buffers"] == 3:
            raise wb.WorkbenchError("three slots are refused here")
        return real(rendered, machine, wanted, *others)

    monkeypatch.setattr(measured, "schedule_kernel", refusing)
    found = j.tuned(budget=30, kernels=["k0"])
    assert len(found.refused) == found.table.refused[0] > 0
    assert set(found.refused.refused) == {"three slots are refused here"}
    assert found.mappings.get("k0_matmul_relu", {}).get("buffers") != 3


@pytest.mark.test_all
def test_an_interrupt_keeps_what_was_found(j: wb.Journey, answer: Any, monkeypatch: pytest.MonkeyPatch):
    real, left = measured.measure, [BUDGET + 5]

    def interrupted(work: Work, mapping: UserMapping) -> Measured:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return real(work, mapping)

    monkeypatch.setattr(measured, "measure", interrupted)
    found = j.tuned(budget=BUDGET)
    assert found.stopped == "interrupted" and "stopped: interrupted" in repr(found)
    first, second, third = found.table.itertuples()
    assert tuple(first)[1:] == tuple(answer.table.iloc[0]) and second.tried == 5 and second.note == "interrupted"
    assert third.note == "not reached: interrupted"
    assert found.journey.simulated.cycles <= j.simulated.cycles


class _Interrupted:
    """Finds modules by being interrupted, once."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "workbench.exploring.tuning.tuner":
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            raise KeyboardInterrupt


@pytest.mark.test_all
def test_an_interrupt_while_the_search_loads_or_stages_are_made_is_an_answer_of_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    for place in ("the import", "scheduling"):
        journey = wb.trace(torch.relu, torch.randn(20, 30), machine="edge-8x8")
        with monkeypatch.context() as patch:
            if place == "the import":
                patch.delitem(sys.modules, "workbench.exploring.tuning.tuner", raising=False)
                patch.setattr(sys, "meta_path", [_Interrupted(), *sys.meta_path])
            else:
                patch.setattr(schedule, "schedule", interrupt)
            found = journey.tuned(budget=3)
            assert (found.stopped, len(found.table), found.mappings) == ("interrupted", 0, {}), place
            assert repr(found) == found.text().partition("\n")[0] == "Tuning(no kernel was tuned, stopped: interrupted)"
            assert found.journey is journey and len(found.refused) == 0
        assert journey.tuned(budget=3).table.tried[0] > 0, "it can be asked again"


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


class _Broken:
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        from concurrent.futures.process import BrokenProcessPool

        future = Future[Any]()
        future.set_exception(BrokenProcessPool("a worker died"))
        return future


@pytest.mark.test_all
def test_a_broken_executor_ends_it_with_the_reason(j: wb.Journey):
    found = j.tuned(executor=_Broken())
    assert found.stopped == "the executor broke: a worker died" and found.journey is j


def _done(result: object = None, error: BaseException | None = None) -> Future[Any]:
    future = Future[Any]()
    future.set_exception(error) if error else future.set_result(result)
    return future


class _Answering:
    """An executor that works for a time, and then answers with what `after` returns or raises."""

    def __init__(self, works: int, after: Callable[[], Any]) -> None:
        self.left, self.after = works, after

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.left -= 1
        return _done(fn(*args, **kwargs)) if self.left >= 0 else self.after()


def _refuses() -> Any:
    raise RuntimeError("cannot schedule new futures after shutdown")


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "shut down": (_refuses, "RuntimeError: cannot schedule new futures after shutdown"),
    "out of time": (lambda: _done(error=TimeoutError("the cluster is busy")), "TimeoutError: the cluster is busy"),
    "cancelled": (lambda: _done(error=CancelledError()), "CancelledError: "),
    "nonsense": (lambda: _done((1, 2)), r"a result of what it was given to run is \(1, 2\)"),
    "no cycles": (lambda: _done(Measured(-5, 3)), r"a result of what it was given to run is Measured\(cycles=-5.*"),
    "no future": (lambda: None, "AttributeError: 'NoneType' object has no attribute 'result'"),
}


@pytest.mark.test_all
def test_an_interrupt_while_candidates_are_handed_out_keeps_those_that_are_measured(j: wb.Journey):
    found = j.tuned(budget=BUDGET, kernels=["k0"], executor=_Answering(4, interrupt))
    assert found.stopped == "interrupted" and found.table.tried[0] == 4


@pytest.mark.test_all
@pytest.mark.parametrize("broken", BROKEN)
def test_whatever_an_executor_answers_what_was_found_before_is_kept(j: wb.Journey, answer: Any, broken: str):
    after, told = BROKEN[broken]
    works = int(answer.table.tried[0])
    found = j.tuned(budget=BUDGET, executor=_Answering(works, after))
    assert re.fullmatch(f"the executor broke: {told}", found.stopped)
    assert tuple(found.table.iloc[0])[:-1] == tuple(answer.table.iloc[0])[:-1] and found.table.tried[1] == 0
    with pytest.raises(BadOption, match=rf"mapspace\('k0'\): the executor broke: {told}"):
        j.scheduled.mapspace("k0", simulate=4, executor=_Answering(0, after))


@pytest.mark.test_all
def test_wb_tune_is_a_trace_that_is_tuned(j: wb.Journey, answer: Any):
    torch.manual_seed(0)
    found = wb.tune(program, torch.randn(40, 24), torch.randn(24, 24), machine="edge-8x8", fusion=APART, budget=BUDGET)
    assert found.table.equals(answer.table)


@pytest.mark.test_all
def test_what_the_user_said_of_other_kernels_stays(j: wb.Journey):
    given = j.with_(mapping={"k2": {"buffers": 1}, "k*": {"buffers": 1}})
    found = given.tuned(budget=BUDGET, kernels=["k0"])
    third = j.scheduled.record.kernels[2].kernel
    assert found.mappings and set(found.journey.options["mapping"]) == {"k0_matmul_relu", third, "k*"}
    all_found = j.with_(mapping={"k0*": {"buffers": 1}}).tuned(budget=BUDGET, kernels=["k0"])
    assert set(all_found.journey.options["mapping"]) == {"k0_matmul_relu"}


def test_kernels_without_a_space_are_told(tmp_path: Path):
    made = wb.trace(lambda x: torch.cumsum(x, 0), torch.randn(40), machine="edge-8x8")
    found = made.tuned(budget=4)
    assert "a template writes its loops" in found.table.note[0] and found.journey is made
    with pytest.raises(BadOption, match="a template writes its loops"):
        made.scheduled.mapspace("k0")
    with pytest.raises(BadOption, match="was not tuned: a template"):
        found.mapspace("k0")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"budget": 0}, "budget=0: expected a whole number, 1 or more"),
        ({"budget": True}, "budget=True"),
        ({"seed": -1}, "seed=-1: expected a whole number, 0 or more"),
        ({"kernels": [9]}, "9 is no name of a kernel, such as 'k0'"),
        ({"kernels": ["k9"]}, "no kernel has the name 'k9'"),
        ({"executor": 3}, "executor=3: expected a concurrent.futures.Executor"),
        ({"bugdet": 3}, "did you mean 'budget'"),
    ],
)
def test_wrong_options_are_told(j: wb.Journey, options: dict[str, Any], told: str):
    with pytest.raises(wb.WorkbenchError, match=told):
        j.tuned(**options)


def test_a_kernel_of_one_element_takes_the_mappings_of_its_space():
    made = wb.trace(lambda x: x + 1, torch.tensor(1.0), machine="edge-8x8")
    space = made.scheduled.mapspace("k0", simulate=10)
    for row, cycles in enumerate(space.table.cycles):
        again = made.with_(mapping={"k0": space.mapping(row)})
        assert again.simulated.cycles == cycles and again.scheduled.record.kernels[0].mapping.reason == "user"


@pytest.mark.test_all
def test_a_schedule_alone_has_no_map_space(j: wb.Journey):
    with pytest.raises(BadOption, match=r"use j\.scheduled"):
        wb.schedule(j.lowered, j.rendered, machine="edge-8x8").mapspace("k0")
    with pytest.raises(BadOption, match="rows 0 to"):
        j.scheduled.mapspace("k0").mapping(10**9)
