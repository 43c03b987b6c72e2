"""The selection of a journey, which all its widgets share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from workbench.explaining.views.selections.selection import Selection
from workbench.ground.errors import BadOption

Changed = Callable[[], None]
"""Called at each new selection."""

KEPT: Final = 200
"""The most selections that the history keeps."""


class SelectionModel:
    """The selection of a journey, its history in both directions, and its observers.

    `what` is anything that `Journey.select` takes. Where nothing is selected, `selection` is None.
    """

    def __init__(self, select: Callable[[object], Selection]) -> None:
        self._select = select
        self._history: list[Selection | None] = [None]
        self._place = 0
        self._observers: list[Changed] = []

    @property
    def selection(self) -> Selection | None:
        return self._history[self._place]

    def select(self, what: object) -> Selection | None:
        """Selects what `what` names; None selects nothing. An invalid `what` raises and changes nothing."""
        chosen = None if what is None else self._select(what)
        if chosen != self.selection:
            self._history = [*self._history[: self._place + 1], chosen][-KEPT:]
            self._place = len(self._history) - 1
            self._tell()
        return chosen

    def back(self) -> Selection | None:
        """Goes to the selection before this one, if there is one."""
        return self._step(-1)

    def forward(self) -> Selection | None:
        """Goes to the selection from which `back` came here, if there is one."""
        return self._step(1)

    @property
    def steps_back(self) -> int:
        """The number of selections that `back` can go to."""
        return self._place

    @property
    def steps_forward(self) -> int:
        return len(self._history) - 1 - self._place

    def observe(self, changed: Changed) -> Changed:
        """Calls `changed` at each new selection, until the returned function is called."""
        if not callable(changed):
            raise BadOption(f"observe({changed!r}): expected a function without arguments")
        self._observers.append(changed)

        def stop() -> None:
            if changed in self._observers:
                self._observers.remove(changed)

        return stop

    def _step(self, by: int) -> Selection | None:
        place = min(max(self._place + by, 0), len(self._history) - 1)
        if place != self._place:
            self._place = place
            self._tell()
        return self.selection

    def _tell(self) -> None:
        """Calls all observers, even if one of them raises; then raises the first error."""
        failed = list[Exception]()
        for changed in tuple(self._observers):
            try:
                changed()
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def __repr__(self) -> str:
        return f"SelectionModel({self.selection!r})"
