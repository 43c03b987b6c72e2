"""The map of mappings: the cost of each pair of values of two knobs."""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Self

from markupsafe import Markup

from workbench.explaining.artefacts import drawing
from workbench.explaining.artefacts.staged import J
from workbench.explaining.views.comparisons import heat_map
from workbench.explaining.views.comparisons.heat_map import HeatMap, Spot, heat_map_picture
from workbench.exploring.knobs.knob import Knob, Value, text_of
from workbench.exploring.knobs.turned_knobs import Turned, costs, refusal_of
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.basics.table import Table
from workbench.ground.environment.progress import Progress, counted, in_background, waiting
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, Stopped, WorkbenchError

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.plot_types import Axes


_MOST_POINTS = 4096
"""The most points of a map: each takes a tenth of a second or more, and a picture cannot show more."""


@dataclass(frozen=True, slots=True)
class Point:
    """The costs of one setting, which was scheduled and simulated, or the reason of its refusal."""

    values: tuple[Value, ...]
    cycles: int | None = None
    bytes: int | None = None
    """Bytes moved from and to DRAM."""
    refused: str = ""
    microseconds: float = 0.0
    """The time of the cycles: points may be on machines with different clocks."""


@dataclass(eq=False, repr=False)
class Sweep(Shown, Generic[J]):
    """The costs of each setting of one knob or two. Points come row by row: for each value of the first knob all values
    of the second. Their figures depend only on the setting."""

    start: Turned[J]
    knobs: tuple[Knob, ...]
    axes: tuple[tuple[Value, ...], ...]
    on_point: Callable[[Point], object] | None = None
    _points: list[Point] = field(default_factory=list[Point])
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _failed: list[BaseException] = field(default_factory=list[BaseException])

    @classmethod
    def started(
        cls,
        start: Turned[J],
        knobs: tuple[Knob, ...],
        axes: tuple[tuple[Value, ...], ...],
        *,
        background: bool,
        on_point: Callable[[Point], object] | None,
    ) -> Self:
        """Runs a sweep, or starts it in the background, and returns it."""
        if not 1 <= len(knobs) <= 2 or len(set(knobs)) < len(knobs):
            named = ", ".join(repr(knob.name) for knob in knobs) or "none"
            raise BadOption(f"sweep takes one knob or two different ones, but was given {named}")
        count = math.prod(map(len, axes))
        if count > _MOST_POINTS:
            raise BadOption(f"sweep of {count:,} points: expected {_MOST_POINTS:,} at most; values={{...}} gives fewer")
        made = cls(start, knobs, axes, on_point)
        if background:
            made._thread = threading.Thread(target=made._behind, name="sweep", daemon=True)
            made._thread.start()
        else:
            made._in_front()
        return made

    @property
    def points(self) -> tuple[Point, ...]:
        """The finished points."""
        return tuple(self._points)

    @property
    def total(self) -> int:
        """The number of all points."""
        return math.prod(map(len, self.axes))

    @property
    def done(self) -> bool:
        """True if no more points will come: all are finished, or the sweep was stopped."""
        return self._over.is_set()

    @property
    def stopped(self) -> bool:
        """True if the sweep ended before all points were finished."""
        return self.done and len(self._points) < self.total

    @knows_its_options
    def stop(self, *, wait: bool = True) -> None:
        """Stops the sweep, even during a simulation; finished points stay. Returns when it has ended or, without
        `wait`, at once."""
        self._stop.set()
        if wait and threading.current_thread() is not self._thread:  # this thread itself ends only after `on_point`
            self.wait()

    @knows_its_options
    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the sweep is done, or for `seconds`; returns True if it is done. Exceptions of a point other than
        refusals, and exceptions of `on_point`, are raised here."""
        if threading.current_thread() is self._thread:
            raise BadOption("wait() in on_point would wait for itself: the sweep continues when on_point has ended")
        over = self._over.wait(seconds)
        if over and self._failed:
            raise self._failed[0]
        return over

    @property
    def best(self) -> Point | None:
        """The fastest point, of several the first; None if every setting was refused."""
        ran = [point for point in self.points if point.cycles is not None]
        return min(ran, key=lambda point: point.microseconds) if ran else None

    @property
    def today(self) -> tuple[Value, ...]:
        """The knobs' values at the start, even if the map does not have them."""
        return tuple(map(self.start.value_of, self.knobs))

    @property
    def table(self) -> pd.DataFrame:
        """One row for each point: the values, cycles and bytes of DRAM or the refusal, and the call that makes it."""
        return data_frames.frame(self._table(), whole=("cycles", "bytes"))

    def _table(self) -> Table:
        rows = (
            (
                *map(_cell, each.values),
                each.cycles,
                each.bytes,
                each.refused,
                "" if each.refused else self._at(each.values).call,
            )
            for each in self.points
        )
        return Table((*(knob.name for knob in self.knobs), "cycles", "bytes", "refused", "call"), tuple(rows))

    @knows_its_options
    def take(self, *values: Value) -> J:
        """The journey at a point of the map; without values, at the best point."""
        if values:
            chosen = tuple(tuple(each) if isinstance(each, list) else each for each in values)
            made = self._at(chosen).journey()
            if refused := next((point.refused for point in self.points if point.values == chosen), ""):
                raise BadOption(f"take{values!r}: this setting was refused: {refused}")
            return made
        if self.best is None:
            raise BadOption("take(): every setting of this map was refused; .table says why")
        return self._at(self.best.values).journey()

    def _at(self, values: tuple[Value, ...]) -> Turned[J]:
        if len(values) != len(self.knobs):
            named = ", ".join(knob.name for knob in self.knobs)
            raise BadOption(f"take{values!r}: expected one value for each of {named}")
        made = self.start
        for knob, value in zip(self.knobs, values, strict=True):
            made = made.with_value(knob, value)
        return made

    @property
    def record(self) -> HeatMap:
        """The data of the heat map, with the finished points."""
        spots = {
            point.values: Spot(point.cycles, point.bytes, point.refused, point.microseconds) for point in self.points
        }
        *first, across = self.axes
        rows = first[0] if first else (None,)
        return HeatMap(
            tuple(knob.name for knob in self.knobs),
            self.knobs[0].kernel or self.knobs[-1].kernel,
            tuple("" if value is None else text_of(value) for value in rows),
            tuple(map(text_of, across)),
            tuple(tuple(spots.get((column,) if row is None else (row, column)) for column in across) for row in rows),
            self.place(self.today),
            self.place(self.best.values) if self.best else None,
        )

    def place(self, values: tuple[Value, ...]) -> tuple[int, int] | None:
        """Row and column of a point (row 0 if there is only one knob); None if the map does not have it."""
        if any(value not in axis for value, axis in zip(values, self.axes, strict=True)):
            return None
        *row, column = (axis.index(value) for value, axis in zip(values, self.axes, strict=True))
        return (row[0] if row else 0), column

    @knows_its_options
    def text(self) -> str:
        """A summary with the best point, and one line for each point."""
        names = (*(knob.name for knob in self.knobs), "cycles", "bytes", "refused")
        told = [heat_map.summary(self.record), ""] if self.points else []
        return "\n".join([*told, self._table().pick(*names).text(widest=100)])

    @knows_its_options
    def html(self) -> Markup:
        """The heat map, and below it the table in a closed section."""
        rows = markup.details("table", markup.table(self._table(), wide=("refused", "call")))
        return markup.fragment(svg_of(heat_map_picture(self.record)) + rows)

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "light", width: float = 8.0) -> Axes:
        """The heat map with matplotlib: `style` is light or dark, `width` the inches of a new figure."""
        return drawing().axes(functools.partial(heat_map_picture, self.record), ax, style=style, width=width)

    def __repr__(self) -> str:
        state = "" if len(self._points) == self.total else f" of {self.total}"
        best = f", best {self.best.cycles:,} cycles" if self.best else ""
        return f"Sweep({' x '.join(knob.name for knob in self.knobs)}: {len(self._points)}{state} points{best})"

    def _in_front(self) -> None:
        try:
            self._run(waiting("sweep"))
        except KeyboardInterrupt:
            self._stop.set()  # finished points stay
        finally:
            self._over.set()

    def _behind(self) -> None:
        try:
            self._run(in_background("sweep", self._stop))
        except Stopped:
            pass
        except BaseException as error:  # `wait` raises it: a thread has no caller
            self._failed.append(error)
        finally:
            self._over.set()

    def _run(self, around: AbstractContextManager[Progress]) -> None:
        with around:
            for values in counted(list(itertools.product(*self.axes))):
                point = self._measured(values)
                self._points.append(point)
                if self.on_point is not None:
                    self.on_point(point)

    def _measured(self, values: tuple[Value, ...]) -> Point:
        try:
            run = self._at(values).journey().simulated.record
        except Stopped:
            raise
        except WorkbenchError as error:
            return Point(values, refused=refusal_of(error))
        return Point(values, *costs(run), microseconds=run.makespan / run.machine.clock_mhz)


def _cell(value: Value) -> Value:
    """A value for a table; a number of more than 64 bits, which is always refused, becomes text."""
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
