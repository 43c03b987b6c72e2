"""A session that tries settings: knobs are turned, the newest setting is scheduled and simulated, each step is kept.

    e = j.experiment()
    e.turn("tile.m", 64, kernel="k0")       # returns at once
    e.wait().cycles, e.table, e.journey

A new setting replaces one that is being computed: that run is stopped, and only the newest setting becomes a step. A
refused setting is also a step, with the reason, and the setting before it stays current.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Self

from markupsafe import Markup

from workbench.explaining.artefacts.pictures import widgets
from workbench.explaining.artefacts.staged import J
from workbench.explaining.views.graphs.kernel_groups import Run
from workbench.exploring.comparison import Comparison, compared
from workbench.exploring.knobs.knob import Knob, Value, kernel_of
from workbench.exploring.knobs.knobs_answer import Knobs, knobs_of
from workbench.exploring.knobs.turned_knobs import Turned, costs, refusal_of
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Table
from workbench.ground.environment.progress import Progress, in_background
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, Problem, ScheduleScriptError, Stopped, WorkbenchError

if TYPE_CHECKING:
    import pandas as pd

    from workbench.stages.journey_request import Request

PAUSE_SECONDS = 0.05
"""The pause after which a dragged slider has stopped: it sends a value every one or two frames, of 16 ms each."""


@dataclass(frozen=True, eq=False, repr=False)
class Step(Generic[J]):
    """One setting that was tried: its costs, or the reason of its refusal."""

    number: int
    """The step's number; 0 is the start."""
    setting: Turned[J]
    cycles: int | None = None
    bytes: int | None = None
    """Bytes moved from and to DRAM."""
    refused: str = ""
    problems: tuple[Problem, ...] = ()
    """The mistakes in a transform script, and their lines."""
    back_to: int | None = None
    """The earlier step with the same setting."""

    @property
    def call(self) -> str:
        """The call that makes the step's journey from the start, `j`."""
        return self.setting.call

    @property
    def journey(self) -> J:
        """The journey with this setting, made again from the caches on disk; a refused setting raises its error."""
        return self.setting.journey()

    @property
    def against_start(self) -> Comparison:
        """The comparison of the start and this step, as of `wb.compare`."""
        return _against(self.setting.start, self.journey)

    @property
    def findings(self) -> pd.DataFrame:
        """The findings that came, went and stayed since the start, as in `wb.compare`."""
        return self.against_start.findings

    def __repr__(self) -> str:
        told = f"refused: {self.refused}" if self.refused else f"{self.cycles or 0:,} cycles"
        return f"Step({self.number}, {told}, {self.call})"


