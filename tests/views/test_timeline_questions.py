"""Tests answers of a timeline: areas, idle time, searches, columns and dependences, beside the trace's records."""

from __future__ import annotations

import random

import numpy as np
import pytest

import workbench as wb
from simulator import Cause
from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK
from simulator.analysis.slack import dependences, slack_of
from simulator.analysis.stalls import stalls_of
from simulator.tileprogram.program import Opcode
from tests.jupyter.timelines import RUNS, shared, softmax, two_cores
from workbench.explaining.views.timelines.columns import critical_columns, dependence_columns, packed, timeline_columns
from workbench.explaining.views.timelines.gantt import LAUNCH
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.explaining.views.timelines.timeline_questions import MEMORY, REASONS, gap
from workbench.ground.errors import BadOption


@pytest.fixture(params=RUNS)
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return RUNS[request.param]()


def test_an_area_is_what_the_spans_in_it_do(journey: wb.Journey):
    run, draw = journey.simulated, random.Random(1)
    trace, busy = run.trace, run.trace.busy_cycles
    for _ in range(12):
        begin, end = sorted(draw.sample(range(trace.makespan + 1), 2))
        for row in run.area(begin, end).itertuples():
            mine = np.flatnonzero(trace.unit == trace.unit_names.index(row.unit))
            inside = [each for each in mine if trace.start[each] < end and trace.end[each] > begin]
            assert row.spans == len(inside) and row.cycles == end - begin
            worked = [(trace.end[each] - busy[each], trace.end[each]) for each in inside]
            if "scalar" not in row.unit:  # a scalar unit waits for answers in between, which its bar shows before
                expected = sum(max(min(stop, end) - max(start, begin), 0) for start, stop in worked)
                assert row.busy_cycles == expected
            moved = sum(
                trace.bytes[each]
                * (min(trace.end[each], end) - max(trace.start[each], begin))
                / (trace.end[each] - trace.start[each])
                for each in inside
                if trace.bytes[each]
            )
            assert row.bytes == pytest.approx(moved)
            assert row.bytes_per_cycle == pytest.approx(moved / (end - begin))


def test_the_area_of_the_whole_run_is_what_the_run_did(journey: wb.Journey):
    run = journey.simulated
    found = run.area(0, run.cycles)
    assert found["spans"].sum() == len(run.trace)
    assert found["bytes"].sum() == pytest.approx(run.trace.bytes.sum())
    assert found["busy_cycles"].tolist() == run.stalls["busy"].tolist()
    one = run.area(0, run.cycles, units=["vpu" if "vpu" in run.trace.unit_names else "core1.vpu"])
    assert len(one) == 1 and one["busy_cycles"][0] > 0


@pytest.mark.test_all(but=3)
def test_all_gaps_of_a_unit_are_its_stalls(journey: wb.Journey):
    """From gap to gap through the whole run: each cause has as many cycles as `.stalls` says."""
    trace, lanes = journey.simulated.trace, {}
    view = gantt_of(trace)
    for lane, each in enumerate(view.lanes):
        lanes[each.name] = view.of_lane(lane)
    for row in stalls_of(trace):
        unit, cycle, cycles = str(row["unit"]), 0, dict[str, int]()
        part = lanes.get(unit, slice(0, 0))
        while cycle < trace.makespan:
            works = (view.work_start[part] <= cycle) & (cycle < view.end[part])
            if works.any():
                with pytest.raises(BadOption, match=f"{unit} is not idle in cycle"):
                    gap(trace, unit, cycle)
                cycle = int(view.end[part][works][0])
                continue
            found = gap(trace, unit, cycle)
            assert found.begin == cycle < found.end
            cycles[found.cause] = cycles.get(found.cause, 0) + found.end - found.begin
            cycle = found.end
        told = {cause: count for cause, count in row.items() if cause not in ("unit", "busy", "total") and count}
        assert cycles == told


def test_a_gap_names_what_was_waited_for(journey: wb.Journey):
    trace, first = journey.simulated.trace, np.searchsorted(journey.simulated.trace.launch, np.arange(99))
    view, named = gantt_of(trace), 0
    for lane, each in enumerate(view.lanes):
        part = view.idle_time.of_lane(lane)
        for begin in view.idle_time.start[part].tolist():
            found = gap(trace, each.name, begin)
            assert f"span {found.next_span} (" in found.reason and "{" not in found.reason
            if found.waited_for < 0:
                continue
            named += 1
            last = Cause(trace.cause[found.next_span])
            assert found.cause == last.label or (last == Cause.BANDWIDTH and found.cause in MEMORY)
            blocker = int(trace.blocker[found.next_span]) + int(first[trace.launch[found.next_span]])
            assert found.waited_for == blocker and trace.launch[blocker] == trace.launch[found.next_span]
    assert named


