"""The progress line: silent for short work, gone at the end of long work, counting in between."""

from __future__ import annotations

import io
import threading
import time

import pytest

from workbench.ground.environment.progress import Progress, counted, in_background, so_far, waiting
from workbench.ground.errors import Stopped


def until_drawn(out: io.StringIO) -> None:
    """However long this machine takes to let the other thread draw."""
    while not out.getvalue():
        time.sleep(0.01)


def test_short_work_writes_nothing():
    out = io.StringIO()
    with waiting("schedule", stream=out):
        pass
    assert out.getvalue() == ""


def test_long_work_shows_a_line_and_takes_it_away():
    out = io.StringIO()
    with waiting("schedule", stream=out, delay=0.01) as progress:
        for _ in counted([1, 2]):
            until_drawn(out)
    assert (progress.done, progress.total) == (2, 2)
    text = out.getvalue()
    assert "schedule" in text
    assert text.endswith("\r") and text.rstrip("\r").endswith(" ")


def test_the_bar_counts_what_is_done():
    progress = Progress("render", began=0.0, done=3, total=4)
    assert progress.line(now=7.2) == "render  |" + "#" * 18 + "." * 6 + "|  3/4  7 s"
    assert Progress("capture", began=0.0).line(now=2.0) == "capture  2 s"


def test_a_long_item_says_how_far_it_is():
    out = io.StringIO()
    with waiting("schedule", stream=out, delay=10.0) as progress:
        for _ in counted(["k0"]):
            so_far("2,000 of 9,000 instructions")
            assert progress.line(now=progress.began).startswith("schedule: 2,000 of 9,000 instructions  |")
    assert progress.line(now=progress.began).startswith("schedule  |")


def test_work_in_the_background_can_be_stopped_within_an_item():
    stop = threading.Event()
    with in_background("schedule", stop):
        so_far("1,000 of 9,000 instructions")
        stop.set()
        with pytest.raises(Stopped):
            so_far("2,000 of 9,000 instructions")


def test_counting_without_a_line_just_passes_the_items_on():
    assert list(counted("abc")) == ["a", "b", "c"]


def test_an_error_in_the_work_ends_the_line_and_passes_on():
    out = io.StringIO()
    try:
        with waiting("capture", stream=out, delay=0.01):
            until_drawn(out)
            raise ValueError("no")
    except ValueError:
        pass
    assert out.getvalue().endswith("\r")


def test_a_log_file_collects_no_progress_lines(capsys: pytest.CaptureFixture[str]):
    with waiting("work", delay=0.0):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
