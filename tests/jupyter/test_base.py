"""Tests what every widget does: it answers, says its errors, ends, and leaves a static twin and no state."""

from __future__ import annotations

import gc
import json
import logging
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets.widgets.widget import _instances
from markupsafe import Markup

from tests.jupyter.browserless import Front
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets import widget_base
from workbench.jupyter.widgets.answers import Answer, Later
from workbench.jupyter.widgets.widget_base import VIEW, LabWidget


class Halves(LabWidget):
    def answer_half(self, of: int) -> Answer:
        return {"half": of / 2}

    def answer_bytes(self, buffers: list[bytes]) -> Answer:
        return {"count": len(buffers)}, [memoryview(buffers[0])]

    def answer_refused(self) -> Answer:
        raise BadOption("a half of what?")

    def answer_slow(self, fails: bool = False) -> Later:
        def work() -> Answer:
            self.go_on.wait(60)
            return self.answer_refused() if fails else {"done": True}

        self.go_on = threading.Event()
        return Later(work)

    def answer_interrupted(self) -> Answer:
        raise KeyboardInterrupt

    def static_html(self) -> Markup:
        return Markup("<p>halves</p>")


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """Records that reach the log during a test."""
    records = list[logging.LogRecord]()
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


def test_a_question_is_answered_with_its_number():
    front = Front(Halves())
    assert front.ask("half", of=3) == {"id": 1, "answer": {"half": 1.5}}
    assert front.ask("bytes", buffers=[b"abc"]) == {"id": 2, "answer": {"count": 1}}
    assert bytes(front.sent[-1][1][0]) == b"abc"


@pytest.mark.parametrize(
    ("what", "given", "said"),
    [
        ("refused", {}, "a half of what?"),
        ("interrupted", {}, "Interrupted. Press again"),
        ("half", {"of": "x"}, "TypeError: unsupported operand"),
        ("half", {}, "TypeError"),
        ("third", {}, "Halves has no answer to 'third'"),
        ("__init__", {}, "no answer"),
    ],
)
def test_what_goes_wrong_is_answered_and_never_logged(
    what: str, given: dict[str, object], said: str, logged: list[logging.LogRecord]
):
    answer = Front(Halves()).ask(what, **given)
    assert said in answer["error"] and "Traceback" not in answer["error"] and "answer" not in answer
    assert not logged


@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_that_takes_long_lets_others_be_answered_first(fails: bool):
    widget = Halves()
    front = Front(widget)
    front.post({"id": "slow", "ask": "slow", "given": {"fails": fails}})
    assert front.sent == [] and front.answer("half", of=2) == {"half": 1}
    widget.go_on.set()
    until = time.monotonic() + 60
    while len(front.sent) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    said = {"error": "a half of what?"} if fails else {"answer": {"done": True}}
    assert front.sent[-1][0] == {"id": "slow", **said}


@pytest.mark.parametrize("content", [{}, {"ask": None}, {"id": 1, "ask": "half", "given": {"buffers": 1}}])
def test_broken_messages_are_answered_with_an_error(content: dict[str, object]):
    front = Front(Halves())
    front.post(content)
    assert len(front.sent) == 1 and front.sent[0][0]["error"]


def test_what_is_told_after_the_end_is_not_sent():
    widget = Halves()
    front = Front(widget)
    widget.tell("news", {"a": 1})
    widget.close()
    widget.tell("news", {"a": 2})
    assert front.told("news") == [{"a": 1}]


@pytest.mark.test_all
def test_a_closed_widget_gives_its_memory_back():
    before = set(_instances)
    ended = list[int]()
    widget = Halves()
    widget.at_close(lambda: ended.append(1))
    gone = weakref.ref(widget)
    assert repr(widget) == "Halves()" and set(_instances) != before
    widget.close()
    widget.close()
    assert ended == [1] and repr(widget) == "Halves(closed)" and set(_instances) == before
    del widget
    gc.collect()
    assert gone() is None


def test_a_closed_widget_is_shown_as_closed(monkeypatch: pytest.MonkeyPatch):
    shown = list[dict[str, object]]()
    monkeypatch.setattr(widget_base, "publish_display_data", shown.append)
    widget = Halves()
    widget.close()
    widget._ipython_display_()
    assert shown == [{"text/plain": "Halves(closed)"}]
    assert widget._repr_mimebundle_() == ({"text/plain": "Halves(closed)"}, {})


def test_a_notebook_keeps_a_twin_and_no_address_and_no_state(monkeypatch: pytest.MonkeyPatch):
    shown = list[dict[str, object]]()
    monkeypatch.setattr(widget_base, "publish_display_data", shown.append)
    widget = Halves()
    InteractiveShell.instance().display_formatter.format(widget)
    twin, view = shown
    assert "<p>halves</p>" in str(twin["text/html"]) and VIEW not in twin
    assert "text/html" not in view and view["text/plain"] == "Halves()"
    bundle, _ = widget._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", VIEW}
    assert len(json.dumps(view)) < 200
    InteractiveShell.clear_instance()
