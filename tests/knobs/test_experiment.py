"""A session of turning knobs: the newest setting wins, every step is kept, refusals change nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.exploring.knobs import Experiment, Step
from workbench.ground.environment.turns import turn
from workbench.ground.errors import BadOption


@pytest.fixture(scope="module")
def j() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32)), torch.randn(40, 48))


@pytest.fixture
def session(j: wb.Journey) -> Iterator[Experiment]:
    with j.experiment() as made:
        yield made


@pytest.mark.test_all
def test_each_step_has_its_costs_and_the_call_that_makes_it(j: wb.Journey, session: Experiment):
    session.turn("tile.m", 8, kernel="k0")
    first = session.wait(60)
    session.turn("buffers", 1, kernel="k1")
    second = session.wait(60)
    assert [step.number for step in session.history] == [0, 1, 2] and session.current is second
    for step in session.history:
        made = eval(step.call, {"j": j})
        stats = made.simulated.stats
        assert step.cycles == made.simulated.cycles == step.journey.simulated.cycles
        assert step.bytes == stats["dram_read_bytes"] + stats["dram_write_bytes"]
    assert first.cycles != j.simulated.cycles and "k0_linear_gelu" in second.call and "k1_linear" in second.call
    table = session.table
    assert list(table.more_cycles) == [step.cycles - j.simulated.cycles for step in session.history if step.cycles]
    assert set(second.findings.change) <= {"came", "went", "stays"}
    assert second.findings.equals(wb.compare(j, second.journey, names=("start", "now")).findings)


def test_a_refused_setting_is_a_step_with_its_reason_and_the_one_before_stays(session: Experiment):
    session.turn("tile.m", 8, kernel="k0").wait(60)
    refused = session.turn("tile.m", 999, kernel="k0").wait(60)
    assert refused.cycles is None and "tile of m = 999" in refused.refused
    assert session.current.number == 1
    after = session.turn("buffers", 1, kernel="k0").wait(60)
    assert after.refused == "" and "'m': 8" in after.call


@pytest.mark.parametrize("value", ["off", 0, None, [1]])
def test_a_rule_that_is_neither_on_nor_off_is_a_refused_step(j: wb.Journey, session: Experiment, value: object):
    refused = session.turn("fusion.elementwise chain", value).wait(60)  # pyright: ignore[reportArgumentType]
    assert f"fusion.elementwise chain = {value!r}: expected True or False" in refused.refused
    assert repr(value) in refused.call and repr(session.history) and session.text()
    assert list(session.table.refused)[1] == refused.refused
    with pytest.raises(wb.WorkbenchError, match="elementwise chain"):
        _ = eval(refused.call, {"j": j}).scheduled
    assert not session.turn("tile.m", 8, kernel="k0").wait(60).refused


def test_the_newest_of_many_wins_and_what_was_begun_leaves_no_step(j: wb.Journey, session: Experiment):
    with turn():  # nothing can be scheduled meanwhile
        for size in range(1, 30):
            session.turn("tile.m", size, kernel="k0")
        assert session.busy
    last = session.wait(60)
    assert [step.number for step in session.history] == [0, 1] and "'m': 29" in last.call
    assert last.cycles == j.knobs("k0").turned("tile.m", 29).simulated.cycles


def test_a_newer_setting_stops_the_one_that_is_being_worked_out(session: Experiment):
    came = list[Step]()
    session.on_step(came.append)
    with turn():
        session.turn("tile.m", 8, kernel="k0")
        while session._stop.is_set():  # until the thread has begun on it, and waits for its turn
            threading.Event().wait(0.01)
        session.turn("tile.m", 16, kernel="k0")
    last = session.wait(60)
    assert came == [last] and "'m': 16" in last.call


def test_going_back_is_a_step_of_its_own(session: Experiment):
    first = session.turn("tile.m", 8, kernel="k0").wait(60)
    session.turn("tile.m", 999, kernel="k0").wait(60)
    session.turn("tile.m", 16, kernel="k0").wait(60)
    again = session.back().wait(60)
    assert (again.back_to, again.cycles, again.call) == (1, first.cycles, first.call)
    start = session.back(0).wait(60)
    assert (start.back_to, start.call, start.number) == (0, "j", 5)
    for wrong in (2, 77):
        with pytest.raises(BadOption, match=rf"back\({wrong}\): expected a step that was not refused, of 0, 1, 3"):
            session.back(wrong)


def test_scripts_are_settings_like_others(j: wb.Journey, session: Experiment):
    script = j.scheduled.kernels[0].schedule
    same = session.script("k0", script).wait(120)
    assert same.cycles == j.simulated.cycles and "schedule=" in same.call
    broken = session.script("k0", "transform.nonsense").wait(120)
    assert "does not parse" in broken.refused and session.current is same


def test_what_a_callback_raises_is_raised_by_wait_and_the_session_goes_on(session: Experiment):
    def fail(_: Step) -> None:
        raise ZeroDivisionError

    end = session.on_step(fail)
    session.turn("tile.m", 8, kernel="k0")
    with pytest.raises(ZeroDivisionError):
        session.wait(60)
    end()
    assert session.turn("tile.m", 16, kernel="k0").wait(60).number == 2


@pytest.mark.test_all
def test_the_current_journey_is_kept_and_knobs_are_tried_around_it(j: wb.Journey, session: Experiment):
    assert session.journey is j and session.progress == ""
    step = session.turn("tile.m", 8, kernel="k0").wait(60)
    assert session.journey.simulated.cycles == step.cycles and session.journey is session.journey
    assert session.against_start.findings.equals(step.findings)
    around = session.around("k0")
    assert "'m': 8" in around.call("buffers", 1) and "'m': 8" not in session.knobs("k0").call("buffers", 1)
    assert around.sweep("buffers").today == (session.knobs("k0")["buffers"].value,)
    assert around.sweep("tile.m", values={"tile.m": [8]}).today == (8,)
    session.turn("tile.m", 999, kernel="k0").wait(60)
    assert session.journey.simulated.cycles == step.cycles
    session.back(0).wait(60)
    assert session.journey is j


def test_a_script_is_taken_away_again(j: wb.Journey, session: Experiment):
    script = j.scheduled.kernels[0].schedule
    session.script("k0", script).wait(120)
    broken = session.script("k0", script.replace("transform.apply_cse", "transform.nonsense")).wait(120)
    assert [problem.line for problem in broken.problems] == [
        number for number, line in enumerate(script.splitlines(), 1) if "apply_cse" in line
    ]
    assert session.script("k0", None).wait(60).call == "j"


def test_a_closed_session_takes_nothing_and_keeps_its_steps(j: wb.Journey):
    session = j.experiment()
    session.turn("tile.m", 8, kernel="k0").wait(60)
    session.close()
    with pytest.raises(BadOption, match="closed"):
        session.turn("tile.m", 16, kernel="k0")
    assert len(session.history) == 2 and "8" in session.html() and "1 step" in repr(session)
    assert not session._working


def test_a_session_that_is_closed_amid_a_turn_is_not_busy(j: wb.Journey):
    session = j.experiment()
    session.turn("tile.m", 8, kernel="k0").close()
    assert not session.busy and session.progress == "" and session.wait(1).number == 0


def test_what_cannot_be_called_is_refused_as_a_callback(session: Experiment):
    with pytest.raises(wb.WorkbenchError, match="callback=3"):
        session.on_step(3)  # pyright: ignore[reportArgumentType]


def test_what_was_turned_before_a_refused_value_is_not_lost(j: wb.Journey, session: Experiment):
    seen = list[tuple[int, str]]()
    session.on_step(lambda step: seen.append((step.number, step.refused)))
    session.turn("buffers", 1, kernel="k0").turn("tile.m", 20, kernel="k0").turn("tile.n", 9999, kernel="k0").wait(120)
    _, good, bad = session.history
    assert {knob.name: value for knob, value in good.setting.values.items()} == {"buffers": 1, "tile.m": 20}
    assert good.cycles == good.journey.simulated.cycles and session.current is good and not session.busy
    assert "tile of n = 9,999" in bad.refused and seen == [(1, ""), (2, bad.refused)]


def test_turns_of_one_knob_are_one(session: Experiment):
    session.turn("tile.m", 20, kernel="k0").turn("tile.m", 9999, kernel="k0").wait(120)
    assert len(session.history) == 2 and session.history[1].refused and session.current.number == 0


@pytest.mark.test_all
def test_of_two_refused_values_both_are_told(session: Experiment):
    session.turn("tile.m", 7777, kernel="k0").turn("tile.n", 8888, kernel="k0").wait(120)
    _, first, second = session.history
    assert "7,777" in first.refused and second.refused and session.current.number == 0 and not session.busy
    session.turn("tile.m", 20, kernel="k0").wait(120)
    assert session.current.number == 3


@pytest.mark.test_all
def test_what_a_script_sets_is_not_turned(j: wb.Journey, session: Experiment):
    kernel = j.knobs("k0").kernel
    session.script("k0", j.scheduled.record.kernels[0].schedule).wait(120)
    with pytest.raises(BadOption, match=f"tile.m of {kernel}: a script sets tile, order and cores"):
        session.turn("tile.m", 32, kernel="k0")
    with pytest.raises(BadOption, match="a script sets tile, order and cores"):
        session.around("k0").sweep("tile.m")
    assert "a script sets" in session.around("k0").why_not("order", ("n", "m", "k"))
    session.turn("buffers", 1, kernel="k0").wait(120)
    assert not session.history[-1].refused and session.history[-1].number == 2


def test_a_rule_that_is_on_anyway_is_not_in_the_call(j: wb.Journey, session: Experiment):
    session.turn("fusion.elementwise chain", True).turn("buffers", 1, kernel="k0").wait(120)
    assert "fusion" not in session.current.call
