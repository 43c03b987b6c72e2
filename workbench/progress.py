"""One way of saying that something takes a while: a line in the terminal, from the second second on.

    with waiting("schedule"):           # the journey, around a stage
        for kernel in counted(kernels):     # the stage, if it has something to count
            ...

A stage whose work counts by itself says how far it is with `reached`, and what it is at with `at`.

Nothing is written when the work is done within a second, and the line is taken away at the end. A thread draws it, so
that it moves also where the work itself is one long call.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TextIO, TypeVar, cast

T = TypeVar("T")

_DELAY_SECONDS = 1.0
_REDRAW_SECONDS = 0.5
_BAR_CELLS = 24


@dataclass
class Progress:
    """How far one piece of work has come."""

    what: str
    began: float = field(default_factory=time.perf_counter)
    done: int = 0
    total: int | None = None
    step: str = ""

    def line(self, now: float) -> str:
        """What stands on the terminal at time `now`."""
        seconds, what = now - self.began, f"{self.what}: {self.step}" if self.step else self.what
        if not self.total:
            return f"{what}  {seconds:.0f} s"
        full = _BAR_CELLS * self.done // self.total
        return f"{what}  |{'#' * full}{'.' * (_BAR_CELLS - full)}|  {self.done}/{self.total}  {seconds:.0f} s"


_CURRENT: ContextVar[Progress | None] = ContextVar("progress", default=None)


def counted(items: Sequence[T]) -> Iterator[T]:
    """The items one by one; the line that is being shown, if there is one, counts those that are done."""
    progress = _CURRENT.get()
    if progress is None:
        yield from items
        return
    progress.done, progress.total = 0, len(items)
    for item in items:
        yield item
        progress.done += 1


def reached(done: int, total: int) -> None:
    """Says how far the work has come, on the line that is being shown, if there is one."""
    progress = _CURRENT.get()
    if progress is not None:
        progress.done, progress.total = done, total


def at(step: str) -> None:
    """Says which part of the work takes its time, on the line that is being shown; nothing more after `""`."""
    progress = _CURRENT.get()
    if progress is not None:
        progress.step = step


def _is_watched(stream: TextIO) -> bool:
    """Whether somebody sees the line, and it can be taken away again: at a terminal.

    A log file would collect it. So would a notebook: whatever is drawn and cleared there stays in the saved cell as an
    output, on slow machines and not on fast ones, and is a difference to whoever runs it anew.
    """
    return not stream.closed and stream.isatty()


@contextmanager
def waiting(
    what: str, *, stream: TextIO | None = None, delay: float = _DELAY_SECONDS
) -> Generator[Progress, None, None]:
    """Shows a progress line on `stream` (stderr) while the block runs, once it has run for `delay` seconds."""
    out = stream or cast("TextIO | None", sys.stderr)  # a program without a console has none
    progress = Progress(what)
    token = _CURRENT.set(progress)
    try:
        with _drawn(progress, out, delay) if out and (stream or _is_watched(out)) else nullcontext():
            yield progress
    finally:
        _CURRENT.reset(token)


@contextmanager
def _drawn(progress: Progress, out: TextIO, delay: float) -> Generator[None, None, None]:
    over = threading.Event()

    def draw() -> None:
        if over.wait(delay):
            return
        width = 0
        while True:
            line = progress.line(time.perf_counter())[: shutil.get_terminal_size().columns - 1]
            width = max(width, len(line))
            out.write(f"\r{line:<{width}}")
            out.flush()
            if over.wait(_REDRAW_SECONDS):
                break
        out.write(f"\r{'':<{width}}\r")
        out.flush()

    thread = threading.Thread(target=draw, name=f"progress of {progress.what}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
