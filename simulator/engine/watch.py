"""Watches the compiled loop: a time limit, and a callback for progress.

Machine code sees neither the clock nor Ctrl-C. So the loop returns to Python after each stretch of events; there the
interpreter delivers pending signals and `Watch.look` reads the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.errors import SimulationStopped

EVENTS = 1 << 15
"""Events in a stretch. It takes some tens of milliseconds, which nobody notices; returning costs microseconds."""

Progress = Callable[[int, int], None]
"""A function that is called with the number of instructions that have started, and the number of all."""


@dataclass
class Watch:
    """The limit, the callback and the progress of a running simulation."""

    seconds: float | None
    progress: Progress | None
    launches: int
    instructions: int
    launch: int = 0
    kernel: str = ""
    before: int = 0
    """Instructions of the launches that have ended."""
    began: float = field(default_factory=time.monotonic)

    def look(self, started: int, cycle: int) -> None:
        """Reports progress, and raises when the time limit is reached; `started` counts in the current launch."""
        done = self.before + started
        if self.progress is not None:
            self.progress(done, self.instructions)
        if self.seconds is not None and time.monotonic() - self.began >= self.seconds:
            where = (self.launch, self.launches)
            raise SimulationStopped(self.seconds, self.kernel, where, (done, self.instructions), cycle)
