"""Readers' findings in the lab, a test each: sums of several cores, waits for oneself, numbers of numpy."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any, cast

import numpy as np
import pytest
import torch

import workbench as wb
from tests.jupyter.browserless import PATIENCE_SECONDS, Front
from workbench.ground.errors import BadOption


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(lambda a, b: torch.relu(a @ b), torch.randn(64, 64), torch.randn(64, 64), machine="edge-8x8")


@pytest.fixture(scope="module")
def two_cores() -> wb.Journey:
    mapping = {"*": {"tile": {"m": 128, "n": 128, "k": 64}}}
    machine = wb.machine("edge-8x8", cores=2)
    return wb.trace(lambda a, b: a @ b, torch.randn(512, 512), torch.randn(512, 512), machine=machine, mapping=mapping)


def test_no_core_holds_more_than_its_own_scratchpad(two_cores: wb.Journey):
    run = two_cores.simulated
    capacity = run.record.machine.scratchpad_bytes
    for cycle in range(0, run.cycles, run.cycles // 50):
        moment = run.at(cycle)
        assert moment.record.bytes_now <= capacity and "of the fullest core" in repr(moment)


def test_moving_cycles_of_several_cores_are_said_to_be_sums(two_cores: wb.Journey):
    assert "those of 2 cores added up" in two_cores.simulated.pipeline(0).text()


@pytest.mark.test_all
def test_numbers_that_tables_hand_out_are_taken(journey: wb.Journey):
    run, knobs = journey.simulated, journey.knobs("k0")
    events = run.events
    product = events[events.kind == "MATMUL"].index[0]
    assert run.at(events.start[3]).cycle == events.start[3]
    assert run.array(product).span == product
    assert len(run.area(events.start[1], events.end[4]))
    assert run.pipeline(events.launch[0]).record.launch == 0
    sizes = knobs.values("tile.m")
    some = sizes.value[sizes.allowed].iloc[0]
    assert knobs.turned("tile.m", np.int64(some)).simulated.cycles == knobs.turned("tile.m", int(some)).simulated.cycles
    given = journey.with_(mapping={"*": {"tile": {"m": np.int64(some)}}})
    assert given.simulated.cycles == journey.with_(mapping={"*": {"tile": {"m": int(some)}}}).simulated.cycles
    assert type(given.options["mapping"]["*"]["tile"]["m"]) is int
    sweep = knobs.sweep("tile.m", values={"tile.m": np.array([some])})
    assert not sweep.points[0].refused
    with pytest.raises(BadOption, match=r"values of tile\.m are 5; expected a list"):
        knobs.sweep("tile.m", values={"tile.m": 5})


@pytest.mark.test_all
def test_a_sweep_can_be_stopped_by_its_own_points(journey: wb.Journey):
    started, box = threading.Event(), dict[str, object]()

    def enough(_: object) -> None:
        started.wait()
        box["sweep"].stop()

    box["sweep"] = sweep = journey.knobs("k0").sweep("tile.m", "tile.n", background=True, on_point=enough)
    started.set()
    assert sweep.wait(60) and len(sweep.points) == 1


def test_a_callback_cannot_wait_for_itself(journey: wb.Journey):
    with journey.experiment() as session:
        session.on_step(lambda _: session.wait())
        session.turn("tile.m", 16, kernel="k0")
        with pytest.raises(BadOption, match="would wait for itself"):
            session.wait(60)
        assert not session.busy


def test_a_figure_that_no_machine_can_have_is_a_refused_step(journey: wb.Journey):
    with journey.experiment() as session:
        session.turn("machine.cores", 0).wait()
        assert "expected more than zero" in session.history[-1].refused
        assert list(session.table.call) == ["j", "j.with_(machine=j.machine.with_(cores=0))"]
    assert 0 not in next(knob for knob in journey.knobs().knobs if knob.name == "machine.cores").values


def test_an_observer_that_raises_leaves_the_others_told(journey: wb.Journey):
    told = list[int]()
    stops = [journey.selection.observe(lambda: 1 // 0), journey.selection.observe(lambda: told.append(1))]
    with pytest.raises(ZeroDivisionError):
        journey.selection.select(0)
    assert told == [1] and journey.selection.selection == journey.select(0)
    for stop in stops:
        stop()
    with pytest.raises(BadOption, match=r"observe\(3\): expected a function"):
        journey.selection.observe(3)
    journey.selection.select(None)


def test_a_kernel_goes_by_its_number(journey: wb.Journey):
    (kernel,) = journey.select(0).kernels
    assert journey.select("k0").spans == journey.select(kernel).spans
    assert journey.select("k0:12").mlir_lines == journey.select(f"{kernel}:12").mlir_lines
    assert journey.select("k0#3").instructions == journey.select(f"{kernel}#3").instructions


def test_a_closed_timeline_says_so(journey: wb.Journey):
    widget = journey.simulated.widget()
    widget.close()
    with pytest.raises(BadOption, match="the timeline is closed"):
        widget.show(0, 10)


def test_messages_of_nobody_are_not_answered(journey: wb.Journey):
    widget = journey.widget()
    front = Front(widget)
    for content in ("x", None, []):
        front.post(content)
    assert front.sent == []
    widget.close()


@pytest.mark.test_all
def test_a_closed_lab_lets_go_of_all_that_its_views_held(journey: wb.Journey):
    """A notebook keeps what its cells showed in `Out`, and so every widget that was ever opened."""
    lab = cast("Any", journey.widget())
    front = Front(lab)
    for name in ("findings.open", "passes.open", "knobs.open"):
        front.answer(name)
    views = [weakref.ref(look) for look in lab.looks.values()]
    assert len(views) == 6
    lab.close()
    until = time.monotonic() + PATIENCE_SECONDS
    while held := [view for view in views if view() is not None]:  # threads that have answered are about to end
        assert time.monotonic() < until, held
        time.sleep(0.01)
        gc.collect()
    with pytest.raises(BadOption, match="closed, and its views with it"):
        _ = lab.looks


def test_rules_are_asked_once_for_all_that_shows_findings(journey: wb.Journey, own_rules: None):
    asked = list[object]()

    def rule(facts: object) -> list[wb.Finding]:
        asked.append(facts)
        return []

    wb.finding("counts")(rule)
    again = journey.with_()
    front = Front(cast("Any", again.widget()))
    front.answer("findings.open")
    front.answer("about", run=0, span=0)
    assert len(again.findings) and len(asked) == 1
    wb.finding("another")(rule)
    assert len(again.findings) and len(asked) == 3, "a rule that is new is asked"
