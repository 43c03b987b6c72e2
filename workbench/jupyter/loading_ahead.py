"""Loads what a first trace needs while a person types: one module at a time, when no cell has run for a moment.

Modules are loaded between cells, in the thread that runs the cells, and only with the turn: PyTorch's modules import
each other in circles, so of two threads that import them each could see half of a module. A cell waits at most for the
module that is being loaded.

Nothing is loaded before PyTorch is: a session that opens journeys does not need these modules.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from workbench.ground.environment.turns import collecting_later, free_turn
from workbench.ground.packages import own_name
from workbench.ground.torch_inside.module_names import FIRST_LOADED

QUIET_SECONDS: Final = 0.3
"""The seconds without a cell before loading: cells that a program runs, or a person all at once, follow each other
sooner."""

MODULES: Final = (
    FIRST_LOADED,
    "torch.export",
    "workbench.journey",
    "torch_mlir.dialects.linalg",
    "workbench.capturing.capture",
    "workbench.lowering.lower",
    "workbench.rendering.render",
    "workbench.scheduling.schedule",
    own_name("simulator.engine.engine"),
)
"""The modules in the order in which a trace needs them."""


@dataclass
class LoadingAhead:
    """The modules that are still to be loaded in a session."""

    left: list[str] = field(default_factory=lambda: list(MODULES))
    _next: asyncio.TimerHandle | None = None

    def begin(self, shell: Any) -> None:
        """Loads after the cells of a kernel; other sessions have no loop to do it in."""
        if getattr(shell, "kernel", None) is not None and not hasattr(shell, "_workbench_loads_ahead"):
            shell._workbench_loads_ahead = self
            shell.events.register("pre_run_cell", self.cell_begins)
            shell.events.register("post_run_cell", self.cell_ends)

    def cell_begins(self, _: object) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def cell_ends(self, _: object) -> None:
        self.cell_begins(_)
        if self.left and "torch" in sys.modules and threading.current_thread() is threading.main_thread():
            with suppress(RuntimeError):  # no loop runs the cell
                self._next = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._load_one)

    def _load_one(self) -> None:
        with suppress(Exception), collecting_later(), free_turn() as free:
            # code that needs a missing or broken module reports it
            if not free:
                self.left.clear()  # another thread compiles, and loads all of it
                return
            import_module(self.left.pop(0))
        self._next = asyncio.get_running_loop().call_later(0, self._load_one) if self.left else None