class Experiment(Shown, Generic[J]):
    """A session that tries settings of one journey. A background thread computes the settings and runs the callbacks.
    All methods may be called from any thread."""

    def __init__(self, journey: J, request: Request, pause: float = PAUSE_SECONDS) -> None:
        self._start, self._request, self._pause = journey, request, pause
        self._news = threading.Condition()
        """Guards all fields below, and is notified when one changes."""
        first = Step(0, Turned(journey, request), *costs(journey.simulated.record))
        self._steps, self._current, self._journey = [first], first, journey
        self._knobs = dict[str, Knobs[J]]()
        self._wanted: Turned[J] = first.setting
        self._unsettled = list[tuple[object, Turned[J]]]()
        """(knob, setting before its turn) for each turn since the last step; successive turns of one knob are one."""
        self._held = list[Step[J]]()
        """Refused steps, held back while the turns before them are tried alone."""
        self._back_to: int | None = None
        self._asked = self._answered = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = self._working = False
        self._progress: Progress | None = None
        self._failed: BaseException | None = None
        self._callbacks = list[Callable[[Step[J]], object]]()

    @property
    def start(self) -> J:
        return self._start

    @property
    def current(self) -> Step[J]:
        """The last step that was not refused."""
        return self._current

    @property
    def journey(self) -> J:
        """The journey of the current step, which is kept with its timeline."""
        return self._journey

    @property
    def against_start(self) -> Comparison:
        """The comparison of the start and the current step."""
        return _against(self._start, self._journey)

    @property
    def history(self) -> tuple[Step[J], ...]:
        """Every step so far, the start first."""
        with self._news:
            return tuple(self._steps)

    @property
    def busy(self) -> bool:
        """True if a setting waits or is being computed."""
        return not self._closed and self._asked != self._answered

    @property
    def progress(self) -> str:
        """The current computation and its progress, in a line; empty if nothing is being computed."""
        progress = self._progress
        return progress.line(time.perf_counter()) if progress is not None and self.busy else ""

    @knows_its_options
    def knobs(self, kernel: str | None = None) -> Knobs[J]:
        """The knobs of the journey at the start and, if named, of one of its kernels."""
        name = "" if kernel is None else kernel_of(self._start, kernel)
        if name not in self._knobs:
            self._knobs[name] = knobs_of(self._start, self._request, name or None)
        return self._knobs[name]

    @knows_its_options
    def around(self, kernel: str | None = None) -> Knobs[J]:
        """The knobs as in `knobs`, but tried and swept from the current setting: other turned knobs stay."""
        return replace(self.knobs(kernel), _start=self._current.setting)

    @knows_its_options
    def turn(self, knob: str, value: Value, *, kernel: str | None = None) -> Self:
        """Turns a knob to another value; other turned knobs stay. Returns at once."""
        found: Knob = self.knobs(kernel)[knob]
        return self._ask(lambda wanted: wanted.with_value(found, value), found)

    @knows_its_options
    def script(self, kernel: str, text: str | None) -> Self:
        """Replaces a kernel's transform script; None restores the kernel's own."""
        name = kernel_of(self._start, kernel)
        return self._ask(lambda wanted: wanted.with_script(name, text), name)

    @knows_its_options
    def back(self, step: int | None = None) -> Self:
        """Goes back to the setting of an earlier step: of step number `step`, or of the one before the current step."""
        with self._news:
            good = [each.number for each in self._steps if not each.refused]
            earlier = [number for number in good if number < self._current.number]
            number = step if step is not None else earlier[-1] if earlier else 0
            if number not in good:
                raise BadOption(f"back({number}): expected a step that was not refused, of {', '.join(map(str, good))}")
            setting = self._steps[number].setting
        return self._ask(lambda _: setting, None, number)

    def _ask(self, change: Callable[[Turned[J]], Turned[J]], what: object, back_to: int | None = None) -> Self:
        with self._news:
            if self._closed:
                raise BadOption("the experiment is closed: j.experiment() begins another")
            before, self._wanted, self._back_to = self._wanted, change(self._wanted), back_to
            if back_to is not None:
                self._settle()
            if not self._unsettled or self._unsettled[-1][0] != what:
                self._unsettled.append((what, before))
            self._held.clear()
            self._asked += 1
            self._stop.set()  # the current computation is out of date
            self._news.notify_all()
            if not self._working:
                self._working = True
                self._thread = threading.Thread(target=self._work, name="experiment", daemon=True)
                self._thread.start()
        return self

    @knows_its_options
    def wait(self, seconds: float | None = None) -> Step[J]:
        """Waits until all settings are computed, or for `seconds`; returns the last step. Exceptions other than
        refusals, such as those of a callback, are raised here."""
        if threading.current_thread() is self._thread:
            raise BadOption(
                "wait() in a callback would wait for itself: the experiment continues when the callback has ended"
            )
        with self._news:
            self._news.wait_for(lambda: not self.busy or self._closed, seconds)
            if self._failed is not None:
                failed, self._failed = self._failed, None
                raise failed
            return self._steps[-1]

    @knows_its_options
    def on_step(self, callback: Callable[[Step[J]], object]) -> Callable[[], None]:
        """Calls `callback` with each new step, in the background thread; returns a function that ends this."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    def close(self) -> None:
        """Stops the current computation and accepts no more settings; steps stay."""
        with self._news:
            self._closed = True
            self._stop.set()
            self._news.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        """Computes settings until none is left."""
        while True:
            with self._news:
                asked = -1
                while not self._closed and self.busy and asked != self._asked:
                    asked = self._asked
                    self._news.wait_for(lambda before=asked: self._closed or self._asked != before, self._pause)
                if self._closed or not self.busy:
                    self._working = False
                    return
                setting, back_to = self._wanted, self._back_to
                self._stop = stop = threading.Event()
            try:
                made, journey = self._tried(setting, stop)
            except Stopped:
                continue
            except BaseException as error:  # `wait` raises it: a thread has no caller
                with self._news:
                    self._failed, self._answered = error, asked
                    if asked == self._asked:  # else there is a newer setting
                        self._wanted = self._current.setting
                        self._settle()
                    self._news.notify_all()
                continue
            self._take(made, journey, asked, back_to)

    def _settle(self) -> None:
        self._unsettled.clear()
        self._held.clear()

    def _tried(self, setting: Turned[J], stop: threading.Event) -> tuple[Step[J], J]:
        """The step, and its journey; if it is refused, the current journey."""
        with in_background("experiment", stop) as self._progress:
            try:
                journey = setting.journey()
                run = journey.simulated.record
            except Stopped:
                raise
            except WorkbenchError as error:
                problems = error.problems if isinstance(error, ScheduleScriptError) else ()
                return Step(-1, setting, refused=refusal_of(error), problems=problems), self._journey
        return Step(-1, setting, *costs(run)), journey

    def _take(self, made: Step[J], journey: J, asked: int, back_to: int | None) -> None:
        """Adds a step, unless there is a newer setting by now. If it is refused after several turns, the last turn is
        held back, and the turns before it are tried."""
        with self._news:
            if asked != self._asked or self._closed:
                return
            if made.refused and len(self._unsettled) > 1:
                self._held.append(made)
                _, self._wanted = self._unsettled.pop()
                self._asked += 1
                return
            first = len(self._steps)
            self._steps += [
                replace(each, number=first + more, back_to=back_to)
                for more, each in enumerate([made, *reversed(self._held)])
            ]
            steps = self._steps[first:]
            if not made.refused:
                self._current, self._journey = steps[0], journey
            self._wanted = self._current.setting
            self._settle()
        try:
            for step, callback in itertools.product(steps, tuple(self._callbacks)):
                callback(step)
        except BaseException as error:  # the session continues, and `wait` raises it
            self._failed = error
        with self._news:
            self._answered = max(self._answered, asked)
            self._news.notify_all()

    @property
    def table(self) -> pd.DataFrame:
        """One row for each step: cycles and bytes, their increase since the start, the refusal's reason, the call."""
        return data_frames.frame(self._table(), whole=("cycles", "more_cycles", "bytes", "more_bytes"))

    def _table(self) -> Table:
        first = self._steps[0]
        rows = tuple(
            (
                step.number,
                step.cycles,
                _more(step.cycles, first.cycles),
                step.bytes,
                _more(step.bytes, first.bytes),
                step.refused,
                step.call,
            )
            for step in self.history
        )
        return Table(("step", "cycles", "more_cycles", "bytes", "more_bytes", "refused", "call"), rows)

    @knows_its_options
    def text(self) -> str:
        """The table as text, with one line for each step."""
        return self._table().text(widest=100)

    @knows_its_options
    def html(self) -> Markup:
        """The table as HTML, with one row for each step."""
        return markup.fragment(markup.table(self._table(), wide=("refused", "call")))

    @knows_its_options
    def widget(self, kernel: str | None = None) -> object:
        """The session as a widget for a notebook: knobs of a kernel and of the journey, the costs of each step, the
        timeline beside the start's, the map over two knobs. Closing the widget leaves the session open."""
        return widgets("knobs_widget").knob_editor(self, kernel, ends_session=False)

    def __repr__(self) -> str:
        steps = len(self._steps) - 1
        return f"Experiment({steps} step{'s' * (steps != 1)}, now {self._current.cycles or 0:,} cycles)"


def _against(start: J, now: J) -> Comparison:
    runs = (("start", start), ("now", now))
    return compared(
        tuple(Run(name, j.lowered.record, j.scheduled.record, j.simulated.record, j.options) for name, j in runs)
    )


def _more(now: int | None, first: int | None) -> int | None:
    return None if now is None or first is None else now - first
