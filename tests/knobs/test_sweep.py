"""The map of mappings: every point is what `with_` gives, and it can be stopped anywhere."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.exploring.knobs import Point, Sweep
from workbench.ground.environment.progress import in_background
from workbench.ground.errors import BadOption, Stopped


@pytest.fixture(scope="module")
def j() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(lambda x, w: torch.relu(x @ w), torch.randn(96, 64), torch.randn(64, 80), machine="edge-8x8")


VALUES = {"tile.m": [8, 48, 96, 97], "tile.n": [16, 80]}


@pytest.fixture(scope="module")
def swept(j: wb.Journey) -> Sweep:
    return j.knobs("k0").sweep("tile.m", "tile.n", values=VALUES)


def test_every_point_is_what_with_gives(j: wb.Journey, swept: Sweep):
    assert [point.values for point in swept.points] == [(m, n) for m in VALUES["tile.m"] for n in VALUES["tile.n"]]
    for point, call in zip(swept.points, swept.table.call, strict=True):
        if point.refused:
            assert call == ""
            continue
        made = eval(call, {"j": j})
        stats = made.simulated.stats
        assert point.cycles == made.simulated.cycles == swept.take(*point.values).simulated.cycles
        assert point.bytes == stats["dram_read_bytes"] + stats["dram_write_bytes"]
    refused = [point for point in swept.points if point.refused]
    assert {point.values[0] for point in refused} >= {97} and all("97" in p.refused for p in refused if 97 in p.values)
    assert len({point.cycles for point in swept.points if point.cycles}) > 1


def test_it_is_the_same_again_in_the_background_and_from_another_process_of_thought(j: wb.Journey, swept: Sweep):
    came = list[Point]()
    again = j.knobs("k0").sweep("tile.m", "tile.n", values=VALUES, background=True, on_point=came.append)
    assert again.wait() and again.done and not again.stopped
    assert again.points == swept.points == tuple(came)
    assert again.best == swept.best and again.html() == swept.html()


def test_the_best_is_the_least_and_its_journey_can_be_taken(swept: Sweep):
    assert swept.best is not None
    assert swept.best.cycles == min(point.cycles for point in swept.points if point.cycles)
    assert swept.take().simulated.cycles == swept.best.cycles


def test_one_knob_and_the_machines_knobs_are_swept_too(j: wb.Journey):
    tiled = j.with_(mapping={"*": {"tile": {"m": 48, "n": 80, "k": 64}}})  # on all of them: less latency, fewer cycles
    one = tiled.knobs().sweep("machine.dram_latency_ns")
    assert [point.values[0] for point in one.points] == list(j.knobs()["machine.dram_latency_ns"].values)
    cycles = [point.cycles or 0 for point in one.points]
    assert cycles == sorted(cycles) and len(set(cycles)) == len(cycles) > 1
    assert one.record.down == "" and one.record.rows == ("",)


def test_interrupting_it_leaves_what_is_there(j: wb.Journey):
    def interrupt(point: Point) -> None:
        if point.values == (8, 80):
            raise KeyboardInterrupt

    made = j.knobs("k0").sweep("tile.m", "tile.n", values=VALUES, on_point=interrupt)
    assert (len(made.points), made.total, made.done, made.stopped) == (2, 8, True, True)
    assert made.best is not None and "2 of 8 points" in repr(made) and "of the 2 of 8 settings" in made.text()
    assert made.record.spots[3][1] is None


def test_stopping_it_ends_it_and_the_journey_is_as_it_was(j: wb.Journey, swept: Sweep):
    begun, stop, cycles = threading.Event(), threading.Event(), j.simulated.cycles
    made = j.knobs("k0").sweep(
        "tile.m", "tile.n", values=VALUES, background=True, on_point=lambda _: (begun.set(), stop.wait())
    )
    assert begun.wait(60)
    threading.Timer(0.05, stop.set).start()
    made.stop()
    assert made.done and 1 <= len(made.points) < made.total
    assert made.points == swept.points[: len(made.points)] and j.simulated.cycles == cycles


class _After(threading.Event):
    """Set once it was looked at so often."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def test_wherever_work_is_stopped_it_can_be_asked_for_again(j: wb.Journey):
    expected = j.with_(machine="tpu-v3").simulated.cycles
    stops = 0
    for looks in range(40):
        made = j.with_(machine="tpu-v3")
        try:
            with in_background("test", _After(looks)):
                _ = made.simulated
        except Stopped:
            stops += 1
            assert made.simulated.cycles == expected
        else:
            break
    assert 3 <= stops < 40


def test_what_a_callback_raises_is_raised_by_wait(j: wb.Journey):
    def fail(_: Point) -> None:
        raise ZeroDivisionError

    made = j.knobs("k0").sweep("tile.m", values={"tile.m": [8, 16]}, background=True, on_point=fail)
    with pytest.raises(ZeroDivisionError):
        made.wait()
    assert len(made.points) == 1


@pytest.mark.parametrize(
    ("knobs", "values", "words"),
    [
        ((), None, "one knob or two different ones, but was given none"),
        (("tile.m", "tile.m"), None, "two different ones"),
        (("tile.m", "tile.n", "buffers"), None, "one knob or two"),
        (("tile.m",), {"tile.n": [1]}, "which is not a swept knob"),
        (("tile.m",), {"tile.m": []}, "has no values"),
        (("tile.m", "tile.n"), {"tile.m": list(range(1, 97)), "tile.n": list(range(1, 81))}, "7,680 points"),
        (("tile.q",), None, "no knob 'tile.q'"),
        (("tile.m",), {"tile.m": [32, {}]}, r"tile\.m is \{\}, of type dict; expected 1 to"),
        (("tile.m",), {"tile.m": [32, np.array([32, 64])]}, "of type ndarray; expected 1 to"),
        (("tile.m",), {"tile.m": [torch.tensor(32)]}, "of type Tensor; expected 1 to"),
        (("tile.m",), {"tile.m": np.array(32)}, "expected a list"),
        (("tile.m",), {"tile.m": torch.tensor(32)}, "expected a list"),
        (("tile.m",), {"tile.m": b"3"}, "expected a list"),
        (("tile.m",), {"tile.m": {8: 16}}, "expected a list"),
        (("order",), {"order": [["m", 3]]}, r"order is \['m', 3\], of type list; expected each dim once"),
    ],
)
def test_what_cannot_be_swept_is_told(j: wb.Journey, knobs: tuple[str, ...], values, words: str):
    with pytest.raises(BadOption, match=words):
        j.knobs("k0").sweep(*knobs, values=values)


def test_a_value_that_no_number_of_a_table_holds_is_refused_and_shown(j: wb.Journey):
    made = j.knobs("k0").sweep("tile.m", values={"tile.m": [8, 10**30]})
    assert list(made.table["tile.m"]) == [8, str(10**30)] and made.points[1].refused
    assert f"{10**30}" in made.text() and made.html()


def test_points_that_are_not_there_cannot_be_taken(j: wb.Journey, swept: Sweep):
    with pytest.raises(BadOption, match=r"one value for each of tile\.m, tile\.n"):
        swept.take(8)
    with pytest.raises(BadOption, match=r"take\(97, 16\): this setting was refused: .*97"):
        swept.take(97, 16)
    none = j.knobs("k0").sweep("tile.m", values={"tile.m": [97]})
    with pytest.raises(BadOption, match="every setting of this map was refused"):
        none.take()
    assert "every setting was refused" in none.html()
