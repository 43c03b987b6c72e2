"""Who looks on while the compiled loop runs: a time limit, and somebody who wants to know how far it is.

Machine code sees neither the clock nor Ctrl-C. So the loop goes in stretches and comes back to Python after each, where
the interpreter delivers what signals have arrived, and `Watch.look` looks at the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.errors import SimulationStopped

EVENTS = 1 << 15
"""Events in a stretch: some tens of milliseconds, sooner than a person notices. Coming back costs microseconds."""

Progress = Callable[[int, int], None]
"""Told how many instructions have started, and how many there are."""


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
        """Tells how far it is, `started` being those of the launch that runs, and stops it when its time is over."""
        done = self.before + started
        if self.progress is not None:
            self.progress(done, self.instructions)
        if self.seconds is not None and time.monotonic() - self.began >= self.seconds:
            where = (self.launch, self.launches)
            raise SimulationStopped(self.seconds, self.kernel, where, (done, self.instructions), cycle)
