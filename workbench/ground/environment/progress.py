"""The progress of long work: a line in the terminal or below a notebook's cell, from the second second on.

    with waiting("schedule"):           # the journey, around a stage
        for kernel in counted(kernels):     # the stage, if it has something to count
            ...

A stage that counts its own work reports its progress with `reached`, its current step with `at`, and how far a long
item of it is with `so_far`.

Work that ends within a second writes nothing, and the line disappears at the end. A thread draws it, so that it also
moves during one long call. Work within work has no line of its own: the one line shows the innermost.

Work that reports its progress can also be stopped: work `in_background` has no line, and ends with `Stopped` at its
next report once its event is set.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TextIO, TypeVar, cast

from workbench.ground.errors import Stopped

T = TypeVar("T")

_DELAY_SECONDS = 1.0
_REDRAW_SECONDS = 0.5
_BAR_CELLS = 24


@dataclass
class Progress:
    """The progress of one piece of work."""

    what: str
    began: float = field(default_factory=time.perf_counter)
    done: int = 0
    total: int | None = None
    step: str = ""
    detail: str = ""
    """The progress of the current item."""
    within: Progress | None = None
    """The current work inside this one, if there is any; the line shows it."""

    def line(self, now: float) -> str:
        """The text of the line at time `now`."""
        if self.within is not None:
            return self.within.line(now)
        seconds, doing = now - self.began, ", ".join(filter(None, (self.step, self.detail)))
        what = f"{self.what}: {doing}" if doing else self.what
        if not self.total:
            return f"{what}  {seconds:.0f} s"
        full = _BAR_CELLS * self.done // self.total
        return f"{what}  |{'#' * full}{'.' * (_BAR_CELLS - full)}|  {self.done}/{self.total}  {seconds:.0f} s"


_CURRENT: ContextVar[Progress | None] = ContextVar("progress", default=None)
_STOP: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


@contextmanager
def in_background(what: str, stop: threading.Event) -> Generator[Progress]:
    """Background work: it draws no line, and ends when any thread sets `stop`."""
    progress = Progress(what)
    tokens = _CURRENT.set(progress), _STOP.set(stop)
    try:
        yield progress
    finally:
        _CURRENT.reset(tokens[0])
        _STOP.reset(tokens[1])


def _go_on() -> None:
    stop = _STOP.get()
    if stop is not None and stop.is_set():
        raise Stopped()


def counted(items: Sequence[T]) -> Iterator[T]:
    """The items one by one; the current line, if there is one, counts the finished ones."""
    progress = _CURRENT.get()
    if progress is None:
        yield from items
        return
    progress.done, progress.total = 0, len(items)
    for item in items:
        _go_on()
        yield item
        progress.done, progress.detail = progress.done + 1, ""


def reached(done: int, total: int) -> None:
    """Reports the progress of the work on the current line, if there is one."""
    _go_on()
    progress = _CURRENT.get()
    if progress is not None:
        progress.done, progress.total, progress.detail = done, total, ""


def so_far(detail: str) -> None:
    """Reports how far the current item of the work is; the line has it until the item is done."""
    _go_on()
    progress = _CURRENT.get()
    if progress is not None:
        progress.detail = detail


def at(step: str) -> None:
    """Reports the current step of the work on the current line; `""` removes the step."""
    progress = _CURRENT.get()
    if progress is not None:
        progress.step = step


class Line(Protocol):
    """A place for one line of text, which can be removed again."""

    def draw(self, text: str) -> None: ...

    def remove(self) -> None: ...


class _TerminalLine:
    """A line of a stream that has no other line below it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        self._width = max(self._width, len(text))
        self._stream.write(f"\r{text:<{self._width}}")
        self._stream.flush()

    def remove(self) -> None:
        self._stream.write(f"\r{'':<{self._width}}\r")
        self._stream.flush()


_BELOW_CELLS: list[Callable[[], Line | None]] = []
"""The function that gives the line below the running cell: the notebook's session adds it."""


def draw_below_cells(line_of: Callable[[], Line | None]) -> None:
    """Draws progress on the line that `line_of` returns, if there is no terminal."""
    _BELOW_CELLS[:] = [line_of]


def _watched_line() -> Line | None:
    """Returns a line that a user sees and that can be removed: in a terminal, or in the output of a shown cell. None
    for a log file or a program that runs notebooks, which would keep every line."""
    out = cast("TextIO | None", sys.stderr)  # a program without a console has none
    if out is not None and not out.closed and out.isatty():
        return _TerminalLine(out)
    return next(filter(None, (line_of() for line_of in _BELOW_CELLS)), None)


@contextmanager
def waiting(
    what: str, *, stream: TextIO | None = None, delay: float = _DELAY_SECONDS
) -> Generator[Progress, None, None]:
    """Shows a progress line while the block runs, once it has run for `delay` seconds: on `stream`, else on a terminal
    or below a cell."""
    _go_on()
    progress, around = Progress(what), _CURRENT.get()
    token = _CURRENT.set(progress)
    try:
        if around is not None:
            around.within = progress
        line = _TerminalLine(stream) if stream else None if around else _watched_line()
        with _drawn(progress, line, delay) if line else nullcontext():
            yield progress
    finally:
        if around is not None:
            around.within = None
        _CURRENT.reset(token)


@contextmanager
def _drawn(progress: Progress, line: Line, delay: float) -> Generator[None, None, None]:
    over = threading.Event()

    def draw() -> None:
        if over.wait(delay):
            return
        while True:
            line.draw(progress.line(time.perf_counter()))
            if over.wait(_REDRAW_SECONDS):
                break
        line.remove()

    thread = threading.Thread(target=draw, name=f"progress of {progress.what}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