def test_a_gap_is_a_row_in_words():
    run = softmax().simulated
    view = gantt_of(run.trace)
    places = [
        (view.lanes[int(view.idle_time.lane[place])].name, int(view.idle_time.start[place]))
        for place in np.flatnonzero(view.idle_time.cause == Cause.DATA)
    ]
    # a span that began for another reason does not say whose data it had waited for before
    unit, begin = next(each for each in places if gap(run.trace, *each).waited_for >= 0)
    row = run.gap(unit, begin).iloc[0]
    assert row.cycles == row.end - row.begin and row.cause == "data"
    assert row.reason == f"span {row.next_span} ({_kind(run, row.next_span)}) needs data of span {row.waited_for} (" + (
        f"{_kind(run, row.waited_for)})"
    )


def _kind(run: object, row: int) -> str:
    span = run.events.iloc[row]  # type: ignore[attr-defined]
    return f"{span.kind} on {span.unit}"


def test_every_cause_has_a_reason():
    causes = {cause.label for cause in Cause if cause != Cause.BANDWIDTH} | {MEMORY_PEAK, INEFFICIENT}
    assert causes | {LAUNCH, "finished", "host", "scalar_latency"} <= set(REASONS)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: run.area(10, 10), "area(10, 10): expected two cycles of this run in order"),
        (lambda run: run.area(-1, 10), "from 0 to its end"),
        (lambda run: run.area(0, 10**9), "from 0 to its end"),
        (lambda run: run.area(0, 10, units=["dam0"]), "there is no unit 'dam0'"),
        (lambda run: run.gap("vpu2", 1), "did you mean 'vpu'?"),
        (lambda run: run.gap("vpu", 10**9), "expected a cycle of this run"),
        (lambda run: run.search("knid:load"), "there is no field 'knid'; did you mean 'kind'?"),
    ],
)
def test_what_is_not_there_is_said(ask: object, said: str):
    with pytest.raises(BadOption) as error:
        ask(softmax().simulated)  # type: ignore[operator]
    assert said in str(error.value)


def test_a_search_finds_what_has_all_words(journey: wb.Journey):
    run = journey.simulated
    events = run.events
    assert run.search("").index.tolist() == events.index.tolist()
    loads = run.search("KIND:load")
    assert loads.index.tolist() == events.index[events.kind == "LOAD"].tolist()
    unit = events.unit[0]
    both = run.search(f"unit:{unit} load")
    has = [
        row.unit == unit and any("load" in name.lower() for name in (row.kernel, row.kind, row.unit, *row.origins))
        for row in events.itertuples()
    ]
    assert both.index.tolist() == events.index[has].tolist()
    node = next(names[0] for names in events.origins if names)
    mine = run.search(f"node:{node}").index.tolist()
    assert mine == [row for row, names in enumerate(events.origins) if node in " ".join(names)]
    kernel = events.kernel[len(events) - 1]
    assert run.search(f"kernel:{kernel}").index.tolist() == events.index[events.kernel.str.contains(kernel)].tolist()


def test_columns_hold_the_trace(journey: wb.Journey):
    run = journey.simulated
    trace, block = run.trace, timeline_columns(run.trace, run.scheduled.launches)
    header, rows = block.header, block.column("row")
    assert sorted(rows.tolist()) == list(range(len(trace)))
    assert block.column("start").tolist() == trace.start[rows].tolist()
    assert block.column("end").tolist() == trace.end[rows].tolist()
    first = block.column("lane_first")
    names = [header["lanes"][np.searchsorted(first, place, "right") - 1]["name"] for place in range(len(rows))]
    assert names == [trace.unit_names[unit] for unit in trace.unit[rows]]
    events = run.events.iloc[rows]
    assert [header["kinds"][kind] for kind in block.column("kind")] == events.kind.tolist()
    assert [header["causes"][cause] for cause in block.column("cause")] == events.cause.tolist()
    assert [header["programs"][launch] for launch in block.column("launch")] == events.kernel.tolist()
    assert header["kernels"] == [launch.name for launch in run.scheduled.launches.launches]
    assert [tuple(header["origins"][names]) for names in block.column("origin")] == events.origins.tolist()
    idle = block.column("idle_end").astype(int) - block.column("idle_start")
    assert idle.sum() == (gantt_of(trace).idle_time.end - gantt_of(trace).idle_time.start).sum()
    if len(trace.channel_bytes):
        moved = block.column("channel_moved").reshape(len(trace.channel_bytes), -1)
        assert np.array_equal(np.diff(moved), trace.channel_bytes)


