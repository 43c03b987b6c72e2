"""Watches the compiled loop: a time limit, and a callback for progress.

Machine code sees neither the clock nor Ctrl-C. So the loop runs in stretches and returns to Python after each, where
the interpreter delivers pending signals and `Watch.look` reads the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.errors import SimulationStopped

EVENTS = 1 << 15
"""Events in a stretch: some tens of milliseconds, sooner than a person notices. Returning costs microseconds."""

Progress = Callable[[int, int], None]
"""Called with how many instructions have started, and how many there are."""


@dataclass
class Watch:
    """One simulation, as it goes on."""

    seconds: float | None
    progress: Progress | None
    launches: int
    instructions: int
    launch: int = 0
    kernel: str = ""
    before: int = 0
    """Instructions of the launches that are over."""
    began: float = field(default_factory=time.monotonic)

    def look(self, started: int, cycle: int) -> None:
        """Reports progress, `started` being of the current launch, and stops the run when its time is over."""
        done = self.before + started
        if self.progress is not None:
            self.progress(done, self.instructions)
        if self.seconds is not None and time.monotonic() - self.began >= self.seconds:
            where = (self.launch, self.launches)
            raise SimulationStopped(self.seconds, self.kernel, where, (done, self.instructions), cycle)