def test_columns_take_the_smallest_type_that_holds_them():
    large = {"a": np.array([255]), "b": np.array([256]), "c": np.array([1 << 16]), "d": np.array([1 << 32, 1])}
    block = packed({}, large)
    assert [each["type"] for each in block.header["columns"]] == ["u8", "u16", "u32", "f64"]
    assert [block.column(name).tolist() for name in "abcd"] == [[255], [256], [1 << 16], [1 << 32, 1]]


def test_dependences_have_room_that_is_there(journey: wb.Journey):
    """A span that started because of a dependence has one without room, and no room is below zero."""
    trace = journey.simulated.trace
    found = dependences(trace)
    assert found.room.min(initial=0) >= 0
    assert (trace.launch[found.later] == trace.launch[found.earlier]).all()
    assert np.diff(found.later).min(initial=0) >= 0
    first = np.searchsorted(trace.launch, np.arange(len(trace.kernels)))
    without = found.room == 0
    tight = set(zip(found.later[without].tolist(), found.earlier[without].tolist(), strict=True))
    checked = 0
    for row in np.flatnonzero(np.isin(trace.cause, [Cause.DATA, Cause.WRITE_AFTER_READ])).tolist():
        if trace.kind[row] != Opcode.MATMUL:  # a matmul starts with its first streamed row, after its preload
            assert (row, int(trace.blocker[row] + first[trace.launch[row]])) in tight
            checked += 1
    assert checked


def test_what_can_be_late_by_its_room_has_at_most_that_slack(journey: wb.Journey):
    """A span is no freer than its tightest follower and the room to it leave it."""
    trace = journey.simulated.trace
    found, slack = dependences(trace), slack_of(trace)
    assert (slack[found.earlier] <= slack[found.later] + found.room).all()


def test_dependences_and_the_critical_path_as_columns():
    run = two_cores().simulated
    found, block = dependences(run.trace), dependence_columns(run.trace)
    assert block.column("slack").tolist() == run.events.slack.tolist()
    first, out = block.column("out_first"), block.column("out")
    for row in range(len(run.trace)):
        later = block.column("later")[out[first[row] : first[row + 1]]]
        assert sorted(later.tolist()) == sorted(found.later[found.earlier == row].tolist())
    path = critical_columns(run.trace).column("critical").tolist()
    steps = run.critical_path
    assert path == sorted(
        {row for row, what in zip(steps.span, steps.what, strict=True) if row >= 0 and what != "issue"}
    )


def test_a_loaded_journey_answers_alike(tmp_path: object):
    path = f"{tmp_path}/it.journey"
    softmax().save(path)
    again, run = wb.load(path).simulated, softmax().simulated
    assert again.area(0, 100).equals(run.area(0, 100))
    assert again.gap("vpu", 0).equals(run.gap("vpu", 0))
    assert again.search("load").index.tolist() == run.search("load").index.tolist()
    for make in (dependence_columns, critical_columns):
        assert make(again.trace).data == make(run.trace).data


def test_equal_kernels_are_found_and_told_by_either_name():
    """`j.simulated.events.kernel` says the program, everything that is drawn the launch's own kernel."""
    run = shared().simulated
    own, program = (run.scheduled.launches.launches[-1].name, run.scheduled.launches.launches[-1].kernel)
    assert own != program and set(run.events.kernel) == set(run.trace.kernels) and own not in run.trace.kernels
    rows = np.flatnonzero(run.trace.launch == len(run.trace.kernels) - 1).tolist()
    assert run.search(f"kernel:{own}").index.tolist() == rows
    assert set(rows) < set(run.search(f"kernel:{program}").index)
    end = run.trace.kernel_spans[-1][2]
    assert run.gap("vpu", end - 1).reason[0] == f"it has nothing left to do in {own}"
